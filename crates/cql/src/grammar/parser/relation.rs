//! Parses relations of `WHERE` and of `IF`.

use super::{Parser, Result};
use crate::grammar::ast::{
    ComparisonOperator, Condition, CustomIndexExpression, Expression, ExpressionKind, InValues,
    Name, Position, Predicate, Relation, RelationTarget, WhereClause,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the text after `WHERE`.
    pub(super) fn where_clause(&mut self) -> Result<WhereClause<'a>> {
        let mut clause = WhereClause::default();
        loop {
            if self.is_word_ahead(0, "expr") && self.kind(1) == TokenKind::LeftParenthesis {
                clause.custom.push(self.custom_index_expression()?);
            } else {
                clause.relations.push(self.relation()?);
            }
            if !self.accept_keyword(Keyword::AND) {
                return Ok(clause);
            }
        }
    }

    fn custom_index_expression(&mut self) -> Result<CustomIndexExpression<'a>> {
        let position = self.position();
        self.advance();
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        let index = self.name("name of an index")?;
        self.expect(TokenKind::Comma, "','")?;
        let value = self.term()?;
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(CustomIndexExpression { index, value, position })
    }

    /// Parses the text after `IF`, other than `NOT EXISTS`.
    pub(super) fn condition(&mut self) -> Result<Condition<'a>> {
        if self.is_keyword(Keyword::EXISTS) && !self.begins_predicate(1) {
            self.advance();
            return Ok(Condition::Exists);
        }
        Ok(Condition::Relations(self.conjunction(Self::condition_relation)?))
    }

    fn begins_predicate(&self, ahead: usize) -> bool {
        match self.kind(ahead) {
            TokenKind::LeftBracket | TokenKind::Dot => true,
            TokenKind::Keyword(Keyword::IN | Keyword::CONTAINS) => true,
            kind => comparison_operator(kind).is_some(),
        }
    }

    fn relation(&mut self) -> Result<Relation<'a>> {
        let position = self.position();
        match self.kind(0) {
            TokenKind::LeftParenthesis if self.is_column_tuple() => {
                let columns = self.column_names()?;
                let predicate = self.columns_predicate()?;
                Ok(Relation { target: RelationTarget::Columns(columns), predicate, position })
            }
            TokenKind::LeftParenthesis => self.nested(|parser| {
                parser.advance();
                let relation = parser.relation()?;
                parser.expect(TokenKind::RightParenthesis, "')'")?;
                Ok(relation)
            }),
            TokenKind::Keyword(Keyword::TOKEN) => {
                self.advance();
                let target = RelationTarget::Token(self.column_names()?);
                let predicate = match self.between()? {
                    Some(between) => between,
                    None => self.comparison(Self::term)?,
                };
                Ok(Relation { target, predicate, position })
            }
            _ => self.column_relation(position),
        }
    }

    /// Returns whether the current parenthesis opens a list of columns, rather than a relation.
    fn is_column_tuple(&self) -> bool {
        let after = self.kind(2);
        self.is_name(1) && matches!(after, TokenKind::Comma | TokenKind::RightParenthesis)
    }

    fn column_names(&mut self) -> Result<Vec<Name<'a>>> {
        self.parenthesized(|parser| parser.name("name of a column"))
    }

    fn column_relation(&mut self, position: Position) -> Result<Relation<'a>> {
        let column = self.name("relation")?;
        if self.is(TokenKind::LeftBracket) {
            let target = RelationTarget::Element(column, self.element_key()?);
            let predicate = self.comparison(Self::term)?;
            return Ok(Relation { target, predicate, position });
        }
        let predicate = match self.kind(0) {
            TokenKind::Keyword(Keyword::IN) => Predicate::In(self.in_values()?),
            TokenKind::Keyword(Keyword::CONTAINS) => self.contains()?,
            TokenKind::Keyword(Keyword::NOT) => self.negation()?,
            TokenKind::Keyword(Keyword::LIKE) => {
                self.advance();
                Predicate::Like(self.term()?)
            }
            TokenKind::Keyword(Keyword::IS) => {
                self.advance();
                self.keyword(Keyword::NOT)?;
                self.keyword(Keyword::NULL)?;
                Predicate::IsNotNull
            }
            _ => match self.between()? {
                Some(between) => between,
                None => self.comparison(Self::term)?,
            },
        };
        Ok(Relation { target: RelationTarget::Column(column), predicate, position })
    }

    fn condition_relation(&mut self) -> Result<Relation<'a>> {
        let position = self.position();
        let column = self.name("condition")?;
        let target = match self.kind(0) {
            TokenKind::LeftBracket => RelationTarget::Element(column, self.element_key()?),
            TokenKind::Dot => {
                self.advance();
                RelationTarget::Field(column, self.name("name of a field")?)
            }
            _ => RelationTarget::Column(column),
        };
        let predicate = match self.kind(0) {
            TokenKind::Keyword(Keyword::IN) => Predicate::In(self.in_values()?),
            TokenKind::Keyword(Keyword::CONTAINS)
                if matches!(target, RelationTarget::Column(_)) =>
            {
                self.contains()?
            }
            _ => self.comparison(Self::term)?,
        };
        Ok(Relation { target, predicate, position })
    }

    /// Parses `[key]` after a column.
    pub(super) fn element_key(&mut self) -> Result<Expression<'a>> {
        self.expect(TokenKind::LeftBracket, "'['")?;
        let key = self.term()?;
        self.expect(TokenKind::RightBracket, "']'")?;
        Ok(key)
    }

    /// Parses `= value`, `< value`, ...
    fn comparison(
        &mut self,
        value: fn(&mut Self) -> Result<Expression<'a>>,
    ) -> Result<Predicate<'a>> {
        let operator =
            comparison_operator(self.kind(0)).ok_or_else(|| self.expected("operator"))?;
        self.advance();
        Ok(Predicate::Compare(operator, value(self)?))
    }

    /// Parses `CONTAINS value` or `CONTAINS KEY key`.
    fn contains(&mut self) -> Result<Predicate<'a>> {
        self.keyword(Keyword::CONTAINS)?;
        if self.accept_keyword(Keyword::KEY) {
            return Ok(Predicate::ContainsKey(self.term()?));
        }
        Ok(Predicate::Contains(self.term()?))
    }

    /// Parses `NOT IN ...`, `NOT CONTAINS value` or `NOT CONTAINS KEY key`. Only `WHERE` has them.
    fn negation(&mut self) -> Result<Predicate<'a>> {
        self.keyword(Keyword::NOT)?;
        if self.is_keyword(Keyword::IN) {
            return Ok(Predicate::NotIn(self.in_values()?));
        }
        Ok(match self.contains()? {
            Predicate::ContainsKey(key) => Predicate::NotContainsKey(key),
            Predicate::Contains(value) => Predicate::NotContains(value),
            other => other,
        })
    }

    /// Parses `BETWEEN low AND high`. Returns `None` if the next word is not `BETWEEN`.
    fn between(&mut self) -> Result<Option<Predicate<'a>>> {
        if !self.accept_word("between") {
            return Ok(None);
        }
        let low = self.term()?;
        self.keyword(Keyword::AND)?;
        Ok(Some(Predicate::Between(low, self.term()?)))
    }

    /// Parses `IN (value, ...)` or `IN ?`.
    fn in_values(&mut self) -> Result<InValues<'a>> {
        self.keyword(Keyword::IN)?;
        if self.is_marker(0) {
            return Ok(InValues::BindMarker(self.marker()?));
        }
        self.expect(TokenKind::LeftParenthesis, "'(' or bind marker")?;
        let values = self.list_until(TokenKind::RightParenthesis, "')'", Self::term)?;
        Ok(InValues::Values(values))
    }

    /// Parses the operator and the right side that follow a tuple of columns, `(a, b)`.
    fn columns_predicate(&mut self) -> Result<Predicate<'a>> {
        if self.accept_keyword(Keyword::NOT) {
            self.keyword(Keyword::IN)?;
            return Ok(Predicate::NotIn(self.tuples()?));
        }
        if self.accept_keyword(Keyword::IN) {
            return Ok(Predicate::In(self.tuples()?));
        }
        self.comparison(Self::tuple_or_marker)
    }

    /// Parses the tuples after `IN`.
    fn tuples(&mut self) -> Result<InValues<'a>> {
        if self.is_marker(0) {
            return Ok(InValues::BindMarker(self.marker()?));
        }
        self.expect(TokenKind::LeftParenthesis, "'(' or bind marker")?;
        let values = match self.kind(0) {
            TokenKind::RightParenthesis => Vec::new(),
            // The values are either all tuples or all markers.
            TokenKind::LeftParenthesis => self.list(Self::tuple)?,
            _ => self.list(Self::marker_expression)?,
        };
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(InValues::Values(values))
    }

    fn tuple_or_marker(&mut self) -> Result<Expression<'a>> {
        if self.is_marker(0) { self.marker_expression() } else { self.tuple() }
    }

    fn tuple(&mut self) -> Result<Expression<'a>> {
        let position = self.position();
        let kind = ExpressionKind::Tuple(self.parenthesized(Self::term)?);
        Ok(Expression { kind, position })
    }
}

pub(super) fn comparison_operator(kind: TokenKind) -> Option<ComparisonOperator> {
    Some(match kind {
        TokenKind::Equal => ComparisonOperator::Equal,
        TokenKind::NotEqual => ComparisonOperator::NotEqual,
        TokenKind::Less => ComparisonOperator::Less,
        TokenKind::LessOrEqual => ComparisonOperator::LessOrEqual,
        TokenKind::Greater => ComparisonOperator::Greater,
        TokenKind::GreaterOrEqual => ComparisonOperator::GreaterOrEqual,
        _ => return None,
    })
}

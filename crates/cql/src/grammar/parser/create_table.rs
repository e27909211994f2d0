//! `CREATE TABLE`, and the parts that other statements share with it.

use super::{Parser, Result};
use crate::grammar::ast::{
    ColumnDefinition, ColumnMask, CopiedPart, CreateTable, CreateTableLike, Name, Position,
    PrimaryKey, QualifiedName, Statement, TableOptions,
};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::TokenKind;

impl<'a> Parser<'a> {
    /// Parses the text after `CREATE TABLE`.
    pub(super) fn create_table_statement(&mut self, position: Position) -> Result<Statement<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name("name of a table")?;
        if self.accept_keyword(Keyword::LIKE) {
            let like = self.create_table_like(name, if_not_exists)?;
            return Ok(Statement::CreateTableLike(like));
        }
        self.create_table(position, name, if_not_exists).map(Statement::CreateTable)
    }

    /// Parses the text after `LIKE`.
    fn create_table_like(
        &mut self,
        name: QualifiedName<'a>,
        if_not_exists: bool,
    ) -> Result<CreateTableLike<'a>> {
        let source = self.qualified_name("name of a table")?;
        let mut copied = Vec::new();
        let mut options = TableOptions::default();
        if self.accept_keyword(Keyword::WITH) {
            self.conjunction(|parser| {
                let is_property = parser.kind(1) == TokenKind::Equal;
                if !is_property && parser.accept_word("indexes") {
                    copied.push(CopiedPart::Indexes);
                } else if !is_property && parser.accept_word("comments") {
                    copied.push(CopiedPart::Comments);
                } else if parser.is_word_ahead(0, "security") && parser.is_word_ahead(1, "labels") {
                    parser.advance();
                    parser.advance();
                    copied.push(CopiedPart::SecurityLabels);
                } else {
                    options.properties.push(parser.property()?);
                }
                Ok(())
            })?;
            self.check_properties(&options.properties)?;
        }
        Ok(CreateTableLike { name, if_not_exists, source, copied, options })
    }

    /// Parses the columns and options of a table.
    fn create_table(
        &mut self,
        position: Position,
        name: QualifiedName<'a>,
        if_not_exists: bool,
    ) -> Result<CreateTable<'a>> {
        let mut columns = Vec::new();
        let mut primary_keys = Vec::new();
        self.definitions(|parser| {
            if parser.is_keyword(Keyword::PRIMARY) {
                primary_keys.push(parser.primary_key()?);
                return Ok(());
            }
            let column = parser.column_definition()?;
            let position = parser.position();
            if parser.accept_keyword(Keyword::PRIMARY) {
                parser.keyword(Keyword::KEY)?;
                let partition = vec![column.name.clone()];
                primary_keys.push(PrimaryKey { partition, clustering: Vec::new(), position });
            }
            columns.push(column);
            Ok(())
        })?;
        let options = self.clause(Keyword::WITH, Self::table_options)?.unwrap_or_default();
        Ok(CreateTable { name, if_not_exists, columns, primary_keys, options, position })
    }

    /// Parses `( definition, ... )`. Additional commas are allowed.
    pub(super) fn definitions(
        &mut self,
        mut definition: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        definition(self)?;
        while self.accept(TokenKind::Comma) {
            if !matches!(self.kind(0), TokenKind::Comma | TokenKind::RightParenthesis) {
                definition(self)?;
            }
        }
        self.expect(TokenKind::RightParenthesis, "')'").map(drop)
    }

    /// Parses `name type [STATIC] [MASKED WITH ...] [NOT NULL] [CHECK ...]`.
    pub(super) fn column_definition(&mut self) -> Result<ColumnDefinition<'a>> {
        let name = self.name("name of a column")?;
        let type_name = self.type_name()?;
        let is_static = self.accept_keyword(Keyword::STATIC);
        let masked = self.is_keyword(Keyword::MASKED);
        let mask = if masked { Some(self.column_mask()?) } else { None };
        let checks = self.checks()?;
        Ok(ColumnDefinition { name, type_name, is_static, mask, checks })
    }

    /// Parses `MASKED WITH DEFAULT` or `MASKED WITH function(argument, ...)`.
    pub(super) fn column_mask(&mut self) -> Result<ColumnMask<'a>> {
        let position = self.position();
        self.keyword(Keyword::MASKED)?;
        self.keyword(Keyword::WITH)?;
        let called = self.is_function(0);
        let function = if called || !self.accept_keyword(Keyword::DEFAULT) {
            Some(self.function_call(Self::term)?)
        } else {
            None
        };
        Ok(ColumnMask { function, position })
    }

    /// Parses `PRIMARY KEY (a, b)` or `PRIMARY KEY ((a, b), c)`.
    pub(super) fn primary_key(&mut self) -> Result<PrimaryKey<'a>> {
        let position = self.position();
        self.keyword(Keyword::PRIMARY)?;
        self.keyword(Keyword::KEY)?;
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        let partition = if self.is(TokenKind::LeftParenthesis) {
            self.parenthesized(Self::column_name)?
        } else {
            vec![self.column_name()?]
        };
        let mut clustering = Vec::new();
        while self.accept(TokenKind::Comma) {
            clustering.push(self.column_name()?);
        }
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(PrimaryKey { partition, clustering, position })
    }

    fn column_name(&mut self) -> Result<Name<'a>> {
        self.name("name of a column")
    }

    /// Parses the text after the `WITH` of a table or view.
    pub(super) fn table_options(&mut self) -> Result<TableOptions<'a>> {
        let mut options = TableOptions::default();
        self.conjunction(|parser| {
            let position = parser.position();
            let next = parser.kind(1);
            if parser.is_keyword(Keyword::COMPACT) && next == TokenKind::Keyword(Keyword::STORAGE) {
                parser.advance();
                parser.advance();
                options.compact_storage = Some(position);
            } else if parser.is_keyword(Keyword::CLUSTERING)
                && next == TokenKind::Keyword(Keyword::ORDER)
            {
                parser.advance();
                parser.advance();
                parser.keyword(Keyword::BY)?;
                options.clustering_order.extend(parser.parenthesized(Self::column_order)?);
            } else {
                options.properties.push(parser.property()?);
            }
            Ok(())
        })?;
        self.check_properties(&options.properties)?;
        Ok(options)
    }

    /// Parses `column ASC` or `column DESC`; returns true for descending.
    fn column_order(&mut self) -> Result<(Name<'a>, bool)> {
        let column = self.column_name()?;
        let descending = self.accept_keyword(Keyword::DESC);
        if !descending && !self.accept_keyword(Keyword::ASC) {
            return Err(self.expected("ASC or DESC"));
        }
        Ok((column, descending))
    }
}

//! The parser: recursive descent over the tokens, with a module for each family of statements.
//!
//! Where two readings are possible, a bounded look-ahead decides. Text is parsed twice only in
//! `type_in_parentheses`, `hint_or_tuple` and `transaction_answer`, where the cost is bounded. Time
//! and memory are linear in the text, and the depth of recursion is bounded by `MAX_NESTING`.

mod alter_table;
mod annotate;
mod arithmetic;
mod check;
mod create_table;
mod describe;
mod failure;
mod function;
mod index;
mod insert;
mod keyspace;
mod literal;
mod marker;
mod modification;
mod name;
mod permission;
mod property;
mod relation;
mod role;
mod scylla;
mod select;
mod selector;
mod statement;
mod term;
mod transaction;
mod type_name;
mod update;
mod user_type;
mod view;

use super::MAX_NESTING;
use super::ast::{BindMarkers, Name, Parsed, Position, TypeName, WhereClause};
use super::error::SyntaxError;
use super::keyword::Keyword;
use super::lexer::tokenize;
use super::token::{Token, TokenKind};
use failure::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// The state of the parser.
struct Parser<'a> {
    text: &'a str,
    /// At least one token. The last is `End` or `Invalid`; the parser never advances past it.
    tokens: Vec<Token>,
    /// Index of the current token.
    at: usize,
    /// The number of active calls of `nested`.
    nesting: u32,
    /// The deepest level of the expression that is being parsed, counted like `nesting`.
    deepest: u32,
    /// True if terms may refer to rows of `LET`.
    has_references: bool,
    /// The names of the bind markers so far.
    markers: Vec<Option<Name<'a>>>,
}

/// A state of the parser to return to.
#[derive(Clone, Copy)]
struct Checkpoint {
    at: usize,
    deepest: u32,
    markers: usize,
}

/// Parses one statement.
pub(super) fn parse(text: &str) -> std::result::Result<Parsed<'_>, SyntaxError> {
    parse_with(text, |parser| {
        let statement = parser.statement()?;
        while parser.accept(TokenKind::Semicolon) {}
        Ok(statement)
    })
    .map(|(statement, names)| Parsed { statement, bind_markers: BindMarkers { names } })
}

/// Parses a single type.
pub(super) fn parse_type(text: &str) -> std::result::Result<TypeName<'_>, SyntaxError> {
    parse_with(text, Parser::type_name).map(|(type_name, _)| type_name)
}

/// Parses the text after `WHERE`, which must end the text.
pub(super) fn parse_where(
    text: &str,
) -> std::result::Result<(WhereClause<'_>, BindMarkers<'_>), SyntaxError> {
    parse_with(text, Parser::where_clause).map(|(clause, names)| (clause, BindMarkers { names }))
}

fn parse_with<'a, T>(
    text: &'a str,
    parse: impl FnOnce(&mut Parser<'a>) -> Result<T>,
) -> std::result::Result<(T, Vec<Option<Name<'a>>>), SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        let message = "statement of 4 GiB or more".into();
        return Err(SyntaxError::new(text, Position(0), message));
    }
    let tokens = tokenize(text);
    let (markers, has_references) = (Vec::new(), false);
    let mut parser =
        Parser { text, tokens, at: 0, nesting: 0, deepest: 0, has_references, markers };
    let result = parse(&mut parser).and_then(|parsed| {
        parser.expect(TokenKind::End, "end of statement")?;
        Ok(parsed)
    });
    match result {
        Ok(parsed) => Ok((parsed, parser.markers)),
        Err(failure) => Err(failure.into_error(text, &parser.tokens)),
    }
}

impl<'a> Parser<'a> {
    /// Returns the token that is `ahead` tokens after the current one.
    fn token(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    /// Returns the kind of the token that is `ahead` tokens after the current one.
    fn kind(&self, ahead: usize) -> TokenKind {
        self.token(ahead).kind
    }

    /// Returns the place where the current token begins.
    fn position(&self) -> Position {
        Position(self.token(0).start)
    }

    /// Advances past the current token and returns it.
    fn advance(&mut self) -> Token {
        let token = self.token(0);
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Returns the text of a token.
    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// Returns whether the current token is of this kind.
    fn is(&self, kind: TokenKind) -> bool {
        self.kind(0) == kind
    }

    /// Returns whether the current token is this keyword.
    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.is(TokenKind::Keyword(keyword))
    }

    /// Returns whether the token that is `ahead` tokens after the current one is this keyword.
    fn is_keyword_ahead(&self, ahead: usize, keyword: Keyword) -> bool {
        self.kind(ahead) == TokenKind::Keyword(keyword)
    }

    /// Advances past the current token if it is of this kind; returns whether it was.
    fn accept(&mut self, kind: TokenKind) -> bool {
        let is = self.is(kind);
        if is {
            self.advance();
        }
        is
    }

    /// Advances past the current token if it is this keyword; returns whether it was.
    fn accept_keyword(&mut self, keyword: Keyword) -> bool {
        self.accept(TokenKind::Keyword(keyword))
    }

    /// Advances past the current token, which must be of this kind.
    fn expect(&mut self, kind: TokenKind, expected: &'static str) -> Result<Token> {
        if self.is(kind) { Ok(self.advance()) } else { Err(self.expected(expected)) }
    }

    /// Advances past the current token, which must be this keyword.
    fn keyword(&mut self, keyword: Keyword) -> Result<()> {
        self.expect(TokenKind::Keyword(keyword), keyword.text()).map(drop)
    }

    /// Returns whether the token that is `ahead` tokens after the current one is this word of an
    /// extension, which is no keyword.
    fn is_word_ahead(&self, ahead: usize, word: &str) -> bool {
        let token = self.token(ahead);
        token.kind == TokenKind::Identifier && self.text_of(token).eq_ignore_ascii_case(word)
    }

    /// Advances past the current token if it is this word, which is no keyword; returns whether it
    /// was.
    fn accept_word(&mut self, word: &str) -> bool {
        let is = self.is_word_ahead(0, word);
        if is {
            self.advance();
        }
        is
    }

    /// Creates the failure of the current token, where `expected` should be.
    fn expected(&self, expected: &'static str) -> Failure {
        Failure::expected(self.at, expected)
    }

    /// Runs `parse` with one more level of nesting.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting == MAX_NESTING {
            let message = format!("nested deeper than {MAX_NESTING} levels");
            return Err(Failure::message(self.at, message));
        }
        self.nesting += 1;
        self.deepest = self.deepest.max(self.nesting);
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    /// Adds a level above the expression that was parsed last.
    fn deepen(&mut self) -> Result<()> {
        if self.deepest >= MAX_NESTING {
            let message = format!("nested deeper than {MAX_NESTING} levels");
            return Err(Failure::message(self.at, message));
        }
        self.deepest += 1;
        Ok(())
    }

    /// Returns the current state, for `return_to`.
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint { at: self.at, deepest: self.deepest, markers: self.markers.len() }
    }

    /// Returns to an earlier state, to try another reading.
    fn return_to(&mut self, checkpoint: Checkpoint) {
        self.at = checkpoint.at;
        self.deepest = checkpoint.deepest;
        self.markers.truncate(checkpoint.markers);
    }

    /// Returns the index of the token at `position`.
    fn token_at(&self, position: Position) -> usize {
        self.tokens.partition_point(|token| token.start < position.0)
    }

    /// Parses one or more items with commas between them.
    fn list<T>(&mut self, mut parse: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![parse(self)?];
        while self.accept(TokenKind::Comma) {
            items.push(parse(self)?);
        }
        Ok(items)
    }

    /// Parses `( item, ... )`, one item or more.
    fn parenthesized<T>(&mut self, parse: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        let items = self.list(parse)?;
        self.expect(TokenKind::RightParenthesis, "')'")?;
        Ok(items)
    }

    /// Parses `( item, ... )`, perhaps without an item.
    fn parenthesized_or_empty<T>(
        &mut self,
        parse: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(TokenKind::LeftParenthesis, "'('")?;
        self.list_until(TokenKind::RightParenthesis, "')'", parse)
    }

    /// Parses items with commas between them, perhaps none, and the token that ends them.
    fn list_until<T>(
        &mut self,
        end: TokenKind,
        expected: &'static str,
        parse: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let is_empty = self.is(end);
        let items = if is_empty { Vec::new() } else { self.list(parse)? };
        self.expect(end, expected)?;
        Ok(items)
    }

    /// Parses a clause that begins with `keyword`, if it follows. `parse` parses the text after the
    /// keyword.
    fn clause<T>(
        &mut self,
        keyword: Keyword,
        parse: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.accept_keyword(keyword) { parse(self).map(Some) } else { Ok(None) }
    }

    /// Parses one or more items with `AND` between them.
    fn conjunction<T>(&mut self, mut parse: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![parse(self)?];
        while self.accept_keyword(Keyword::AND) {
            items.push(parse(self)?);
        }
        Ok(items)
    }

    /// Parses `IF EXISTS`, if it follows.
    fn if_exists(&mut self) -> Result<bool> {
        let is = self.accept_keyword(Keyword::IF);
        if is {
            self.keyword(Keyword::EXISTS)?;
        }
        Ok(is)
    }

    /// Parses `IF NOT EXISTS`, if it follows.
    fn if_not_exists(&mut self) -> Result<bool> {
        let is = self.accept_keyword(Keyword::IF);
        if is {
            self.keyword(Keyword::NOT)?;
            self.keyword(Keyword::EXISTS)?;
        }
        Ok(is)
    }
}

//! Names: identifiers, quoted names, and the keywords that may serve as names.

use std::borrow::Cow;

use super::{Failure, Parser, Result};
use crate::grammar::ast::{Name, Position, QualifiedName};
use crate::grammar::keyword::Keyword;
use crate::grammar::token::{Token, TokenKind};

impl<'a> Parser<'a> {
    /// Returns whether the token that is `ahead` tokens after the current one may name a keyspace,
    /// table, column, field, ...
    pub(super) fn is_name(&self, ahead: usize) -> bool {
        self.is_name_if(ahead, Keyword::is_name)
    }

    /// Returns whether the token that is `ahead` tokens after the current one may name a function.
    pub(super) fn is_function_name(&self, ahead: usize) -> bool {
        self.is_name_if(ahead, Keyword::is_function_name)
    }

    fn is_name_if(&self, ahead: usize, accept: fn(Keyword) -> bool) -> bool {
        match self.kind(ahead) {
            TokenKind::Identifier | TokenKind::QuotedName => true,
            TokenKind::Keyword(keyword) => accept(keyword),
            _ => false,
        }
    }

    /// Parses a name of anything but a type or a function. `expected` describes it in messages.
    pub(super) fn name(&mut self, expected: &'static str) -> Result<Name<'a>> {
        if self.is_name(0) { Ok(self.take_name()) } else { Err(self.no_name(expected)) }
    }

    /// Parses `keyspace.name` or `name`. `expected` describes it in messages.
    pub(super) fn qualified_name(&mut self, expected: &'static str) -> Result<QualifiedName<'a>> {
        self.qualified(Keyword::is_name, expected)
    }

    /// Parses the name of a user-defined type, perhaps with a keyspace.
    pub(super) fn user_type_name(&mut self) -> Result<QualifiedName<'a>> {
        self.qualified(Keyword::is_type_name, "type")
    }

    /// Parses the name of a function, perhaps with a keyspace.
    pub(super) fn function_name(&mut self) -> Result<QualifiedName<'a>> {
        self.qualified(Keyword::is_function_name, "function name")
    }

    /// Parses the name of a function without a keyspace.
    pub(super) fn plain_function_name(&mut self) -> Result<Name<'a>> {
        let is = self.is_function_name(0);
        if is { Ok(self.take_name()) } else { Err(self.expected("function name")) }
    }

    fn qualified(
        &mut self,
        accept: fn(Keyword) -> bool,
        expected: &'static str,
    ) -> Result<QualifiedName<'a>> {
        let keyspace = if self.is_name(0) && self.kind(1) == TokenKind::Dot {
            let keyspace = self.take_name();
            self.advance();
            Some(keyspace)
        } else {
            None
        };
        if !self.is_name_if(0, accept) {
            return Err(self.no_name(expected));
        }
        Ok(QualifiedName { keyspace, name: self.take_name() })
    }

    /// Returns the failure of a token where a name should be.
    fn no_name(&self, expected: &'static str) -> Failure {
        let named = match expected {
            "name of a table" => "table",
            "name of a keyspace" => "keyspace",
            "role name" => "role",
            _ => return self.expected(expected),
        };
        if !self.is(TokenKind::QuestionMark) {
            return self.expected(expected);
        }
        let message = format!("Bind variables cannot be used for {named} names");
        Failure::message(self.at, message)
    }

    /// Consumes the current token, which is a word or a quoted name.
    pub(super) fn take_name(&mut self) -> Name<'a> {
        let token = self.advance();
        Name { text: self.name_text(token), position: Position(token.start) }
    }

    fn name_text(&self, token: Token) -> Cow<'a, str> {
        let text = self.text_of(token);
        match token.kind {
            TokenKind::QuotedName => unquote(text, "\"", "\"\""),
            _ if text.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                Cow::Owned(text.to_ascii_lowercase())
            }
            _ => Cow::Borrowed(text),
        }
    }
}

/// Returns the text between the quotes of `text`, with one quote for each doubled quote.
pub(super) fn unquote<'a>(text: &'a str, quote: &str, doubled: &str) -> Cow<'a, str> {
    let inside = &text[1..text.len() - 1];
    if inside.contains(quote) {
        Cow::Owned(inside.replace(doubled, quote))
    } else {
        Cow::Borrowed(inside)
    }
}

//! A cursor over the text of a type name.

use std::sync::Arc;

use crate::type_name::{MAX_NAME_DEPTH, limits::check_vector};
use crate::{CqlType, TypeParseError};

pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> TypeParseError {
        TypeParseError { text: self.text.to_owned(), at: self.at, reason: reason.into() }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default().trim()
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.rest().chars().next()
    }

    pub(super) fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    pub(super) fn expect(&mut self, wanted: char) -> Result<(), TypeParseError> {
        if self.accept(wanted) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), |found| format!("'{found}'"));
        Err(self.error(format!("expected '{wanted}', got {found}")))
    }

    pub(super) fn expect_end(&mut self) -> Result<(), TypeParseError> {
        match self.peek() {
            None => Ok(()),
            Some(found) => Err(self.error(format!("unexpected '{found}' after the type"))),
        }
    }

    /// Consumes blanks, and then the longest run of characters that `belongs` accepts. The run may
    /// be empty.
    pub(super) fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.skip_blanks();
        let rest = self.rest();
        let length = rest.find(|character| !belongs(character)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Consumes the text between two `quote`s, and returns it with one quote for each doubled
    /// quote. The opening quote is next.
    pub(super) fn quoted(&mut self, quote: char) -> Result<String, TypeParseError> {
        self.expect(quote)?;
        let mut content = String::new();
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(quote) else {
                return Err(self.error(format!("missing closing {quote}")));
            };
            content.push_str(&rest[..length]);
            self.at += length + quote.len_utf8();
            if !self.rest().starts_with(quote) {
                return Ok(content);
            }
            content.push(quote);
            self.at += quote.len_utf8();
        }
    }

    /// Consumes the number of a vector's elements, which must be positive.
    pub(super) fn dimension(&mut self) -> Result<usize, TypeParseError> {
        let digits = self.word(|character| character.is_ascii_digit());
        match digits.parse::<i32>() {
            Ok(dimension) if dimension > 0 => Ok(dimension as usize),
            _ => Err(self.error(format!("expected a dimension from 1 to 2^31-1, got '{digits}'"))),
        }
    }

    /// Enters a level of nesting. [`Self::leave`] leaves the level, but need not be called after an
    /// error.
    pub(super) fn enter(&mut self) -> Result<(), TypeParseError> {
        if self.depth == MAX_NAME_DEPTH {
            return Err(self.error(format!("types are nested deeper than {MAX_NAME_DEPTH}")));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Makes a vector type. Fails if its values would be longer than any value may be, or if its
    /// elements have no bytes ([`check_vector`]).
    pub(super) fn vector(
        &self,
        element: Arc<CqlType>,
        dimension: usize,
    ) -> Result<CqlType, TypeParseError> {
        check_vector(&element, dimension).map_err(|error| self.error(error.to_string()))?;
        Ok(CqlType::Vector { element, dimension })
    }
}

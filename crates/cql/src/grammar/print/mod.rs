//! Prints syntax trees as text, in one of two styles.
//!
//! `Display` of expressions, relations and types uses the *result* style, in which Cassandra names
//! the columns of a result: names without quotes, native functions with their keyspace, all bind
//! markers as `?`. The output need not be CQL.
//!
//! `Display` of a whole `Parsed`, of [`CqlText`] and of [`PredicateText`] uses the *CQL* style,
//! which parses to an equal tree (except for an unsupported statement, because its content is
//! gone).

mod expression;
mod modification;
mod relation;
mod role;
mod schema;
mod select;
mod statement;
mod transaction;

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

use super::ast::{
    BindMarkers, Expression, Name, Parsed, Predicate, QualifiedName, Relation, TypeName,
};
use super::keyword::Keyword;
use espalier_types::literal::quote_text;
use espalier_types::type_name::quote_if_needed;

/// A printer that writes to `out`.
struct Printer<'p, W> {
    out: &'p mut W,
    /// The names of the bind markers in the CQL style; `None` in the result style.
    markers: Option<&'p BindMarkers<'p>>,
    /// True if functions have the names as written, as in the terms of Cassandra's errors.
    is_term: bool,
}

/// A term in an error's text. Unlike in the result style, native functions have no keyspace.
pub struct TermText<'e>(pub &'e Expression<'e>);

impl fmt::Display for TermText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { out: f, markers: None, is_term: true }.expression(self.0)
    }
}

/// A term without bind markers in the CQL style.
pub struct CqlText<'e>(pub &'e Expression<'e>);

impl fmt::Display for CqlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let markers = BindMarkers::default();
        Printer { out: f, markers: Some(&markers), is_term: false }.expression(self.0)
    }
}

/// Shows the operator and the operands of a relation in the CQL style, with a space before them.
pub struct PredicateText<'e>(pub &'e Predicate<'e>);

impl fmt::Display for PredicateText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let markers = BindMarkers::default();
        Printer { out: f, markers: Some(&markers), is_term: false }.predicate(self.0)
    }
}

impl fmt::Display for Expression<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { out: f, markers: None, is_term: false }.expression(self)
    }
}

impl fmt::Display for Relation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { out: f, markers: None, is_term: false }.relation(self)
    }
}

impl fmt::Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { out: f, markers: None, is_term: false }.type_name(self)
    }
}

impl fmt::Display for Parsed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { out: f, markers: Some(&self.bind_markers), is_term: false }
            .statement(&self.statement)
    }
}

impl<W: Write> Printer<'_, W> {
    fn is_cql(&self) -> bool {
        self.markers.is_some()
    }

    fn text(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(text)
    }

    fn name(&mut self, name: &Name<'_>) -> fmt::Result {
        if !self.is_cql() {
            return self.text(&name.text);
        }
        // Every keyword is quoted, because some keywords need quotes in only some places.
        if Keyword::find(name.text.as_bytes()).is_some() {
            return write!(self.out, "\"{name}\"");
        }
        self.text(&quote_if_needed(&name.text))
    }

    fn qualified_name(&mut self, name: &QualifiedName<'_>) -> fmt::Result {
        if let Some(keyspace) = &name.keyspace {
            self.name(keyspace)?;
            self.text(".")?;
        }
        self.name(&name.name)
    }

    fn string(&mut self, string: &str) -> fmt::Result {
        self.text(&quote_text(string))
    }

    /// Prints a map of strings.
    fn string_map(&mut self, entries: &[(Cow<'_, str>, Cow<'_, str>)]) -> fmt::Result {
        self.bracketed(["{", "}"], entries, |printer, (key, value)| {
            printer.string(key)?;
            printer.with_string(": ", value)
        })
    }

    /// Prints `words`, then the name.
    fn with_name(&mut self, words: &str, name: &Name<'_>) -> fmt::Result {
        self.text(words)?;
        self.name(name)
    }

    /// Prints `words`, then the name with its keyspace, if written.
    fn with_qualified_name(&mut self, words: &str, name: &QualifiedName<'_>) -> fmt::Result {
        self.text(words)?;
        self.qualified_name(name)
    }

    /// Prints `words`, then `condition` if the statement has it, then the name of its object.
    fn head(
        &mut self,
        words: &str,
        condition: &str,
        has_condition: bool,
        name: &QualifiedName<'_>,
    ) -> fmt::Result {
        self.text(words)?;
        self.text_if(has_condition, condition)?;
        self.qualified_name(name)
    }

    /// Prints `words` and the string behind them.
    fn with_string(&mut self, words: &str, string: &str) -> fmt::Result {
        self.text(words)?;
        self.string(string)
    }

    /// Prints `words` and the expression behind them.
    fn with_expression(&mut self, words: &str, expression: &Expression<'_>) -> fmt::Result {
        self.text(words)?;
        self.expression(expression)
    }

    /// Prints `text` if `condition` holds.
    fn text_if(&mut self, condition: bool, text: &str) -> fmt::Result {
        if condition { self.text(text) } else { Ok(()) }
    }

    /// Prints the items with `separator` between them.
    fn separated<T>(
        &mut self,
        separator: &str,
        items: &[T],
        mut print: impl FnMut(&mut Self, &T) -> fmt::Result,
    ) -> fmt::Result {
        for (index, item) in items.iter().enumerate() {
            self.text_if(index > 0, separator)?;
            print(self, item)?;
        }
        Ok(())
    }

    /// Prints the items with commas between them and `brackets` around them.
    fn bracketed<T>(
        &mut self,
        brackets: [&str; 2],
        items: &[T],
        print: impl FnMut(&mut Self, &T) -> fmt::Result,
    ) -> fmt::Result {
        self.text(brackets[0])?;
        self.separated(", ", items, print)?;
        self.text(brackets[1])
    }
}

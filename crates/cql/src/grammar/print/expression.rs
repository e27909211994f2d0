//! Prints expressions and types.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{
    Arithmetic, BindMarker, CellMetadata, Expression, ExpressionKind, FunctionCall, Literal,
    TypeName, TypeNameKind,
};

const PARENTHESES: [&str; 2] = ["(", ")"];
const BRACES: [&str; 2] = ["{", "}"];

impl<W: Write> Printer<'_, W> {
    pub(super) fn expression(&mut self, expression: &Expression<'_>) -> fmt::Result {
        match &expression.kind {
            ExpressionKind::Literal(literal) => self.literal(literal),
            ExpressionKind::Null => self.text("NULL"),
            ExpressionKind::BindMarker(marker) => self.marker(marker),
            ExpressionKind::List(items) => self.bracketed(["[", "]"], items, Self::expression),
            ExpressionKind::Set(items) => self.bracketed(BRACES, items, Self::expression),
            ExpressionKind::Map(entries) => self.bracketed(BRACES, entries, |printer, entry| {
                printer.expression(&entry.0)?;
                printer.with_expression(": ", &entry.1)
            }),
            ExpressionKind::UserDefined(fields) => {
                self.bracketed(BRACES, fields, |printer, (name, value)| {
                    printer.name(name)?;
                    printer.with_expression(": ", value)
                })
            }
            ExpressionKind::Tuple(items) => self.bracketed(PARENTHESES, items, Self::expression),
            ExpressionKind::Function(call) => self.function_call(call),
            ExpressionKind::TypeHint(type_name, operand) => {
                self.text("(")?;
                self.type_name(type_name)?;
                self.text(")")?;
                self.expression(operand)
            }
            ExpressionKind::Cast(operand, type_name) => {
                self.with_expression("cast(", operand)?;
                self.text(" as ")?;
                self.type_name(type_name)?;
                self.text(")")
            }
            ExpressionKind::Negate(operand) => {
                // Without the blank, `-1` would be a literal and `--v` a comment.
                self.with_expression(if self.is_cql() { "- " } else { "-" }, operand)
            }
            ExpressionKind::Arithmetic(arithmetic) => self.arithmetic(arithmetic),
            ExpressionKind::Column(name) => self.name(name),
            ExpressionKind::CountRows => {
                self.text(if self.is_cql() { "count(*)" } else { "count" })
            }
            ExpressionKind::CellMetadata(what, cell) => self.cell_metadata(*what, cell),
            ExpressionKind::Field(base, field) => {
                self.expression(base)?;
                // Without the blank, `1.f` would begin with the number `1.`.
                let ends_in_literal =
                    matches!(base.kind, ExpressionKind::Literal(_) | ExpressionKind::TypeHint(..));
                self.text_if(self.is_cql() && ends_in_literal, " ")?;
                self.with_name(".", field)
            }
            ExpressionKind::Element(base, key) => {
                self.expression(base)?;
                self.with_expression("[", key)?;
                self.text("]")
            }
            ExpressionKind::Slice(base, from, to) => {
                self.expression(base)?;
                self.text("[")?;
                from.iter().try_for_each(|from| self.expression(from))?;
                self.text("..")?;
                to.iter().try_for_each(|to| self.expression(to))?;
                self.text("]")
            }
        }
    }

    fn literal(&mut self, literal: &Literal<'_>) -> fmt::Result {
        match literal {
            Literal::String(text) if self.is_cql() => self.string(text),
            // The result style does not double quotes.
            Literal::String(text) => write!(self.out, "'{text}'"),
            Literal::Boolean(value) => write!(self.out, "{value}"),
            Literal::Integer(text)
            | Literal::Float(text)
            | Literal::Uuid(text)
            | Literal::Blob(text)
            | Literal::Duration(text) => self.text(text),
        }
    }

    pub(super) fn marker(&mut self, marker: &BindMarker) -> fmt::Result {
        match self.markers.and_then(|markers| markers.name(marker.index)) {
            Some(name) => self.with_name(":", name),
            None => self.text("?"),
        }
    }

    pub(super) fn function_call(&mut self, call: &FunctionCall<'_>) -> fmt::Result {
        if self.is_cql() {
            self.qualified_name(&call.name)?;
            return self.bracketed(PARENTHESES, &call.arguments, Self::expression);
        }
        let name = call.name.name.as_str();
        let is_literal =
            |argument: &Expression<'_>| matches!(argument.kind, ExpressionKind::Literal(_));
        // Cassandra names the result of `count(1)` like that of `count(*)`.
        if name == "count" && call.arguments.len() == 1 && call.arguments.iter().all(is_literal) {
            return self.text("count");
        }
        if self.is_term {
            self.qualified_name(&call.name)?;
            return self.bracketed(PARENTHESES, &call.arguments, Self::expression);
        }
        let keyspace = call.name.keyspace.as_ref().map_or("system", |keyspace| keyspace.as_str());
        write!(self.out, "{keyspace}.{name}")?;
        self.bracketed(PARENTHESES, &call.arguments, Self::expression)
    }

    fn arithmetic(&mut self, arithmetic: &Arithmetic<'_>) -> fmt::Result {
        self.expression(&arithmetic.first)?;
        for (operator, operand) in &arithmetic.rest {
            write!(self.out, " {} ", operator.symbol())?;
            self.expression(operand)?;
        }
        Ok(())
    }

    fn cell_metadata(&mut self, what: CellMetadata, cell: &Expression<'_>) -> fmt::Result {
        self.text(what.function_name())?;
        self.with_expression("(", cell)?;
        self.text(")")
    }

    pub(super) fn type_name(&mut self, type_name: &TypeName<'_>) -> fmt::Result {
        match &type_name.kind {
            TypeNameKind::Native(native) => self.text(&native.cql_name()),
            TypeNameKind::List(element) => self.generic("list", &[element]),
            TypeNameKind::Set(element) => self.generic("set", &[element]),
            TypeNameKind::Map(key, value) => self.generic("map", &[key, value]),
            TypeNameKind::Frozen(inner) => self.generic("frozen", &[inner]),
            TypeNameKind::Tuple(types) => self.generic("tuple", &types.iter().collect::<Vec<_>>()),
            TypeNameKind::Vector(element, dimension) => {
                self.text("vector<")?;
                self.type_name(element)?;
                write!(self.out, ", {dimension}>")
            }
            TypeNameKind::UserDefined(name) => self.qualified_name(name),
            TypeNameKind::Custom(class) => self.string(class),
        }
    }

    fn generic(&mut self, name: &str, arguments: &[&TypeName<'_>]) -> fmt::Result {
        self.text(name)?;
        self.bracketed(["<", ">"], arguments, |printer, argument| printer.type_name(argument))
    }
}

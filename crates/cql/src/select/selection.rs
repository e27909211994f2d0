//! Preparation of selectors: turns their syntax trees into typed [`SelectExpression`]s.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_types::CqlType;

use super::expression::SelectExpression;
use crate::{
    Error, Result,
    functions::{self, Argument, ResolvedFunction, Text, aggregate::AggregateFunction},
    grammar::ast::{
        Arithmetic, Expression, ExpressionKind, FunctionCall, Name, Position, TypeName,
    },
    term::{Preparation, prepare_term},
};

/// The name of bind markers in a selection.
const SELECTION: &str = "[selection]";

/// The state of the preparation, which collects the aggregates and bind markers of the selectors.
pub struct SelectionPreparation<'p, 'a> {
    /// Markers, schema, text.
    pub preparation: &'p mut Preparation<'a>,
    /// The table.
    pub table: &'p Arc<TableMetadata>,
    /// The number of aggregates so far.
    pub aggregates: usize,
    /// The positions of casts to the type that their operand already has.
    pub same_casts: Vec<Position>,
}

/// An argument of a call before the function is chosen.
pub(super) enum Operand<'e> {
    Prepared(SelectExpression),
    Waiting(&'e Expression<'e>),
}

impl SelectionPreparation<'_, '_> {
    pub(super) fn invalid(&self, expression: &Expression<'_>, message: impl AsRef<str>) -> Error {
        self.preparation.invalid(expression.position, message)
    }

    pub(super) fn column(&self, name: &Name<'_>) -> Result<&ColumnDefinition> {
        self.preparation.column(self.table, name)
    }

    /// Prepares a selector and returns it with its type. `expected` is the type of literals and
    /// markers, if the context requires one.
    ///
    /// # Errors
    /// A column, function, field or type does not exist, an argument does not fit its function, an
    /// aggregate is an argument of another, or the type of a term is unknown.
    pub fn prepare(
        &mut self,
        expression: &Expression<'_>,
        expected: Option<&CqlType>,
    ) -> Result<(SelectExpression, CqlType)> {
        match &expression.kind {
            ExpressionKind::Column(name) => {
                let column = self.column(name)?;
                Ok((SelectExpression::Column(column.clone()), column.column_type.clone()))
            }
            ExpressionKind::CountRows => {
                let count = AggregateFunction::count_rows();
                Ok((self.aggregate(count, None), CqlType::Bigint))
            }
            ExpressionKind::CellMetadata(metadata, inner) => {
                self.metadata(expression, *metadata, inner)
            }
            ExpressionKind::Field(inner, name) => self.field(expression, inner, name),
            ExpressionKind::Element(collection, key) => self.element(expression, collection, key),
            ExpressionKind::Slice(collection, from, to) => {
                self.slice(expression, collection, [from.as_deref(), to.as_deref()])
            }
            ExpressionKind::Function(call) => self.call(expression, call, expected),
            ExpressionKind::Cast(inner, type_name) => self.cast(expression, inner, type_name),
            ExpressionKind::Negate(inner) => self.negation(expression, inner, expected),
            ExpressionKind::Arithmetic(chain) => self.arithmetic(expression, chain, expected),
            ExpressionKind::Tuple(parts)
                if parts.len() == 1 && !matches!(expected, Some(CqlType::Tuple(_))) =>
            {
                self.prepare(&parts[0], expected)
            }
            ExpressionKind::Tuple(parts) if expected.is_none() => self.tuple(expression, parts),
            ExpressionKind::List(parts) if expected.is_none() => {
                let (parts, element) = self.uniform(expression, parts)?;
                let list = CqlType::List { element: Arc::new(element), frozen: true };
                Ok((SelectExpression::Composite(list.clone(), parts), list))
            }
            ExpressionKind::Set(parts) if expected.is_none() => {
                let (parts, element) = self.uniform(expression, parts)?;
                let set = CqlType::Set { element: Arc::new(element), frozen: true };
                Ok((SelectExpression::Composite(set.clone(), parts), set))
            }
            ExpressionKind::TypeHint(type_name, inner) => {
                let hinted = self.preparation.resolve_type(type_name)?.freeze();
                Ok((self.assigned(expression, inner, &hinted)?, hinted))
            }
            _ => self.term(expression, expected),
        }
    }

    fn cast(
        &mut self,
        expression: &Expression<'_>,
        inner: &Expression<'_>,
        type_name: &TypeName<'_>,
    ) -> Result<(SelectExpression, CqlType)> {
        let target = self.preparation.resolve_type(type_name)?;
        let (operand, argument) = self.operand(inner)?;
        if let Operand::Waiting(_) = operand {
            return Err(self.unknown_type(inner));
        }
        let known = argument.known_type();
        if known.is_some_and(|known| known.freeze() == target.freeze()) {
            self.same_casts.push(expression.position);
        }
        let function =
            functions::resolve_cast(self.preparation, expression.position, &argument, &target)?;
        self.apply(function, vec![operand])
    }

    /// Returns the name that a selector has in the result. A cast to the type that its operand
    /// already has does not change the name.
    pub(super) fn result_name(&self, mut expression: &Expression<'_>) -> String {
        while let ExpressionKind::Cast(inner, _) = &expression.kind
            && self.same_casts.contains(&expression.position)
        {
            expression = inner;
        }
        expression.to_string()
    }

    fn negation(
        &mut self,
        expression: &Expression<'_>,
        inner: &Expression<'_>,
        expected: Option<&CqlType>,
    ) -> Result<(SelectExpression, CqlType)> {
        let (operand, argument) = self.operand(inner)?;
        let function = functions::resolve_negation(
            self.preparation,
            expression.position,
            &argument,
            expected,
        )?;
        self.apply(function, vec![operand])
    }

    fn arithmetic(
        &mut self,
        expression: &Expression<'_>,
        chain: &Arithmetic<'_>,
        expected: Option<&CqlType>,
    ) -> Result<(SelectExpression, CqlType)> {
        let (mut left, mut left_argument) = self.operand(&chain.first)?;
        let last = chain.rest.len().saturating_sub(1);
        for (index, (operator, right)) in chain.rest.iter().enumerate() {
            let (right, right_argument) = self.operand(right)?;
            let function = functions::resolve_arithmetic(
                self.preparation,
                expression.position,
                *operator,
                &[left_argument, right_argument],
                expected.filter(|_| index == last),
            )?;
            let (part, result) = self.apply(function, vec![left, right])?;
            left = Operand::Prepared(part);
            left_argument =
                Argument::Typed(result, Text::Prefix(&chain.first, &chain.rest[..=index]));
        }
        match (left, left_argument) {
            (Operand::Prepared(part), Argument::Typed(result, _)) => Ok((part, result)),
            _ => Err(self.invalid(expression, "an operator takes two operands")),
        }
    }

    fn tuple(
        &mut self,
        expression: &Expression<'_>,
        parts: &[Expression<'_>],
    ) -> Result<(SelectExpression, CqlType)> {
        let mut prepared = Vec::with_capacity(parts.len());
        let mut types = Vec::with_capacity(parts.len());
        for part in parts {
            let (Operand::Prepared(part), Argument::Typed(known, _)) = self.operand(part)? else {
                return Err(self.unknown_type(expression));
            };
            prepared.push(part);
            types.push(known.freeze());
        }
        let tuple = CqlType::Tuple(types.into());
        Ok((SelectExpression::Composite(tuple.clone(), prepared), tuple))
    }

    /// Prepares the elements of a list or set. Their type is that of the first element with a type
    /// of its own.
    fn uniform(
        &mut self,
        expression: &Expression<'_>,
        parts: &[Expression<'_>],
    ) -> Result<(Vec<SelectExpression>, CqlType)> {
        let operands = parts.iter().map(|part| self.operand(part)).collect::<Result<Vec<_>>>()?;
        let known = operands.iter().find_map(|(_, argument)| match argument {
            Argument::Typed(known, _) => Some(known.freeze()),
            _ => None,
        });
        let element = known.ok_or_else(|| self.unknown_type(expression))?;
        let mut prepared = Vec::with_capacity(parts.len());
        for (operand, _) in operands {
            prepared.push(self.finish(operand, &element)?);
        }
        Ok((prepared, element))
    }

    fn unknown_type(&self, expression: &Expression<'_>) -> Error {
        let message = format!(
            "Cannot infer type for term {expression} in selection clause (try using a cast to force a type)"
        );
        self.invalid(expression, message)
    }

    fn aggregate(
        &mut self,
        function: AggregateFunction,
        argument: Option<SelectExpression>,
    ) -> SelectExpression {
        self.aggregates += 1;
        SelectExpression::Aggregate(self.aggregates - 1, function, argument.map(Box::new))
    }

    fn term(
        &mut self,
        expression: &Expression<'_>,
        expected: Option<&CqlType>,
    ) -> Result<(SelectExpression, CqlType)> {
        let known = expected.cloned().ok_or_else(|| self.unknown_type(expression))?;
        let receiver = self.preparation.receiver(SELECTION, &known);
        // In a selection every marker has this name, inside a literal too.
        self.preparation.marker_name = Some(SELECTION);
        let term = prepare_term(self.preparation, expression, &receiver);
        self.preparation.marker_name = None;
        Ok((SelectExpression::Term(term?), known))
    }

    fn call(
        &mut self,
        expression: &Expression<'_>,
        call: &FunctionCall<'_>,
        expected: Option<&CqlType>,
    ) -> Result<(SelectExpression, CqlType)> {
        let name = call.name.name.as_str();
        if AggregateFunction::is_native(&call.name) {
            if let [argument] = call.arguments.as_slice() {
                let before = self.aggregates;
                let is_untyped =
                    matches!(argument.kind, ExpressionKind::BindMarker(_) | ExpressionKind::Null);
                let expected = match name {
                    // `count(?)` counts values of any type.
                    "count" if is_untyped => Some(CqlType::Blob),
                    _ if is_untyped => {
                        let message = AggregateFunction::untyped(&call.name, argument);
                        return Err(self.invalid(expression, message));
                    }
                    _ => crate::term::natural_type(argument),
                };
                let (argument, argument_type) = self.prepare(argument, expected.as_ref())?;
                if self.aggregates != before {
                    return Err(self.invalid(
                        expression,
                        "aggregate functions cannot be used as arguments of aggregate functions",
                    ));
                }
                if let Some(function) = AggregateFunction::resolve(name, &argument_type) {
                    let result = function.return_type();
                    return Ok((self.aggregate(function, Some(argument)), result));
                }
            }
            return Err(self.invalid(
                expression,
                AggregateFunction::refusal(&call.name, call.arguments.len()),
            ));
        }
        let (operands, arguments): (Vec<_>, Vec<_>) = call
            .arguments
            .iter()
            .map(|argument| self.operand(argument))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .unzip();
        let function =
            functions::resolve_selector(self.preparation, &call.name, &arguments, expected)?;
        self.apply(function, operands)
    }

    /// Prepares an operand. Columns and calls have types of their own; literals and markers stay
    /// unprepared until the function is chosen.
    pub(super) fn operand<'e>(
        &mut self,
        operand: &'e Expression<'e>,
    ) -> Result<(Operand<'e>, Argument<'e>)> {
        self.preparation.terms += 1;
        match &operand.kind {
            ExpressionKind::Tuple(parts) if parts.len() == 1 => self.operand(&parts[0]),
            ExpressionKind::Literal(_)
            | ExpressionKind::Null
            | ExpressionKind::BindMarker(_)
            | ExpressionKind::List(_)
            | ExpressionKind::Set(_)
            | ExpressionKind::Map(_)
            | ExpressionKind::UserDefined(_) => {
                Ok((Operand::Waiting(operand), Argument::Untyped(operand)))
            }
            _ => {
                let (prepared, known) = self.prepare(operand, None)?;
                Ok((Operand::Prepared(prepared), Argument::Typed(known, Text::Whole(operand))))
            }
        }
    }

    /// Prepares an operand, unless it is prepared, as a value of type `wanted`.
    pub(super) fn finish(
        &mut self,
        operand: Operand<'_>,
        wanted: &CqlType,
    ) -> Result<SelectExpression> {
        match operand {
            Operand::Prepared(part) => Ok(part),
            Operand::Waiting(expression) => Ok(self.prepare(expression, Some(wanted))?.0),
        }
    }

    /// Builds the call once the function has determined the types of its arguments.
    fn apply(
        &mut self,
        function: ResolvedFunction,
        operands: Vec<Operand<'_>>,
    ) -> Result<(SelectExpression, CqlType)> {
        let mut parts = Vec::with_capacity(operands.len());
        for (operand, wanted) in operands.into_iter().zip(&function.argument_types) {
            parts.push(self.finish(operand, wanted)?);
        }
        let result = function.return_type.clone();
        Ok((SelectExpression::Call(Box::new(function), parts), result))
    }
}

//! Tests conditions with the values of one execution.

use bytes::Bytes;
use espalier_mutation::schema::ColumnDefinition;
use espalier_types::{CqlType, collection};

use super::{ColumnCondition, ConditionTarget};
use crate::{
    Error, Result,
    current_row::{CurrentRow, FrozenColumns},
    grammar::ast::ComparisonOperator as Operator,
    restrictions::{Alternatives, FilterOperator, contains, element_in, field_in, holds},
    term::{Bound, Evaluation, Term},
};

/// A serialised list, set or map without elements: the number 0 as a big-endian `i32`.
const EMPTY_COLLECTION: &[u8] = &[0; 4];

/// A condition with its values.
#[derive(Debug)]
pub struct BoundCondition<'p> {
    target: &'p ConditionTarget,
    /// The key or index of an element.
    key: Option<Bytes>,
    test: Test,
    /// The values; one of them must satisfy the test. `None` is null.
    wanted: Vec<Option<Bytes>>,
}

#[derive(Clone, Copy, Debug)]
enum Test {
    Compare(Operator),
    Contains,
    ContainsKey,
}

impl Test {
    fn symbol(self) -> &'static str {
        match self {
            Self::Compare(operator) => operator.symbol(),
            Self::Contains => "CONTAINS",
            Self::ContainsKey => "CONTAINS KEY",
        }
    }
}

impl ColumnCondition {
    /// Evaluates the values of the condition.
    ///
    /// # Errors
    /// A value is unset, the list of IN or the key of an element is null, or a function fails.
    pub fn bind(&self, evaluation: &Evaluation<'_>) -> Result<BoundCondition<'_>> {
        let key = match &self.target {
            ConditionTarget::Element(column, key) => Some(element_key(column, key, evaluation)?),
            _ => None,
        };
        let one = |term: &Term| Ok::<_, Error>(vec![value_of(term, evaluation)?]);
        let (test, wanted) = match &self.operator {
            FilterOperator::Compare(operator, term) => (Test::Compare(*operator), one(term)?),
            FilterOperator::Contains(term) => (Test::Contains, one(term)?),
            FilterOperator::ContainsKey(term) => (Test::ContainsKey, one(term)?),
            // IN holds if the value equals one of the list.
            FilterOperator::In(alternatives) => {
                (Test::Compare(Operator::Equal), values_of(alternatives, evaluation)?)
            }
            FilterOperator::Like(..) => {
                return Err(Error::invalid("IF does not support this operator"));
            }
        };
        Ok(BoundCondition { target: &self.target, key, test, wanted })
    }
}

fn unset() -> Error {
    Error::invalid("Invalid 'unset' value in condition")
}

fn value_of(term: &Term, evaluation: &Evaluation<'_>) -> Result<Option<Bytes>> {
    match term.evaluate(evaluation)? {
        Bound::Value(value) => Ok(Some(value)),
        Bound::Null => Ok(None),
        Bound::Unset => Err(unset()),
    }
}

fn element_key(
    column: &ColumnDefinition,
    key: &Term,
    evaluation: &Evaluation<'_>,
) -> Result<Bytes> {
    let kind = if matches!(column.column_type, CqlType::Map { .. }) { "map" } else { "list" };
    match key.evaluate(evaluation)? {
        Bound::Value(key) => Ok(key),
        Bound::Null => Err(Error::invalid(format!("Invalid null value for {kind} element access"))),
        Bound::Unset => {
            Err(Error::invalid(format!("Invalid unset value for {kind} element access")))
        }
    }
}

/// Returns the values of IN. Unset values of a list of terms are left out, as in Cassandra.
fn values_of(
    alternatives: &Alternatives,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<Option<Bytes>>> {
    match alternatives {
        Alternatives::Terms(terms) => {
            let mut values = Vec::with_capacity(terms.len());
            for term in terms {
                match term.evaluate(evaluation)? {
                    Bound::Value(value) => values.push(Some(value)),
                    Bound::Null => values.push(None),
                    Bound::Unset => {}
                }
            }
            Ok(values)
        }
        Alternatives::List(term) => match term.evaluate(evaluation)? {
            Bound::Null => Err(Error::invalid("Invalid null list in IN condition")),
            Bound::Unset => Err(unset()),
            Bound::Value(list) => collection::elements(&list)
                .map_err(malformed)?
                .map(|element| {
                    element
                        .map(|element| element.map(|bytes| list.slice_ref(bytes)))
                        .map_err(malformed)
                })
                .collect(),
        },
    }
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("Invalid collection value: {error}"))
}

impl BoundCondition<'_> {
    /// Returns whether the row satisfies the condition. Without a row, each column is null.
    /// `frozen` is the same for all conditions on the row, so that they share the value of a
    /// multi-cell column.
    ///
    /// # Errors
    /// An operator other than = and != compares with null or an empty collection, an index is
    /// negative, a constant is no value of the type, or a stored collection is malformed.
    pub fn holds(&self, row: &CurrentRow<'_>, frozen: &mut FrozenColumns) -> Result<bool> {
        let column = self.target.column();
        let (value_type, value) = match self.target {
            ConditionTarget::Column(_) => (column.column_type.clone(), frozen.value(row, column)),
            ConditionTarget::Element(..) => self.element(column, row)?,
            ConditionTarget::Field(_, index) => field(column, *index, row)?,
        };
        for wanted in &self.wanted {
            if self.accepts(column, &value_type, value.as_ref(), wanted.as_ref())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn element(
        &self,
        column: &ColumnDefinition,
        row: &CurrentRow<'_>,
    ) -> Result<(CqlType, Option<Bytes>)> {
        let key = self.key.as_deref().unwrap_or_default();
        let element_type = match &column.column_type {
            CqlType::List { element, .. } => {
                let index = <[u8; 4]>::try_from(key).map_or(-1, i32::from_be_bytes);
                // Cassandra does not look at the index if a frozen list is null.
                let is_null = !column.is_complex() && row.value(column).is_none();
                if index < 0 && !is_null {
                    return Err(Error::invalid(format!("Invalid negative list index {index}")));
                }
                element.as_ref().clone()
            }
            CqlType::Map { value, .. } => value.as_ref().clone(),
            CqlType::Set { element, .. } => element.as_ref().clone(),
            other => other.clone(),
        };
        Ok((element_type, element_in(row, column, key)?))
    }

    fn accepts(
        &self,
        column: &ColumnDefinition,
        value_type: &CqlType,
        value: Option<&Bytes>,
        wanted: Option<&Bytes>,
    ) -> Result<bool> {
        // A multi-cell collection without elements is null, so an empty collection in the condition
        // counts as null, too.
        let is_whole = matches!(self.target, ConditionTarget::Column(_));
        let is_collection = is_whole && column.is_complex() && value_type.is_collection();
        let compares = matches!(self.test, Test::Compare(_));
        let is_empty = |wanted: &&Bytes| wanted.as_ref() == EMPTY_COLLECTION;
        let Some(wanted) = wanted.filter(|w| !(is_collection && compares && is_empty(w))) else {
            return match self.test {
                Test::Compare(Operator::Equal) => Ok(value.is_none()),
                Test::Compare(Operator::NotEqual) => Ok(value.is_some()),
                test => Err(no_comparison(test, wanted.is_some().then_some(value_type))),
            };
        };
        let Some(value) = value else {
            return Ok(matches!(self.test, Test::Compare(Operator::NotEqual)));
        };
        match self.test {
            Test::Compare(operator) => {
                check_constant(column, value_type, wanted)?;
                Ok(holds(operator, value_type.compare(value, wanted)))
            }
            Test::Contains => contains(value_type, value, wanted, false),
            Test::ContainsKey => contains(value_type, value, wanted, true),
        }
    }
}

/// Checks the bytes of a value if planning does not check hexadecimal constants of its type
/// ([`prepare_compared`](crate::term::prepare_compared)).
fn check_constant(column: &ColumnDefinition, value_type: &CqlType, wanted: &[u8]) -> Result<()> {
    if !matches!(value_type, CqlType::Tuple(_) | CqlType::Tinyint) {
        return Ok(());
    }
    let invalid = |error| Error::invalid(format!("Invalid value for \"{}\": {error}", column.name));
    value_type.validate(wanted).map_err(invalid)
}

/// Creates the error for a comparison with null, or with an empty collection.
#[cold]
fn no_comparison(test: Test, empty: Option<&CqlType>) -> Error {
    let value = match empty {
        None => "null",
        Some(CqlType::List { .. }) => "an empty list",
        Some(CqlType::Set { .. }) => "an empty set",
        Some(_) => "an empty map",
    };
    let symbol = test.symbol();
    Error::invalid(format!("Invalid comparison with {value} for operator \"{symbol}\""))
}

fn field(
    column: &ColumnDefinition,
    index: usize,
    row: &CurrentRow<'_>,
) -> Result<(CqlType, Option<Bytes>)> {
    let CqlType::UserDefined { definition, .. } = &column.column_type else {
        return Ok((column.column_type.clone(), None));
    };
    let field_type = definition.fields.get(index).map(|(_, field_type)| field_type.clone());
    let field_type = field_type.unwrap_or_else(|| column.column_type.clone());
    Ok((field_type, field_in(row, column, index).map_err(malformed)?))
}

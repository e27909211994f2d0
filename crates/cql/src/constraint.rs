//! Checks written values against constraints: the conditions of `CHECK` and of indexes on vectors.
//!
//! A write to a table with constraints has [`Checks`] in its plan, and takes the general path. The
//! fast paths serve only tables without constraints, so they check nothing. A batch or transaction
//! that violates a constraint writes nothing, because the node computes all updates before the
//! first write.

use bytes::Bytes;
use espalier_mutation::{
    ColumnData, Row,
    schema::{ColumnConstraint, ColumnDefinition, ColumnKind, ConstrainedValue, TableMetadata},
};
use espalier_types::{
    CqlType, literal,
    similarity::{Similarity, floats},
};
use regex_automata::meta::Regex;

use crate::{Error, Result, grammar::ast::ComparisonOperator as Operator, restrictions::holds};

/// Maximum size of a compiled regular expression in bytes (arbitrary).
const MAX_REGEX_BYTES: usize = 1 << 20;

/// The constraints of a table, ready to test values.
#[derive(Debug)]
pub struct Checks {
    columns: Box<[ColumnChecks]>,
}

#[derive(Debug)]
struct ColumnChecks {
    column: ColumnDefinition,
    is_required: bool,
    allows_null: bool,
    tests: Box<[ColumnTest]>,
}

/// A constraint, ready to test values of its column.
#[derive(Debug)]
pub enum ColumnTest {
    /// `NOT NULL`.
    NotNull,
    /// `JSON()`.
    Json,
    /// `v > 5`: the right side as a value and as text.
    Compare(Operator, Bytes, String),
    /// `LENGTH() > 5`, or `OCTET_LENGTH() > 5` if the flag is set.
    Length(Operator, i32, bool),
    /// `REGEXP() = 'pattern'`, or `!=` if the flag is set.
    Regexp(Box<Regex>, bool, String),
    /// An index on vectors, which refuses vectors that its measure of similarity cannot compare.
    Vector(Similarity),
}

fn operator_of(symbol: &str) -> Option<Operator> {
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    [Equal, Less, LessOrEqual, Greater, GreaterOrEqual, NotEqual]
        .into_iter()
        .find(|operator| operator.symbol() == symbol)
}

/// Returns the text of a literal without its quotes.
fn unquoted(text: &str) -> String {
    match text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.to_string(),
    }
}

impl ColumnTest {
    /// Prepares a constraint.
    ///
    /// # Errors
    /// The right side is invalid (it must be a non-empty value of the column's type, a length or a
    /// regular expression), or a regular expression has an operator other than `=` and `!=`.
    pub fn plan(
        column: &ColumnDefinition,
        constraint: &ColumnConstraint,
    ) -> std::result::Result<Self, String> {
        let ColumnConstraint::Relation { left, operator, right } = constraint else {
            let is_json = *constraint == ColumnConstraint::Json;
            return Ok(if is_json { Self::Json } else { Self::NotNull });
        };
        let symbol = operator;
        let operator = operator_of(symbol).ok_or_else(|| format!("unknown operator {symbol}"))?;
        let unparsable =
            || format!("Cannot parse constraint value from {right} for column '{}'", column.name);
        match left {
            ConstrainedValue::Column => {
                let is_counter = column.column_type.is_counter();
                let bound = literal::from_text(&column.column_type, &unquoted(right));
                let bound = bound.ok().filter(|bound| !is_counter && !bound.is_empty());
                Ok(Self::Compare(operator, bound.ok_or_else(unparsable)?, right.clone()))
            }
            ConstrainedValue::Length | ConstrainedValue::OctetLength => {
                let bound = right.parse().map_err(|_| unparsable())?;
                Ok(Self::Length(operator, bound, *left == ConstrainedValue::OctetLength))
            }
            ConstrainedValue::Regexp => {
                if !matches!(operator, Operator::Equal | Operator::NotEqual) {
                    return Err(format!(
                        "REGEXP constraint of relation '{symbol}' is not supported. Only these are: [=, !=]"
                    ));
                }
                let pattern = unquoted(right);
                let config = Regex::config().nfa_size_limit(Some(MAX_REGEX_BYTES));
                let regex = Regex::builder()
                    .configure(config)
                    .build(&format!(r"\A(?:{pattern})\z"))
                    .map_err(|_| format!("String '{pattern}' is not a valid regular expression"))?;
                Ok(Self::Regexp(Box::new(regex), operator == Operator::NotEqual, pattern))
            }
        }
    }

    /// Returns the error text if the value violates the constraint. The text is Cassandra's.
    fn violation(&self, column: &ColumnDefinition, value: &[u8]) -> Option<String> {
        let name = &column.name;
        let text =
            || format!("Column value does not satisfy value constraint for column '{name}'.");
        match self {
            Self::NotNull => None,
            Self::Vector(similarity) => similarity.check(floats(value)).err(),
            Self::Json => {
                let is_json = std::str::from_utf8(value)
                    .is_ok_and(|document| literal::parse_json(document).is_ok());
                (!is_json).then(|| {
                    format!(
                        "Value for column '{name}' violated JSON constraint as it is not a valid JSON."
                    )
                })
            }
            Self::Compare(operator, bound, right) => {
                let is_satisfied = holds(*operator, column.column_type.compare(value, bound));
                (!is_satisfied).then(|| {
                    format!("{} It should be {name} {} {right}", text(), operator.symbol())
                })
            }
            Self::Length(operator, bound, is_octets) => {
                let length = if *is_octets { value.len() } else { length(column, value) };
                let is_satisfied = holds(*operator, (length as i64).cmp(&i64::from(*bound)));
                // Cassandra has the words "should be" twice for OCTET_LENGTH.
                let should = if *is_octets { "should be should be" } else { "should be" };
                (!is_satisfied).then(|| {
                    let symbol = operator.symbol();
                    format!(
                        "{} It has a length of {length} and it {should} {symbol} {bound}",
                        text()
                    )
                })
            }
            Self::Regexp(regex, is_negated, pattern) => {
                let not = if *is_negated { "" } else { "not " };
                (regex.is_match(value) == *is_negated)
                    .then(|| format!("Value does {not}match regular expression '{pattern}'"))
            }
        }
    }
}

/// Returns the length of a text in UTF-16 code units, as Java does, or of a blob in bytes.
fn length(column: &ColumnDefinition, value: &[u8]) -> usize {
    match (&column.column_type, std::str::from_utf8(value)) {
        (CqlType::Text | CqlType::Ascii, Ok(text)) => text.encode_utf16().count(),
        _ => value.len(),
    }
}

impl Checks {
    /// Prepares the constraints of a table, or returns `None` if it has none.
    ///
    /// # Errors
    /// A stored constraint cannot be prepared.
    pub fn of(table: &TableMetadata) -> Result<Option<Self>> {
        if !table.has_constraints() && table.indexes.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::new();
        for column in table.columns() {
            let constraints = table.constraints_of(column);
            let mut tests = constraints
                .iter()
                .map(|constraint| ColumnTest::plan(column, constraint).map_err(Error::invalid))
                .collect::<Result<Vec<_>>>()?;
            let of_column = table.indexes.iter().filter(|index| index.column == column.name);
            let similarity = of_column.filter_map(|index| index.vector_options(table));
            tests.extend(similarity.map(|options| ColumnTest::Vector(options.similarity)));
            if tests.is_empty() {
                continue;
            }
            let is_required = constraints.contains(&ColumnConstraint::NotNull);
            let (column, allows_null) = (column.clone(), constraints.is_empty());
            columns.push(ColumnChecks { column, is_required, allows_null, tests: tests.into() });
        }
        if columns.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { columns: columns.into() }))
    }

    /// Refuses an INSERT or UPDATE that does not write a column with `NOT NULL`.
    ///
    /// # Errors
    /// `is_written` is false for such a column.
    pub fn check_written(&self, is_written: impl Fn(&ColumnDefinition) -> bool) -> Result<()> {
        let mut required = self.columns.iter().filter(|checks| checks.is_required);
        match required.find(|checks| !is_written(&checks.column)) {
            Some(checks) => Err(Error::invalid(format!(
                "Column '{}' has to be specified as part of this query.",
                checks.column.name
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a DELETE of a column with `NOT NULL`.
    ///
    /// # Errors
    /// `is_deleted` is true for such a column.
    pub fn check_deleted(&self, is_deleted: impl Fn(&ColumnDefinition) -> bool) -> Result<()> {
        let mut required = self.columns.iter().filter(|checks| checks.is_required);
        match required.find(|checks| is_deleted(&checks.column)) {
            Some(checks) => Err(Error::invalid(format!(
                "Column '{}' can not be set to null.",
                checks.column.name
            ))),
            None => Ok(()),
        }
    }

    /// Checks the values of the partition key or of the clustering, in their order.
    ///
    /// # Errors
    /// A value violates a constraint.
    pub fn check_key<'v>(
        &self,
        kind: ColumnKind,
        values: impl IntoIterator<Item = Option<&'v [u8]>>,
    ) -> Result<()> {
        for (position, value) in values.into_iter().enumerate() {
            let Some(value) = value else { continue };
            let mut columns = self.columns.iter();
            let found = columns
                .find(|checks| checks.column.kind == kind && checks.column.position == position);
            if let Some(checks) = found {
                checks.check(value)?;
            }
        }
        Ok(())
    }

    /// Checks the cells that an INSERT or UPDATE writes into a row.
    ///
    /// # Errors
    /// A value violates a constraint, or is null in a column with `CHECK`.
    pub fn check_row(&self, row: &Row) -> Result<()> {
        for checks in &self.columns {
            if checks.column.is_primary_key() {
                continue;
            }
            let Some(ColumnData::Simple(cell)) = row.column(checks.column.id) else { continue };
            if cell.is_tombstone() {
                if checks.allows_null {
                    continue;
                }
                return Err(Error::invalid(format!(
                    "Column value does not satisfy value constraint for column '{}' as it is null.",
                    checks.column.name
                )));
            }
            checks.check(&cell.value)?;
        }
        Ok(())
    }
}

impl ColumnChecks {
    fn check(&self, value: &[u8]) -> Result<()> {
        let violation = self.tests.iter().find_map(|test| test.violation(&self.column, value));
        violation.map_or(Ok(()), |message| Err(Error::invalid(message)))
    }
}

/// Refuses relations of the same left side that contradict each other, as far as Cassandra does.
///
/// # Errors
/// No value can satisfy all of them, or Cassandra does not support the combination. The text is
/// Cassandra's.
pub fn satisfiable(
    column: &ColumnDefinition,
    constraints: &[ColumnConstraint],
) -> std::result::Result<(), String> {
    use ConstrainedValue::{Column, Length, OctetLength, Regexp};
    for wanted in [Column, Length, OctetLength, Regexp] {
        let relations: Vec<(Operator, &str, &ColumnConstraint)> = constraints
            .iter()
            .filter_map(|constraint| match constraint {
                ColumnConstraint::Relation { left, operator, right } if *left == wanted => {
                    Some((operator_of(operator)?, right.as_str(), constraint))
                }
                _ => None,
            })
            .collect();
        let name = if wanted == Column { "scalar" } else { wanted.name() };
        satisfiable_together(column, name, &relations)?;
    }
    Ok(())
}

fn satisfiable_together(
    column: &ColumnDefinition,
    what: &str,
    relations: &[(Operator, &str, &ColumnConstraint)],
) -> std::result::Result<(), String> {
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let name = &column.name;
    let excluded: Vec<&str> = relations
        .iter()
        .filter(|(operator, ..)| *operator == NotEqual)
        .map(|(_, right, _)| *right)
        .collect();
    if relations.len() - excluded.len() > 2 {
        return Err(format!(
            "There can not be more than 2 constraints (not including non-equal relations) on a column '{name}' but you have specified {}",
            relations.len()
        ));
    }
    for (index, right) in excluded.iter().enumerate() {
        if excluded[..index].contains(right) {
            return Err(format!(
                "There are duplicate constraint definitions on column '{name}': {name} != {right}"
            ));
        }
    }
    let [(first, first_right, one), (second, second_right, other)] = relations else {
        return Ok(());
    };
    let pair = || {
        let (first, second) = (first.symbol(), second.symbol());
        format!("{name} {first} {first_right}, {name} {second} {second_right}")
    };
    let is_unsupported = matches!(
        (first, second),
        (Equal, _)
            | (_, Equal)
            | (Greater, GreaterOrEqual)
            | (GreaterOrEqual, Greater)
            | (Less, LessOrEqual)
            | (LessOrEqual, Less)
    );
    if is_unsupported {
        return Err(format!("Constraints combination of {what} is not supported: {}", pair()));
    }
    if (first, second) == (&NotEqual, &NotEqual) {
        return Ok(());
    }
    // As in Cassandra, the bound of each relation must satisfy the other one.
    let ordering = match (ColumnTest::plan(column, one)?, ColumnTest::plan(column, other)?) {
        (ColumnTest::Compare(_, left, _), ColumnTest::Compare(_, right, _)) => {
            column.column_type.compare(&left, &right)
        }
        (ColumnTest::Length(_, left, _), ColumnTest::Length(_, right, _)) => left.cmp(&right),
        _ => return Ok(()),
    };
    if holds(*second, ordering) && holds(*first, ordering.reverse()) {
        return Ok(());
    }
    Err(format!("Constraints of {what} are not satisfiable: {}", pair()))
}

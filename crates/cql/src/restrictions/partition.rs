//! Restrictions of the partition key: keys by `=` and `IN`, a token range, or all partitions.

use bytes::Bytes;
use espalier_mutation::{
    DecoratedKey, KeyBound, KeyRange, Token, build_composite, schema::TableMetadata,
};
use espalier_storage::ReadTarget;
use espalier_types::collection;

use super::{
    Alternatives, MAX_CARTESIAN_PRODUCT,
    filter::{null_value, required_as},
};
use crate::{
    Error, Result,
    term::{Evaluation, Term},
};

/// The partitions that a statement reads or writes.
#[derive(Clone, Debug)]
pub enum PartitionRestriction {
    /// Every partition key column by `=` or `IN`.
    Keys(Vec<Alternatives>),
    /// Every partition key column by `=` or `IN`, with `token(...)` relations that exclude keys.
    KeysOfTokens {
        /// The values of each partition key column.
        keys: Vec<Alternatives>,
        /// Keys with tokens outside these bounds are excluded.
        tokens: TokenBounds,
    },
    /// Only `token(...)` relations.
    Token(TokenBounds),
    /// No restriction that the partition key can use.
    All,
}

/// A token range; either side may be open.
#[derive(Clone, Debug, Default)]
pub struct TokenBounds {
    /// Lower bound.
    pub lower: Option<TokenBound>,
    /// Upper bound.
    pub upper: Option<TokenBound>,
}

/// One side of a token range.
#[derive(Clone, Debug)]
pub struct TokenBound {
    /// A bigint.
    pub term: Term,
    /// True if the bound is part of the range (`>=` or `<=`).
    pub inclusive: bool,
}

/// The partitions of one execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Partitions {
    /// These keys, each once, in the order of their values (not in token order, which scans use).
    Keys(Vec<DecoratedKey>),
    /// All partitions in a range; `None` if the range is empty.
    Range(Option<KeyRange>),
}

impl Partitions {
    /// Returns the targets of the reads of the partitions.
    pub fn into_targets<C: FromIterator<ReadTarget>>(self) -> C {
        match self {
            Self::Keys(keys) => keys.into_iter().map(ReadTarget::Partition).collect(),
            Self::Range(range) => range.into_iter().map(ReadTarget::Range).collect(),
        }
    }
}

impl PartitionRestriction {
    /// Returns the values of each partition key column, if all of them are restricted by `=` or
    /// `IN`.
    pub fn keys(&self) -> Option<&[Alternatives]> {
        match self {
            Self::Keys(keys) | Self::KeysOfTokens { keys, .. } => Some(keys),
            Self::Token(_) | Self::All => None,
        }
    }

    /// Returns whether a partition key column has an IN. An IN of one term is the same as `=`.
    /// Filters do not count; see [`super::Restrictions::partition_key_has_in`].
    pub fn has_in(&self) -> bool {
        self.keys().is_some_and(|keys| keys.iter().any(Alternatives::is_in))
    }

    /// Returns whether nothing restricts the partitions.
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Evaluates the restriction with the bound values.
    ///
    /// # Errors
    /// A value is null, unset or malformed, a key is empty or longer than 65,535 bytes, or the INs
    /// name more than [`MAX_CARTESIAN_PRODUCT`] keys.
    pub fn partitions(
        &self,
        table: &TableMetadata,
        evaluation: &Evaluation<'_>,
    ) -> Result<Partitions> {
        match self {
            Self::All => Ok(Partitions::Range(Some(KeyRange::full()))),
            Self::Token(tokens) => tokens.key_range(evaluation).map(Partitions::Range),
            Self::Keys(columns) => keys(table, columns, evaluation).map(Partitions::Keys),
            Self::KeysOfTokens { keys: columns, tokens } => {
                let mut keys = keys(table, columns, evaluation)?;
                tokens.retain(&mut keys, evaluation)?;
                Ok(Partitions::Keys(keys))
            }
        }
    }
}

impl Alternatives {
    /// Returns whether the restriction is an IN, not counting an IN of one term.
    pub fn is_in(&self) -> bool {
        !matches!(self, Self::Terms(terms) if terms.len() == 1)
    }

    /// Evaluates the values for a filter. Leaves out nulls among several terms, because null
    /// matches no row.
    ///
    /// # Errors
    /// The only value, a list that is bound as a whole or an element of such a list is null, or a
    /// value is unset or malformed.
    pub fn evaluate_present(
        &self,
        column: &str,
        evaluation: &Evaluation<'_>,
    ) -> Result<Vec<Bytes>> {
        let Self::Terms(terms) = self else { return self.evaluate(column, evaluation) };
        if let [term] = terms.as_slice() {
            return required_as(term, column, "value", evaluation).map(|value| vec![value]);
        }
        let mut values = Vec::with_capacity(terms.len());
        for term in terms {
            values.extend(term.evaluate(evaluation)?.required(format_args!("column {column}"))?);
        }
        Ok(values)
    }

    /// Evaluates the values. `column` is the name for messages.
    ///
    /// # Errors
    /// A value, or the list that is bound as a whole, is null, unset or malformed.
    pub fn evaluate(&self, column: &str, evaluation: &Evaluation<'_>) -> Result<Vec<Bytes>> {
        self.evaluate_with(column, evaluation, || null_in_condition(column))
    }

    /// Evaluates the values of NOT IN, which has its own text for null.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn evaluate_excluded(
        &self,
        column: &str,
        evaluation: &Evaluation<'_>,
    ) -> Result<Vec<Bytes>> {
        self.evaluate_with(column, evaluation, || null_value(column))
    }

    fn evaluate_with(
        &self,
        column: &str,
        evaluation: &Evaluation<'_>,
        null: impl Fn() -> Error,
    ) -> Result<Vec<Bytes>> {
        match self {
            Self::Terms(terms) => terms
                .iter()
                .map(|term| {
                    term.evaluate(evaluation)?
                        .required(format_args!("column {column}"))?
                        .ok_or_else(&null)
                })
                .collect(),
            Self::List(term) => {
                let list = term.evaluate(evaluation)?.required(format_args!("column {column}"))?;
                let list = list.ok_or_else(|| null_value(column))?;
                let malformed =
                    |error| Error::invalid(format!("Invalid list for IN on {column}: {error}"));
                collection::elements(&list)
                    .map_err(malformed)?
                    .map(|element| {
                        let element = element.map_err(malformed)?;
                        element.map(|bytes| list.slice_ref(bytes)).ok_or_else(&null)
                    })
                    .collect()
            }
        }
    }
}

/// Creates the error for a null in a condition on a column of the primary key.
#[cold]
pub(super) fn null_in_condition(column: &str) -> Error {
    Error::invalid(format!("Invalid null value in condition for column {column}"))
}

fn keys(
    table: &TableMetadata,
    columns: &[Alternatives],
    evaluation: &Evaluation<'_>,
) -> Result<Vec<DecoratedKey>> {
    let definitions = table.partition_key_columns();
    let values = definitions
        .iter()
        .zip(columns)
        .map(|(column, alternatives)| {
            let mut values = alternatives.evaluate(&column.name, evaluation)?;
            if values.len() > 1 {
                values.sort_by(|left, right| column.column_type.compare(left, right));
                // As in Cassandra, the statement looks up equal values once, with the bytes of the
                // first.
                values.dedup_by(|later, first| column.column_type.compare(later, first).is_eq());
            }
            Ok(values)
        })
        .collect::<Result<Vec<_>>>()?;
    if let [alternatives] = values.as_slice() {
        check_product(1, alternatives.len())?;
        return alternatives.iter().map(single_key).collect();
    }
    let mut combinations: Vec<Vec<Bytes>> = vec![Vec::new()];
    for alternatives in &values {
        combinations = product(&combinations, alternatives.iter().map(std::slice::from_ref))?;
    }
    combinations.iter().map(|components| composite_key(components)).collect()
}

/// Returns each prefix followed by each of the values.
///
/// # Errors
/// As [`check_product`].
pub(super) fn product<'v, T: Clone + 'v>(
    prefixes: &[Vec<T>],
    values: impl ExactSizeIterator<Item = &'v [T]> + Clone,
) -> Result<Vec<Vec<T>>> {
    check_product(prefixes.len(), values.len())?;
    let mut product = Vec::with_capacity(prefixes.len() * values.len());
    for prefix in prefixes {
        product.extend(values.clone().map(|value| [prefix.as_slice(), value].concat()));
    }
    Ok(product)
}

/// Refuses INs that name too many combinations: more than [`MAX_CARTESIAN_PRODUCT`].
pub(crate) fn check_product(left: usize, right: usize) -> Result<()> {
    if left.saturating_mul(right) > MAX_CARTESIAN_PRODUCT {
        let message = format!(
            "The IN restrictions name more than {MAX_CARTESIAN_PRODUCT} combinations of values; ask for fewer at a time"
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Counts the rows, and ranges of rows, that the INs and the comparisons of tuples in a batch or
/// transaction name.
///
/// An IN of a few hundred bytes names tens of thousands of rows, and a batch may have many such
/// statements. The node keeps the rows of all of them until it writes the batch.
#[derive(Debug, Default)]
pub(crate) struct NamedRows(usize);

impl NamedRows {
    /// Adds a statement that names `slices` rows or ranges in each of `keys` partitions. A
    /// statement that names a single row or range does not count.
    ///
    /// # Errors
    /// The statements name more than [`MAX_CARTESIAN_PRODUCT`] together.
    pub(crate) fn add(&mut self, keys: usize, slices: usize) -> Result<()> {
        let named = keys.saturating_mul(slices);
        if named > 1 {
            self.0 = self.0.saturating_add(named);
            check_product(self.0, 1)?;
        }
        Ok(())
    }
}

fn single_key(value: &Bytes) -> Result<DecoratedKey> {
    if value.is_empty() {
        return Err(Error::invalid("Key may not be empty"));
    }
    check_key_length(value.len())?;
    Ok(DecoratedKey::new(value.clone()))
}

/// Returns the key of these components. A single component is the key itself.
///
/// # Errors
/// As [`check_key_length`], for a component or the whole key.
pub fn composite_key(components: &[Bytes]) -> Result<DecoratedKey> {
    for component in components {
        check_key_length(component.len())?;
    }
    let key = build_composite(components);
    check_key_length(key.len())?;
    Ok(DecoratedKey::new(key))
}

/// Checks that the length of a key fits in 16 bits, as files store it.
///
/// # Errors
/// Error 0x2200 if `length` is above 65,535.
#[inline]
pub fn check_key_length(length: usize) -> Result<()> {
    if length > usize::from(u16::MAX) {
        return Err(Error::invalid(format!(
            "Key length of {length} is longer than maximum of {}",
            u16::MAX
        )));
    }
    Ok(())
}

impl TokenBound {
    fn token(&self, evaluation: &Evaluation<'_>) -> Result<i64> {
        let value = self.term.evaluate(evaluation)?.required("the partition key token")?;
        let bytes = value.ok_or_else(|| Error::invalid("Invalid null token value"))?;
        let bytes = <[u8; 8]>::try_from(bytes.as_ref())
            .map_err(|_| Error::invalid("Invalid token value: a bigint has 8 bytes"))?;
        Ok(i64::from_be_bytes(bytes))
    }
}

impl TokenBounds {
    /// Returns the range of the keys whose tokens are inside these bounds, or `None` if the range
    /// is empty. The minimum token as upper bound means the end of the ring, as drivers and tools
    /// that walk the ring expect.
    fn key_range(&self, evaluation: &Evaluation<'_>) -> Result<Option<KeyRange>> {
        let start = match &self.lower {
            None => KeyBound::Unbounded,
            Some(bound) if bound.inclusive => {
                KeyBound::BeforeToken(Token(bound.token(evaluation)?))
            }
            Some(bound) => KeyBound::AfterToken(Token(bound.token(evaluation)?)),
        };
        let end = match &self.upper {
            None => KeyBound::Unbounded,
            Some(bound) => match bound.token(evaluation)? {
                i64::MIN => KeyBound::Unbounded,
                value if bound.inclusive => KeyBound::AfterToken(Token(value)),
                value => KeyBound::BeforeToken(Token(value)),
            },
        };
        let is_empty = match (start.token(), end.token()) {
            (Some(start_token), Some(end_token)) => {
                start_token > end_token
                    || (start_token == end_token
                        && !(matches!(start, KeyBound::BeforeToken(_))
                            && matches!(end, KeyBound::AfterToken(_))))
            }
            _ => false,
        };
        Ok((!is_empty).then_some(KeyRange { start, end }))
    }

    /// Removes keys with tokens outside the range. Here the minimum token is an ordinary bound, as
    /// in Cassandra.
    fn retain(&self, keys: &mut Vec<DecoratedKey>, evaluation: &Evaluation<'_>) -> Result<()> {
        if let Some(bound) = &self.lower {
            let token = bound.token(evaluation)?;
            keys.retain(|key| key.token.0 > token || (bound.inclusive && key.token.0 == token));
        }
        if let Some(bound) = &self.upper {
            let token = bound.token(evaluation)?;
            keys.retain(|key| key.token.0 < token || (bound.inclusive && key.token.0 == token));
        }
        Ok(())
    }
}

//! Filters with the values of one execution, which are evaluated once and not for each row.

use std::{cmp::Ordering, collections::BTreeSet};

use bytes::Bytes;
use espalier_mutation::ColumnData;
use espalier_runtime::maybe_yield;
use espalier_types::CqlType;

use super::{
    Filter, FilterOperator, element_in,
    filter::{contains_as, holds, null_value, required_as},
    like::{Pattern, PatternTerms},
};
use crate::{
    Error, Result,
    current_row::{CurrentRow, FrozenColumns},
    grammar::ast::ComparisonOperator,
    term::{Evaluation, Term},
};

/// The filters of a statement with the values of one execution. A row of the result satisfies all
/// of them.
#[derive(Debug)]
pub struct BoundFilters<'p> {
    filters: Vec<BoundFilter<'p>>,
}

impl<'p> BoundFilters<'p> {
    /// Evaluates the values of filters.
    ///
    /// # Errors
    /// A value or a key in a condition is null, unset or malformed, or the pattern of a LIKE is
    /// empty, has too many terms, or is of a kind that its index does not serve.
    pub(super) async fn of(filters: &'p [Filter], evaluation: &Evaluation<'_>) -> Result<Self> {
        let mut bound = Vec::with_capacity(filters.len());
        for filter in filters {
            maybe_yield().await;
            bound.push(BoundFilter::of(filter, evaluation).await?);
        }
        Ok(Self { filters: bound })
    }

    /// Returns whether there are no filters, so that each row satisfies them.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Returns whether a row satisfies all filters. Null satisfies no condition, negated or not.
    /// `frozen` may have values of the row's partition.
    ///
    /// # Errors
    /// A collection in the row is malformed.
    pub async fn accepts(&self, row: &CurrentRow<'_>, frozen: &mut FrozenColumns) -> Result<bool> {
        let Some((first, others)) = self.filters.split_first() else { return Ok(true) };
        let mut is_accepted = first.accepts(row, frozen)?;
        for filter in others {
            if !is_accepted {
                break;
            }
            maybe_yield().await;
            is_accepted = filter.accepts(row, frozen)?;
        }
        frozen.leave_row();
        Ok(is_accepted)
    }
}

/// A filter with its values.
#[derive(Debug)]
struct BoundFilter<'p> {
    filter: &'p Filter,
    /// The key, if an element of a map is tested.
    key: Option<Bytes>,
    /// The type of the tested value.
    value_type: &'p CqlType,
    test: Test<'p>,
}

/// A [`FilterOperator`] with its values. Texts that an index analyses are analysed here, so that a
/// row costs only the analysis of its own texts.
#[derive(Debug)]
enum Test<'p> {
    Compare(ComparisonOperator, Bytes),
    In(BTreeSet<OrderedValue<'p>>),
    Contains(Bytes),
    ContainsKey(Bytes),
    Like(PatternTerms<'p>),
}

/// A value with the order of its type.
#[derive(Debug)]
struct OrderedValue<'p> {
    value_type: &'p CqlType,
    value: Bytes,
}

impl Ord for OrderedValue<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value_type.compare(&self.value, &other.value)
    }
}

impl PartialOrd for OrderedValue<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedValue<'_> {}

/// Sorts the values of an IN. Yields meanwhile, because a client may send a million values.
async fn sorted(value_type: &CqlType, values: Vec<Bytes>) -> BTreeSet<OrderedValue<'_>> {
    let mut sorted = BTreeSet::new();
    for value in values {
        maybe_yield().await;
        sorted.insert(OrderedValue { value_type, value });
    }
    sorted
}

impl<'p> BoundFilter<'p> {
    async fn of(filter: &'p Filter, evaluation: &Evaluation<'_>) -> Result<Self> {
        let (column, name) = (&filter.column, &filter.column.name);
        let key = |term: &Term| required_as(term, name, "map key", evaluation);
        let key = filter.key.as_ref().map(key).transpose()?;
        let what = if key.is_some() { "map value" } else { "value" };
        let value = |term: &Term| {
            if !filter.is_negated {
                return required_as(term, name, what, evaluation);
            }
            let value = term.evaluate(evaluation)?.required(format_args!("column {name}"))?;
            value.ok_or_else(|| null_value(name))
        };
        let value_type = match &column.column_type {
            CqlType::Map { value: element, .. } if key.is_some() => element.as_ref(),
            whole => whole,
        };
        let analysed = |term: &Term| {
            let value = value(term)?;
            if filter.analysis.is_plain() {
                return Ok(value);
            }
            Ok::<_, Error>(Bytes::from(filter.analysis.apply(&value).into_owned()))
        };
        let test = match &filter.operator {
            FilterOperator::Compare(operator, term) => Test::Compare(*operator, analysed(term)?),
            FilterOperator::In(values) => {
                let values = if filter.is_negated {
                    values.evaluate_excluded(name, evaluation)?
                } else {
                    values.evaluate_present(name, evaluation)?
                };
                Test::In(sorted(value_type, values).await)
            }
            FilterOperator::Contains(term) => Test::Contains(analysed(term)?),
            FilterOperator::ContainsKey(term) => Test::ContainsKey(analysed(term)?),
            FilterOperator::Like(term, index) => {
                let value = value(term)?;
                let pattern = Pattern::of(&value)?;
                pattern.check_served(index, column)?;
                Test::Like(pattern.terms(index, name)?)
            }
        };
        Ok(Self { filter, key, value_type, test })
    }

    /// Tests a row. `frozen` caches values of this row.
    fn accepts(&self, row: &CurrentRow<'_>, frozen: &mut FrozenColumns) -> Result<bool> {
        let Filter { column, is_negated, analysis, .. } = self.filter;
        if self.key.is_none()
            && let Test::Compare(operator, wanted) = &self.test
            && analysis.is_plain()
            && let Some(value) = row.plain_value(column)
        {
            let Some(value) = value else { return Ok(false) };
            let order = self.value_type.compare(value, wanted);
            return Ok(holds(*operator, order) != *is_negated);
        }
        if let Some(wanted) = self.wanted_path(&column.column_type)
            && let Some(ColumnData::Complex(complex)) = row.data(column)
        {
            let is_present = element_in(row, column, wanted)?.is_some();
            return Ok(!complex.cells.is_empty() && is_present != *is_negated);
        }
        let value = match &self.key {
            Some(key) => element_in(row, column, key)?,
            None => frozen.value(row, column),
        };
        let Some(value) = value else { return Ok(false) };
        let value_type = self.value_type;
        let holds = match &self.test {
            Test::Compare(operator, wanted) if analysis.is_plain() => {
                holds(*operator, value_type.compare(&value, wanted))
            }
            Test::Compare(_, wanted) => *analysis.apply(&value) == **wanted,
            Test::In(values) => values.contains(&OrderedValue { value_type, value }),
            Test::Contains(wanted) => contains_as(value_type, &value, wanted, false, *analysis)?,
            Test::ContainsKey(wanted) => contains_as(value_type, &value, wanted, true, *analysis)?,
            Test::Like(terms) => terms.matches(&value),
        };
        Ok(holds != *is_negated)
    }

    /// Returns the element of a set or the key of a map that the test wants, if a binary search in
    /// the cells of a multi-cell column can find it. Returns `None` if the test must compare each
    /// value.
    fn wanted_path(&self, column_type: &CqlType) -> Option<&Bytes> {
        match (&self.test, column_type) {
            (Test::Contains(wanted), CqlType::Set { .. })
            | (Test::ContainsKey(wanted), CqlType::Map { .. })
                if self.filter.analysis.is_plain() =>
            {
                Some(wanted)
            }
            _ => None,
        }
    }
}

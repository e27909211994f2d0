//! Planned use of secondary indexes: the values that a SELECT looks up in them.

use std::{cell::RefCell, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    put_form,
    schema::{IndexPart, TermIndex},
};
use espalier_runtime::maybe_yield;
use espalier_storage::{FormBound, IndexSearch, IndexTerm, IndexValues, MAX_SEARCH_STREAMS};
use espalier_types::{CqlType, TextAnalysis, literal::IndexedDecimals};

use super::{Alternatives, RangeBound, like::Pattern};
use crate::{
    Error, Result,
    grammar::ast::ComparisonOperator as Operator,
    term::{Bound, Evaluation, Term},
};

/// Maximum number of different terms that a SELECT looks up (arbitrary). Each term costs a search
/// of its index. The filters check the other conditions.
const MAX_TERMS: usize = 64;

/// The terms of all indexes that a SELECT uses.
#[derive(Clone, Debug, Default)]
pub struct IndexPlan {
    /// The terms. A row of the result satisfies all of them.
    pub terms: Vec<PlannedTerm>,
}

/// The values to look up in one index.
#[derive(Clone, Debug)]
pub struct PlannedTerm {
    /// The name of the index.
    pub index: String,
    /// The indexed column, for messages.
    pub column: String,
    /// The type of the indexed values: of the column, or of its elements, keys or values.
    pub value_type: CqlType,
    /// The analysis of the indexed texts.
    pub analysis: TextAnalysis,
    /// The values.
    pub values: PlannedValues,
}

/// The values to look up, as terms that each execution evaluates.
#[derive(Clone, Debug)]
pub enum PlannedValues {
    /// One value.
    Equal(Term),
    /// The values of an IN.
    In(Alternatives),
    /// An entry of a map: the type of the key, the key, and the value.
    Entry(CqlType, Term, Term),
    /// A range.
    Range(Vec<(Operator, Term)>),
    /// The texts that match a pattern.
    Like(Term, Arc<TermIndex>),
}

impl PlannedValues {
    /// Returns the bounds of a range of one clustering column.
    pub(super) fn of_bounds(lower: Option<&RangeBound>, upper: Option<&RangeBound>) -> Self {
        let operator = |bound: &RangeBound, inclusive, exclusive| {
            (if bound.inclusive { inclusive } else { exclusive }, bound.term.clone())
        };
        let lower = lower.map(|bound| operator(bound, Operator::GreaterOrEqual, Operator::Greater));
        let upper = upper.map(|bound| operator(bound, Operator::LessOrEqual, Operator::Less));
        Self::Range(lower.into_iter().chain(upper).collect())
    }
}

impl IndexPlan {
    /// Evaluates the terms with the bound values, up to [`MAX_TERMS`] different ones. Returns
    /// `None` if there are no terms, or if a value is null or unset; the filters or slices refuse
    /// such a value.
    ///
    /// # Errors
    /// A term cannot be evaluated, a value of an IN is unset, a decimal has more than 16 KiB, the
    /// decimals of a term together take too long ([`IndexedDecimals::add`]), or the pattern of a
    /// LIKE is empty or has too many terms.
    pub async fn search(&self, evaluation: &Evaluation<'_>) -> Result<Option<IndexSearch>> {
        let mut terms: Vec<IndexTerm> = Vec::new();
        'terms: for planned in &self.terms {
            maybe_yield().await;
            let values = match planned.evaluate(evaluation)? {
                Searched::Values(values) => values,
                Searched::TooMany => continue,
                Searched::Null => return Ok(None),
            };
            for values in values {
                let term = IndexTerm { index: planned.index.clone(), values };
                if !terms.contains(&term) {
                    terms.push(term);
                }
                if terms.len() == MAX_TERMS {
                    break 'terms;
                }
            }
        }
        Ok((!terms.is_empty()).then_some(IndexSearch { terms }))
    }
}

/// A [`PlannedTerm`] with the values of one execution.
enum Searched {
    /// The searches, all of which a row of the result satisfies.
    Values(Vec<IndexValues>),
    /// An IN has so many values that the index does not serve it. The filter checks them.
    TooMany,
    /// A value is null or unset.
    Null,
}

impl PlannedTerm {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<Searched> {
        let value = |term: &Term| -> Result<Option<Bytes>> {
            Ok(match term.evaluate(evaluation)? {
                Bound::Value(value) => Some(value),
                Bound::Null | Bound::Unset => None,
            })
        };
        let decimals = RefCell::new(IndexedDecimals::default());
        let form = |values: &[(&CqlType, &[u8])]| {
            for (value_type, value) in values {
                let added = decimals.borrow_mut().add(value_type, value);
                added.map_err(Error::invalid_from)?;
            }
            let mut form = Vec::new();
            let is_cut = put_form(values, &mut form);
            Ok::<_, Error>((form, is_cut))
        };
        let of_type = &self.value_type;
        // The index makes its entries in the same way.
        let form_of = |value: &[u8]| {
            Ok::<_, Error>(form(&[(of_type, &*self.analysis.apply_to_head(value))])?.0)
        };
        let found = match &self.values {
            PlannedValues::Equal(term) => {
                let form = value(term)?.map(|value| form_of(&value)).transpose()?;
                form.map(|form| IndexValues::OneOf(vec![form]))
            }
            PlannedValues::In(alternatives) => {
                let values = alternatives.evaluate_present(&self.column, evaluation)?;
                if values.len() > MAX_SEARCH_STREAMS {
                    return Ok(Searched::TooMany);
                }
                let forms = values.iter().map(|value| form_of(value));
                let mut forms: Vec<Vec<u8>> = forms.collect::<Result<_>>()?;
                forms.sort();
                forms.dedup();
                Some(IndexValues::OneOf(forms))
            }
            PlannedValues::Entry(key_type, key, term) => {
                let (Some(key), Some(value)) = (value(key)?, value(term)?) else {
                    return Ok(Searched::Null);
                };
                let (form, _) = form(&[(key_type, &key), (of_type, &value)])?;
                Some(IndexValues::OneOf(vec![form]))
            }
            PlannedValues::Range(bounds) => {
                let (mut lower, mut upper) = (None, None);
                for (operator, term) in bounds {
                    let Some(value) = value(term)? else { return Ok(Searched::Null) };
                    let (form, is_cut) = form(&[(of_type, &value)])?;
                    let inclusive = is_cut || operator.is_inclusive();
                    let side = if operator.is_greater() { &mut lower } else { &mut upper };
                    *side = Some(FormBound { form, inclusive });
                }
                Some(IndexValues::Between { lower, upper })
            }
            PlannedValues::Like(term, index) => {
                let Some(value) = value(term)? else { return Ok(Searched::Null) };
                let terms = Pattern::of(&value)?.terms(index, &self.column)?;
                return Ok(Searched::Values(terms.searches(of_type)));
            }
        };
        Ok(found.map_or(Searched::Null, |values| Searched::Values(vec![values])))
    }
}

/// Returns the type of the values in an index on a part of a column. For an index on entries, this
/// is the type of the map's values.
pub(crate) fn indexed_type(column_type: &CqlType, part: IndexPart) -> CqlType {
    match (column_type, part) {
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, IndexPart::Values) => {
            element.as_ref().clone()
        }
        (CqlType::Map { value, .. }, IndexPart::Values | IndexPart::Entries) => {
            value.as_ref().clone()
        }
        (CqlType::Map { key, .. }, IndexPart::Keys) => key.as_ref().clone(),
        _ => column_type.clone(),
    }
}

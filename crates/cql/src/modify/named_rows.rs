//! Finds the rows that a modification names. Compact tables have rules of their own.
//!
//! In a compact table with several clustering columns, INSERT and UPDATE may leave out the last
//! ones, whose values are then null. In a compact table with one clustering column, the value of
//! this column may not be empty.

use std::iter::repeat_n;

use espalier_mutation::{ClusteringSlice, ClusteringSlices, schema::TableLayout};

use super::{ModificationKind, PlannedModification};
use crate::{Error, Result, restrictions::check_key_length, term::Evaluation};

impl PlannedModification {
    /// Returns whether each slice of an execution is one row.
    pub fn names_rows(&self) -> bool {
        self.restrictions.names_whole_rows(&self.table) || self.may_shorten_clusterings()
    }

    /// Returns whether the statement may leave out the values of the last clustering columns. False
    /// for a DELETE, which would then name a range: all rows with the given values.
    fn may_shorten_clusterings(&self) -> bool {
        self.table.layout == TableLayout::DenseComposite
            && self.kind != ModificationKind::Delete
            && !self.restrictions.clustering.is_empty()
    }

    /// Evaluates the slices of an execution.
    ///
    /// # Errors
    /// A clustering value is null, unset, malformed or too long, or it is empty where the table
    /// allows no empty value.
    pub(super) fn named_slices(&self, evaluation: &Evaluation<'_>) -> Result<ClusteringSlices> {
        let mut slices = self.restrictions.slices(&self.table, evaluation)?;
        check_lengths(&slices.slices)?;
        match self.table.layout {
            TableLayout::Dense if self.names_rows() => self.check_empty(&slices.slices)?,
            TableLayout::DenseComposite if self.may_shorten_clusterings() => {
                let count = self.table.clustering_columns().len();
                slices.slices.iter_mut().for_each(|slice| lengthen(slice, count));
            }
            _ => {}
        }
        Ok(slices)
    }

    fn check_empty(&self, slices: &[ClusteringSlice]) -> Result<()> {
        let mut values = slices.iter().flat_map(|slice| slice.start.values.iter().flatten());
        let column = self.table.clustering_columns().first();
        match column.filter(|_| values.any(|value| value.is_empty())) {
            Some(column) => {
                let name = &column.name;
                Err(Error::invalid(format!("Invalid empty or null value for column {name}")))
            }
            None => Ok(()),
        }
    }
}

/// Appends nulls to the bounds of a slice until they have values for `count` columns.
fn lengthen(slice: &mut ClusteringSlice, count: usize) {
    for bound in [&mut slice.start, &mut slice.end] {
        let missing = count.saturating_sub(bound.values.len());
        if missing > 0 {
            bound.values = bound.values.iter().cloned().chain(repeat_n(None, missing)).collect();
        }
    }
}

/// Refuses clustering values of more than 65,535 bytes, because some versions of Statistics.db
/// store the length of the least and the greatest value in 16 bits.
fn check_lengths(slices: &[ClusteringSlice]) -> Result<()> {
    let values = slices.iter().flat_map(|slice| slice.start.values.iter().chain(&slice.end.values));
    check_key_length(values.flatten().map(|value| value.len()).max().unwrap_or(0))
}

//! Output of result rows: one for each row read, or one for each group.

use std::cell::RefCell;

use bytes::Bytes;
use espalier_mutation::{Row, schema::ColumnKind};

use super::{
    PlannedSelect, SelectExpression,
    expression::{Aggregation, RowContext},
};
use crate::{
    Error, Result,
    current_row::{CurrentRow, FrozenColumns, OwnedRow, RowView},
    options::QueryOptions,
    term::Evaluation,
};

/// Maximum bytes of the encoded rows of a page or result, because drivers accept no larger frame.
/// The last row of a page may exceed it by its stored bytes and [`ROW_SLACK`].
pub const MAX_RESULT_BYTES: usize = 256 << 20;
/// Bytes by which the last row of a page may exceed its stored bytes. Arbitrary: a document of
/// `SELECT JSON` also has the names of the columns.
const ROW_SLACK: usize = 64 << 10;

/// Collects the encoded result rows of a page.
pub struct Output<'s> {
    select: &'s PlannedSelect,
    selectors: &'s [SelectExpression],
    evaluation: &'s Evaluation<'s>,
    now_s: u32,
    /// `Some(n)` if a row of the answer has `n` partition key columns and then all values of a flat
    /// row (packed values of clustering and regular columns), which are copied as they are.
    key_columns_before_row: Option<usize>,
    /// Bytes of encoded rows at which the page ends, except for its last row.
    max_bytes: usize,
    is_paged: bool,
    /// The frozen values of the current row and its partition.
    pub frozen: RefCell<FrozenColumns>,
    /// The encoded rows.
    pub content: Vec<u8>,
    /// The number of encoded rows.
    pub row_count: usize,
    group: Option<Group<'s>>,
}

/// The open group: its first row, and the aggregates so far.
struct Group<'s> {
    partition_key: Vec<Bytes>,
    static_row: Option<Row>,
    row: Option<OwnedRow>,
    /// The result of the function in GROUP BY.
    value: Option<Bytes>,
    aggregation: Aggregation<'s>,
}

impl<'s> Output<'s> {
    /// Creates an empty page.
    pub fn new(
        select: &'s PlannedSelect,
        evaluation: &'s Evaluation<'s>,
        now_s: u32,
        options: &QueryOptions<'_>,
    ) -> Self {
        let selectors = select.selectors(options.applies_masks);
        let flat = select.flat.as_ref().filter(|_| std::ptr::eq(selectors, &*select.selectors));
        Self {
            select,
            selectors,
            evaluation,
            now_s,
            key_columns_before_row: flat.and_then(|flat| flat.key_columns_before_row),
            max_bytes: options.answer_bytes.min(MAX_RESULT_BYTES),
            is_paged: options.page_size.is_some_and(|size| size > 0),
            frozen: RefCell::default(),
            content: Vec::new(),
            row_count: 0,
            group: None,
        }
    }

    fn context<'c>(
        &'c self,
        row: CurrentRow<'c>,
        aggregates: &'c [Option<Bytes>],
    ) -> RowContext<'c> {
        let Self { frozen, evaluation, now_s, .. } = self;
        RowContext { row, frozen, evaluation, now_s: *now_s, aggregates }
    }

    /// Returns whether a row needs more than values of columns, so that it may take long.
    pub fn calls_functions(&self) -> bool {
        let is_column =
            |selector: &SelectExpression| matches!(selector, SelectExpression::Column(_));
        let is_cheap = |selector: &SelectExpression| match selector {
            SelectExpression::Aggregate(_, _, argument) => {
                argument.as_deref().is_none_or(is_column)
            }
            other => is_column(other),
        };
        let group_by = self.select.group_by.as_ref();
        group_by.is_some_and(|group_by| group_by.function.is_some())
            || !self.selectors.iter().all(is_cheap)
    }

    /// Encodes a result row.
    ///
    /// # Errors
    /// As [`SelectExpression::value`], or the row is too large.
    pub fn emit(&mut self, row: CurrentRow<'_>) -> Result<()> {
        self.encode(row, &[])
    }

    /// Encodes a row apart from the page.
    ///
    /// # Errors
    /// A selector has no value, or the row is too large.
    pub fn encode_apart(&mut self, row: CurrentRow<'_>) -> Result<Vec<u8>> {
        let (page, rows) = (std::mem::take(&mut self.content), self.row_count);
        let written = self.encode(row, &[]);
        self.row_count = rows;
        let content = std::mem::replace(&mut self.content, page);
        written.map(|()| content)
    }

    /// Adds a row that was encoded apart.
    pub fn append(&mut self, row: &[u8]) {
        self.content.extend_from_slice(row);
        self.row_count += 1;
    }

    fn encode(&mut self, row: CurrentRow<'_>, aggregates: &[Option<Bytes>]) -> Result<()> {
        let mut content = std::mem::take(&mut self.content);
        let context = self.context(row, aggregates);
        let (mut selectors, mut rest) = (self.selectors, &[][..]);
        if let (Some(keys), Some(RowView::Flat(row))) = (self.key_columns_before_row, row.row) {
            (selectors, rest) = (selectors.get(..keys).unwrap_or_default(), row.values);
        }
        let mut max_bytes = self.max_bytes;
        let written = selectors.iter().try_for_each(|selector| {
            match selector {
                SelectExpression::Column(column) => match row.plain_value(column) {
                    Some(value) => put(value, &mut content),
                    // Most statements name a regular column once, so no copy of it is kept.
                    None if column.kind == ColumnKind::Regular => {
                        put(row.value(column).as_deref(), &mut content);
                    }
                    None => put(selector.value(&context)?.as_deref(), &mut content),
                },
                other => put(other.value(&context)?.as_deref(), &mut content),
            }
            if content.len() > max_bytes {
                max_bytes = self.raised_limit(&row, content.len())?;
            }
            Ok(())
        });
        content.extend_from_slice(rest);
        self.frozen.get_mut().leave_row();
        self.content = content;
        self.row_count += 1;
        written
    }

    /// Returns the limit for a page whose last row exceeds the maximum: the row may add the bytes
    /// that are stored, but a statement that names large values many times may not multiply them.
    ///
    /// # Errors
    /// The page has more than `bytes`, the bytes so far.
    #[cold]
    fn raised_limit(&self, row: &CurrentRow<'_>, bytes: usize) -> Result<usize> {
        let of_last = if self.is_paged { row.stored_bytes() + ROW_SLACK } else { 0 };
        let limit = self.max_bytes + of_last;
        if bytes <= limit {
            return Ok(limit);
        }
        if self.max_bytes < MAX_RESULT_BYTES {
            return Err(Error::answer_too_large());
        }
        if self.is_paged {
            let message = format!(
                "A row of the result is larger than {} MiB; select fewer values",
                MAX_RESULT_BYTES >> 20
            );
            return Err(Error::invalid(message));
        }
        Err(too_large())
    }

    /// Returns whether `row` begins a new group while another is open.
    ///
    /// # Errors
    /// The function in GROUP BY has no result for the row.
    pub fn begins_group(&self, row: &CurrentRow<'_>) -> Result<bool> {
        let (Some(group), Some(group_by)) = (&self.group, &self.select.group_by) else {
            return Ok(false);
        };
        if group.partition_key != row.partition_key {
            return Ok(true);
        }
        let (Some(left), Some(right)) = (&group.row, row.row) else {
            let is_other_kind = group.row.is_some() != row.row.is_some();
            return Ok(is_other_kind && !self.select.groups_partitions());
        };
        let (left, comparator) = (left.view(), row.table.comparator());
        // 1 and 1.0 belong to one group. Partition keys compare by their bytes, as everywhere.
        let differs = (0..group_by.columns - group.partition_key.len()).any(|index| {
            let values = (left.clustering_value(index), right.clustering_value(index));
            comparator.compare_value(index, values.0, values.1).is_ne()
        });
        Ok(differs || self.group_value(row)? != group.value)
    }

    /// Returns the result of the function in GROUP BY for a row. Equal results have equal bytes,
    /// because they are numbers and times of fixed length.
    fn group_value(&self, row: &CurrentRow<'_>) -> Result<Option<Bytes>> {
        match self.select.group_by.as_ref().and_then(|group_by| group_by.function.as_ref()) {
            Some(function) if row.row.is_some() => function.value(&self.context(*row, &[])),
            _ => Ok(None),
        }
    }

    /// Adds a row to the open group, or opens one with it.
    ///
    /// # Errors
    /// As [`Aggregation::add`], or the function in GROUP BY has no result for the row.
    pub fn accumulate(&mut self, row: CurrentRow<'_>) -> Result<()> {
        let selectors = self.selectors;
        let value = if self.group.is_none() { self.group_value(&row)? } else { None };
        let group = self.group.get_or_insert_with(|| Group {
            partition_key: row.partition_key.to_vec(),
            static_row: row.static_row.cloned(),
            row: row.row.map(RowView::to_owned),
            value,
            aggregation: Aggregation::new(selectors),
        });
        let Self { frozen, evaluation, now_s, .. } = self;
        let context = RowContext { row, frozen, evaluation, now_s: *now_s, aggregates: &[] };
        group.aggregation.add(&context)?;
        frozen.get_mut().leave_row();
        Ok(())
    }

    /// Encodes the result row of the open group. Without GROUP BY, the result has this row even if
    /// no row was read.
    ///
    /// # Errors
    /// As [`Aggregation::finish`] and [`SelectExpression::value`], or the row is too large.
    pub fn finish_group(&mut self) -> Result<()> {
        let table = self.select.table.clone();
        let group = match self.group.take() {
            Some(group) => group,
            None if self.select.group_by.is_none() => Group {
                partition_key: Vec::new(),
                static_row: None,
                row: None,
                value: None,
                aggregation: Aggregation::new(self.selectors),
            },
            None => return Ok(()),
        };
        let aggregates = group.aggregation.finish()?;
        let row = CurrentRow {
            table: &table,
            partition_key: &group.partition_key,
            static_row: group.static_row.as_ref(),
            row: group.row.as_ref().map(OwnedRow::view),
        };
        // The partition of the group may be another than that of the current row.
        let frozen = std::mem::take(&mut self.frozen);
        let written = self.encode(row, &aggregates);
        self.frozen = frozen;
        written
    }

    /// Returns whether a group is open.
    pub fn has_group(&self) -> bool {
        self.group.is_some()
    }
}

/// Creates the error of a result that is larger than [`MAX_RESULT_BYTES`].
#[cold]
pub fn too_large() -> Error {
    Error::invalid(format!("The result is larger than {} MiB; use paging", MAX_RESULT_BYTES >> 20))
}

/// Appends a cell in the protocol's encoding.
#[inline]
pub fn put(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(value) => {
            out.extend_from_slice(&(value.len() as i32).to_be_bytes());
            out.extend_from_slice(value);
        }
    }
}

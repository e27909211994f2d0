//! Computes the values under which a secondary index lists a row.
//!
//! A value has the ordered byte-comparable form, one component for a column or two for an entry of
//! a map. An index lists a row under each value that any of its cells has, also if another source
//! of the row has a newer cell. So the entries of one source depend on this source alone, and the
//! reader of an index drops the rows that do not have the value any more.
//!
//! An index that analyses texts has the forms of the analysed texts. A SASI index on texts has the
//! forms of their terms (`term_forms`).
//!
//! A form longer than [`MAX_FORM_BYTES`] is cut. Searches cut their forms, too, so a search for a
//! long value also finds values with the same beginning, which the reader drops.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use espalier_types::{
    CqlType, TextAnalysis,
    byte_comparable::{NEXT_COMPONENT, TERMINATOR, encode_escaped, encode_ordered_clustering},
};

use crate::{
    Cell, ClusteringComparator, ColumnRef, ComplexColumn, DecoratedKeyRef, Row, RowContent, path,
    schema::{ColumnDefinition, ColumnKind, IndexMetadata, IndexPart, TableMetadata, TermIndex},
    split_composite,
    term_forms::for_each_term_form,
};

/// The length in bytes at which the form of a value is cut. Arbitrary; Cassandra warns from 1 KiB
/// on.
pub const MAX_FORM_BYTES: usize = 1024;

/// Appends the form of one or two values to `out`. Returns whether it was cut.
pub fn put_form(values: &[(&CqlType, &[u8])], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for (value_type, value) in values {
        let types = [((*value_type).clone(), false)];
        encode_ordered_clustering(&types, &[Some(*value)], TERMINATOR, out);
    }
    let is_long = out.len() - start > MAX_FORM_BYTES;
    out.truncate(start + MAX_FORM_BYTES);
    is_long
}

/// Appends the value of an entry of an index: `40`, the escaped form, `38`. The place of the row
/// follows ([`IndexedColumn::put_place`]).
pub fn put_entry_value(form: &[u8], entry: &mut Vec<u8>) {
    entry.push(NEXT_COMPONENT);
    encode_escaped(form, entry);
    entry.push(TERMINATOR);
}

/// A row whose values in an index are computed.
pub struct IndexedRow<'r, R, V> {
    /// The key of the partition.
    pub key: DecoratedKeyRef<'r>,
    /// The values of the clustering; `None` for the static row.
    pub clustering: Option<&'r [Option<V>]>,
    /// The data of the row.
    pub row: &'r R,
}

impl<'r> IndexedRow<'r, Row, Bytes> {
    /// Returns a row, or a static row, of a partition.
    pub fn of(key: DecoratedKeyRef<'r>, row: &'r Row, is_static: bool) -> Self {
        let clustering = (!is_static).then_some(&*row.clustering.values);
        Self { key, clustering, row }
    }
}

/// The values of one index in rows of one table.
#[derive(Clone, Debug)]
pub struct IndexedColumn {
    column: ColumnDefinition,
    part: IndexPart,
    analysis: TextAnalysis,
    /// The properties of an index that lists terms.
    terms: Option<TermIndex>,
    partition_columns: usize,
}

/// The items that an index lists: rows or partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Rows: the column is regular or in the clustering.
    Rows,
    /// Partitions: the column is static or in the partition key.
    Partitions,
}

impl Listed {
    /// Returns the items that an index on a column of this kind lists.
    pub fn of(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Regular | ColumnKind::Clustering => Self::Rows,
            ColumnKind::Static | ColumnKind::PartitionKey => Self::Partitions,
        }
    }
}

impl IndexedColumn {
    /// Returns the indexed column of an index; `None` if the table does not have it.
    pub fn new(table: &TableMetadata, index: &IndexMetadata) -> Option<Self> {
        let column = index.column_of(table)?.clone();
        let partition_columns = table.partition_key_columns().len();
        let terms = index.term_index(table);
        let (part, analysis) = (index.part, index.analysis_with(terms.as_ref()));
        let terms = terms.filter(TermIndex::has_terms);
        Some(Self { column, part, analysis, terms, partition_columns })
    }

    /// Returns whether the index lists rows or partitions.
    pub fn listed(&self) -> Listed {
        Listed::of(self.column.kind)
    }

    /// Returns whether the index lists the terms of texts: many entries for a value.
    pub fn has_terms(&self) -> bool {
        self.terms.is_some()
    }

    /// Returns the vector of a row in an index on vectors, and replaces `place` by the place of the
    /// row. Returns `None` if the row has no vector.
    #[inline]
    pub fn vector_entry<'r, R: RowContent, V: AsRef<[u8]>>(
        &self,
        comparator: &ClusteringComparator,
        indexed: &IndexedRow<'r, R, V>,
        place: &mut Vec<u8>,
    ) -> Option<&'r [u8]> {
        if self.column.is_primary_key() {
            return None;
        }
        // The value of a cell is borrowed.
        let Values::One(Cow::Borrowed(vector)) = self.values(indexed) else { return None };
        place.clear();
        self.put_place(comparator, indexed.key, indexed.clustering, place);
        Some(vector)
    }

    /// Appends the place of a row in the table, behind the value of an entry: the path of its
    /// partition, and that of the row if the index lists rows. `clustering` is `None` for the
    /// static row.
    pub fn put_place<V: AsRef<[u8]>>(
        &self,
        comparator: &ClusteringComparator,
        key: DecoratedKeyRef<'_>,
        clustering: Option<&[Option<V>]>,
        entry: &mut Vec<u8>,
    ) {
        path::put_partition(key, entry);
        if let (Listed::Rows, Some(clustering)) = (self.listed(), clustering) {
            path::put_row(comparator, clustering, entry);
        }
    }

    /// Returns a measure of the entries of a row, by which [`Self::for_each_entry_of`] takes parts
    /// of them: the cells of a collection, the bytes of a text that is split into terms, or 1.
    pub fn element_count<R: RowContent, V: AsRef<[u8]>>(
        &self,
        indexed: &IndexedRow<'_, R, V>,
    ) -> usize {
        if self.column.is_primary_key() && !self.splits_texts() {
            return 1;
        }
        match self.values(indexed) {
            Values::None => 0,
            Values::One(value) if self.splits_texts() => value.len().max(1),
            Values::One(_) => 1,
            Values::OfCells(cells) => cells.len(),
        }
    }

    /// Calls `take` with the entry of each value of the index in some elements of a row, of which
    /// [`Self::element_count`] returns the number. A part of a text ends between two terms, so the
    /// call may take more elements than `elements` has. Returns the number of the next element.
    /// `form` and `entry` are scratch space.
    #[inline]
    pub fn for_each_entry_of<R: RowContent, V: AsRef<[u8]>>(
        &self,
        comparator: &ClusteringComparator,
        indexed: &IndexedRow<'_, R, V>,
        elements: Range<usize>,
        (form, entry): (&mut Vec<u8>, &mut Vec<u8>),
        mut take: impl FnMut(&[u8]),
    ) -> usize {
        self.for_each_form_of(indexed, elements, form, |form| {
            entry.clear();
            put_entry_value(form, entry);
            self.put_place(comparator, indexed.key, indexed.clustering, entry);
            take(entry);
        })
    }

    /// Returns whether the index splits a text into terms.
    pub fn splits_texts(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.analyzer.is_tokenizing())
    }

    /// Calls `take` with the form of each value in some elements of a row, as
    /// [`Self::for_each_entry_of`] does with the entry.
    fn for_each_form_of<R: RowContent, V: AsRef<[u8]>>(
        &self,
        indexed: &IndexedRow<'_, R, V>,
        elements: Range<usize>,
        form: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]),
    ) -> usize {
        let column_type = &self.column.column_type;
        match self.values(indexed) {
            Values::None => elements.end,
            Values::One(value) => {
                let (start, mut next) = (elements.start, 1);
                if let Some(terms) = &self.terms {
                    let text = (column_type, &*value);
                    next = for_each_term_form(terms, text, elements, form, &mut take).max(1);
                    if !terms.has_values() {
                        return next;
                    }
                }
                if start == 0 {
                    self.put_values(&[(column_type, &value)], form);
                    take(form);
                }
                next
            }
            Values::OfCells(cells) => {
                let (start, end) = (elements.start, elements.end.min(cells.len()));
                let cells = cells.get(start..end).unwrap_or_default();
                for_each_element(column_type, self.part, cells, |values| {
                    self.put_values(values, form);
                    take(form);
                });
                end
            }
        }
    }

    /// Replaces `form` by the form of one or two values.
    #[inline]
    fn put_values(&self, values: &[(&CqlType, &[u8])], form: &mut Vec<u8>) {
        form.clear();
        match values {
            // An index that analyses texts has one text in each entry.
            [(text, value)] if !self.analysis.is_plain() => {
                put_form(&[(*text, &*self.analysis.apply_to_head(value))], form);
            }
            _ => {
                put_form(values, form);
            }
        }
    }

    /// Returns the values of the index in a row.
    #[inline]
    fn values<'r, R: RowContent, V: AsRef<[u8]>>(
        &self,
        indexed: &IndexedRow<'r, R, V>,
    ) -> Values<'r> {
        let column = &self.column;
        let is_static = indexed.clustering.is_none();
        match column.kind {
            ColumnKind::PartitionKey if holds_something(indexed.row) => {
                let key = indexed.key.key;
                if self.partition_columns == 1 {
                    return Values::One(key.into());
                }
                let parts = split_composite(&Bytes::copy_from_slice(key), self.partition_columns);
                let part = parts.ok().and_then(|parts| Some(parts.get(column.position)?.to_vec()));
                part.map_or(Values::None, |part| Values::One(part.into()))
            }
            ColumnKind::Clustering if holds_something(indexed.row) => {
                let values = indexed.clustering;
                let value = values.and_then(|values| values.get(column.position)?.as_ref());
                value.map_or(Values::None, |value| Values::One(value.as_ref().into()))
            }
            ColumnKind::Regular | ColumnKind::Static
                if is_static == (column.kind == ColumnKind::Static) =>
            {
                match indexed.row.columns().find(|(id, _)| *id == column.id) {
                    Some((_, ColumnRef::Simple(cell))) if !cell.is_tombstone() => {
                        Values::One(cell.value.into())
                    }
                    Some((_, ColumnRef::Complex(ComplexColumn { cells, .. }))) => {
                        Values::OfCells(cells)
                    }
                    _ => Values::None,
                }
            }
            _ => Values::None,
        }
    }
}

/// The values of an index in a row.
enum Values<'r> {
    None,
    One(Cow<'r, [u8]>),
    /// The elements of these cells of a collection.
    OfCells(&'r [(Bytes, Cell)]),
}

fn for_each_element(
    column_type: &CqlType,
    part: IndexPart,
    cells: &[(Bytes, Cell)],
    mut put: impl FnMut(&[(&CqlType, &[u8])]),
) {
    for (path, cell) in cells {
        if cell.is_tombstone() {
            continue;
        }
        match (column_type, part) {
            (CqlType::List { element, .. }, IndexPart::Values) => put(&[(element, &cell.value)]),
            (CqlType::Set { element, .. }, IndexPart::Values) => put(&[(element, path)]),
            (CqlType::Map { value, .. }, IndexPart::Values) => put(&[(value, &cell.value)]),
            (CqlType::Map { key, .. }, IndexPart::Keys) => put(&[(key, path)]),
            (CqlType::Map { key, value, .. }, IndexPart::Entries) => {
                put(&[(key, path), (value, &cell.value)]);
            }
            _ => {}
        }
    }
}

/// Returns whether a reader may see the row at some time.
fn holds_something<R: RowContent>(row: &R) -> bool {
    !row.liveness().is_none()
        || row.columns().any(|(_, data)| match data {
            ColumnRef::Simple(cell) => !cell.is_tombstone(),
            ColumnRef::Complex(column) => column.cells.iter().any(|(_, cell)| !cell.is_tombstone()),
        })
}

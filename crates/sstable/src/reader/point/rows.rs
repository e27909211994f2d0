//! Walks from a place in Data.db to a row. The walk reads only the heads of the rows on its way.

use std::cmp::Ordering;

use espalier_mutation::{DecoratedKeyRef, DeletionTime, pack_row};

use super::{PointRow, index::Place, window::Window};
use crate::data::{
    column_map::FileLayout,
    decode::{RawRowContent, RowRef, Span, Step, read_partition_head, step, target_of},
    input::{DataInput, Malformed},
};

/// The maximum number of rows and markers that a look-up steps over, because it does not yield.
/// [`SSTableReader::read_partition`](crate::SSTableReader::read_partition), which yields, handles
/// longer walks.
const MAX_STEPS: usize = 1024;

/// A walk towards a row.
pub(super) struct Walk<'a> {
    pub(super) layout: &'a FileLayout,
    pub(super) window: Window<'a>,
    pub(super) spans: &'a mut Vec<Option<Span>>,
    pub(super) view: &'a mut RowRef,
    pub(super) row: &'a mut Vec<u8>,
}

impl Walk<'_> {
    /// Walks to the row. Returns `Some(None)` if `place` is a candidate at which another partition
    /// begins, and `None` if a page is missing or only the general read can answer.
    #[inline]
    pub(super) fn find<V: AsRef<[u8]>>(
        mut self,
        key: DecoratedKeyRef<'_>,
        place: Place,
        clustering: &[Option<V>],
    ) -> Option<Option<PointRow>> {
        let (partition_deletion, mut open) = match place.block {
            Some(known) => (known.partition_deletion, known.open_deletion),
            None => match self.enter_partition(key)? {
                Some(deletion) => (deletion, DeletionTime::LIVE),
                None => return place.is_candidate.then_some(None),
            },
        };
        let found = |range_deletion, has_row| {
            Some(PointRow { partition_deletion, range_deletion, has_row })
        };
        for _ in 0..MAX_STEPS {
            self.spans.clear();
            let spans = &mut *self.spans;
            let bytes = self.window.bytes();
            let step = step(bytes, self.window.at, self.layout, |span| spans.push(span));
            let (end, weight) = match step {
                Ok(Step::End) => return Some(found(open, false)),
                Ok(Step::Row(end)) => (end, None),
                Ok(Step::Marker(end, after, kind)) => (end, Some((kind.weight(), after))),
                Err(Malformed::Ended) => {
                    self.window.grow()?;
                    continue;
                }
                Err(Malformed::Wrong(_)) => return None,
            };
            let order = self.compare(weight.map_or(0, |(weight, _)| weight), clustering);
            match (order, weight) {
                (Ordering::Greater, _) => return Some(found(open, false)),
                (Ordering::Less, None) => {}
                (_, Some((_, after))) => open = after,
                (Ordering::Equal, None) => {
                    if end > self.window.bytes().len() {
                        self.window.grow()?;
                        continue;
                    }
                    let has_row = self.take_row()?;
                    return Some(found(open, has_row));
                }
            }
            self.window.go_to(end)?;
        }
        None
    }

    /// Reads the partition's head and steps over it. Returns the partition's deletion, or
    /// `Some(None)` if the head has another key. Returns `None` if a page is missing or only the
    /// general read can answer.
    #[inline]
    fn enter_partition(&mut self, key: DecoratedKeyRef<'_>) -> Option<Option<DeletionTime>> {
        loop {
            let bytes = self.window.bytes();
            let mut input = DataInput::new(bytes, self.window.at);
            match read_partition_head(&mut input, self.layout) {
                Ok(head) => {
                    if bytes.get(head.key.0..head.key.1)? != key.key {
                        return Some(None);
                    }
                    self.window.go_to(head.end)?;
                    return Some(Some(head.deletion));
                }
                Err(Malformed::Ended) => self.window.grow()?,
                Err(Malformed::Wrong(_)) => return None,
            }
        }
    }

    /// Compares the position of the current row or marker with the position of the wanted row.
    #[inline]
    fn compare<V: AsRef<[u8]>>(&self, weight: i8, clustering: &[Option<V>]) -> Ordering {
        let (comparator, bytes) = (self.layout.table.comparator(), self.window.bytes());
        for (index, (span, wanted)) in self.spans.iter().zip(clustering).enumerate() {
            let value = span.map(|(start, end)| bytes.get(start..end).unwrap_or_default());
            let wanted = wanted.as_ref().map(AsRef::as_ref);
            let order = comparator.compare_value(index, value, wanted);
            if order.is_ne() {
                return order;
            }
        }
        weight.cmp(&0)
    }

    /// Packs the row. Returns `Some(false)` if the row is empty, and `None` if only the general
    /// read can answer.
    #[inline]
    fn take_row(&mut self) -> Option<bool> {
        let bytes = self.window.bytes();
        self.view.read(bytes, self.window.at, self.layout)?;
        if self.view.is_empty() {
            return Some(false);
        }
        let layout = self.layout;
        // A file orders columns by name, a packed row by id.
        if !self.view.cells.is_sorted_by_key(|cell| target_of(cell, layout)) {
            self.view.cells.sort_unstable_by_key(|cell| target_of(cell, layout));
        }
        self.row.clear();
        pack_row(&RawRowContent { view: self.view, bytes, layout }, self.row);
        Some(true)
    }
}

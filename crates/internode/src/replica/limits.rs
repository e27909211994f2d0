//! The limits of a read: of rows, or of groups, in all and in each partition.
//!
//! Each live row counts. A partition whose only live row is the static one counts as one row if the
//! command selects whole partitions. The row that reaches the limit of rows is the last one of the
//! answer; the row that reaches the limit of a partition is the last one of that partition.

use bytes::Bytes;
use espalier_mutation::{Row, schema::TableMetadata};

use super::groups::GroupLimits;
use crate::payload::{Counted, DataLimits};

/// The state of a command's limits.
pub(super) enum Limits {
    Rows(RowLimits),
    Groups(GroupLimits),
}

/// Whether a row belongs to the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// A limit was reached before the row.
    No,
}

impl Limits {
    /// Starts the limits of a command. With `counts_statics`, a partition whose only live row is
    /// the static one counts.
    pub fn new(
        table: &TableMetadata,
        limits: &DataLimits,
        now_s: u32,
        counts_statics: bool,
    ) -> Self {
        match &limits.counted {
            Counted::Rows { limit, per_partition, .. } => Self::Rows(RowLimits {
                limit: *limit,
                per_partition: *per_partition,
                resumed: limits.paging.clone(),
                now_s,
                counts_statics,
                rows: 0,
                rows_of_partition: 0,
                has_live_static: false,
                is_done: false,
                is_done_here: false,
            }),
            Counted::Groups { .. } => {
                Self::Groups(GroupLimits::new(table, limits, now_s, counts_statics))
            }
        }
    }

    /// Begins a partition. Returns whether its static row belongs to the answer.
    pub fn begin(&mut self, key: &Bytes, static_row: Option<&Row>) -> Taken {
        match self {
            Self::Rows(limits) => {
                limits.begin(key, static_row);
                Taken::Yes
            }
            Self::Groups(limits) => limits.begin(key, static_row),
        }
    }

    /// Counts the next row of the partition.
    pub fn take(&mut self, row: &Row) -> Taken {
        match self {
            Self::Rows(limits) => {
                limits.take(row);
                Taken::Yes
            }
            Self::Groups(limits) => limits.take(row),
        }
    }

    /// Ends the partition.
    pub fn end(&mut self) {
        match self {
            Self::Rows(limits) => limits.end(),
            Self::Groups(limits) => limits.end(),
        }
    }

    /// Returns whether the read is over.
    pub fn are_reached(&self) -> bool {
        match self {
            Self::Rows(limits) => limits.is_done,
            Self::Groups(limits) => limits.is_done(),
        }
    }

    /// Returns whether the read of the current partition is over.
    pub fn are_reached_here(&self) -> bool {
        match self {
            Self::Rows(limits) => limits.is_done || limits.is_done_here,
            Self::Groups(limits) => limits.is_done_here(),
        }
    }
}

/// The limits of rows.
pub(super) struct RowLimits {
    limit: u32,
    per_partition: u32,
    /// The partition in which the previous page ended, and the number of its rows that may still
    /// follow.
    resumed: Option<(Bytes, u32)>,
    now_s: u32,
    counts_statics: bool,
    rows: u32,
    /// The counted rows of the partition, with those of the previous page. Negative if `resumed`
    /// allows more rows than `per_partition`.
    rows_of_partition: i64,
    has_live_static: bool,
    is_done: bool,
    is_done_here: bool,
}

impl RowLimits {
    fn begin(&mut self, key: &Bytes, static_row: Option<&Row>) {
        match &self.resumed {
            Some((resumed, remaining)) if resumed == key => {
                self.rows_of_partition = i64::from(self.per_partition) - i64::from(*remaining);
                // The previous page has counted the static row.
                self.has_live_static = false;
            }
            _ => {
                self.rows_of_partition = 0;
                self.has_live_static = static_row.is_some_and(|row| row.is_live(self.now_s));
            }
        }
        self.is_done_here = self.rows_of_partition >= self.per_partition.into();
    }

    fn take(&mut self, row: &Row) {
        if row.is_live(self.now_s) {
            self.count();
        }
    }

    fn end(&mut self) {
        if self.counts_statics && self.has_live_static && self.rows_of_partition == 0 {
            self.count();
        }
    }

    fn count(&mut self) {
        self.rows += 1;
        self.is_done |= self.rows >= self.limit;
        self.rows_of_partition += 1;
        self.is_done_here |= self.rows_of_partition >= self.per_partition.into();
    }
}

//! The limits of `GROUP BY` and of aggregates: groups, groups of each partition, and rows.
//!
//! The read counts a group when the next group begins. So the read visits the first row of the
//! group beyond the limit, but leaves this row out of the answer.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{Clustering, ClusteringComparator, Row, schema::TableMetadata};

use super::limits::Taken;
use crate::payload::{Counted, DataLimits, Grouping, GroupingState};

/// Counts the groups and rows of a read, and ends the read at its limits.
pub(super) struct GroupLimits {
    limit: u32,
    per_partition: u32,
    max_rows: u32,
    now_s: u32,
    counts_statics: bool,
    /// The partition of the previous page's last group, with the clustering of its last row.
    state: Option<(Bytes, Option<Clustering>)>,
    /// The partition in which the previous page ended, and the number of its groups that may
    /// follow.
    resumed: Option<(Bytes, u32)>,
    boundaries: Boundaries,
    key: Bytes,
    rows: u32,
    groups: u32,
    /// The number of counted groups of the partition, with those of the previous page. Negative if
    /// `resumed` allows more groups than the limit. The number wraps as Cassandra's counter does,
    /// because a peer may send a `resumed` number of 0 for a read without a limit.
    groups_of_partition: i32,
    has_begun_group: bool,
    has_live_static: bool,
    has_returned_rows: bool,
    is_stopped: bool,
    is_stopped_here: bool,
}

/// Finds where groups begin.
struct Boundaries {
    comparator: Arc<ClusteringComparator>,
    /// The number of leading clustering columns whose values make a group; `None` if all rows are
    /// one group.
    columns: Option<usize>,
    last_key: Option<Bytes>,
    last: Option<Clustering>,
}

impl Boundaries {
    /// Returns whether a group begins at a row, or at a partition if there is no row.
    fn is_at(&mut self, key: &Bytes, row: Option<&Clustering>) -> bool {
        let Some(columns) = self.columns else { return false };
        let is_same = |last: &Clustering, row: &Clustering| {
            (0..columns).all(|index| {
                let value = |of: &Clustering| of.values.get(index).cloned().flatten();
                let (left, right) = (value(last), value(row));
                self.comparator.compare_value(index, left.as_deref(), right.as_deref()).is_eq()
            })
        };
        let is_old = self.last_key.as_ref() == Some(key)
            && self.last.as_ref().zip(row).is_some_and(|(last, row)| is_same(last, row));
        self.last_key = Some(key.clone());
        self.last = row.cloned();
        !is_old
    }
}

impl GroupLimits {
    pub fn new(
        table: &TableMetadata,
        limits: &DataLimits,
        now_s: u32,
        counts_statics: bool,
    ) -> Self {
        let (limit, per_partition, max_rows, grouping, state) = match &limits.counted {
            Counted::Groups { limit, per_partition, rows, grouping, state } => {
                (*limit, *per_partition, *rows, *grouping, state.clone())
            }
            Counted::Rows { limit, per_partition, .. } => {
                (*limit, *per_partition, *limit, Grouping::Everything, GroupingState::Empty)
            }
        };
        let state = match state {
            GroupingState::Empty => None,
            GroupingState::Begun(key, clustering) => Some((key, clustering)),
        };
        let boundaries = Boundaries {
            comparator: Arc::new(table.comparator().clone()),
            columns: match grouping {
                Grouping::Everything => None,
                // A peer may name more columns than there are.
                Grouping::PrimaryKeyPrefix(columns) => {
                    Some((columns as usize).min(table.comparator().types.len()))
                }
            },
            last_key: state.as_ref().map(|(key, _)| key.clone()),
            last: state.as_ref().and_then(|(_, clustering)| clustering.clone()),
        };
        let has_begun_group = boundaries.last.is_some();
        Self {
            limit,
            per_partition,
            max_rows,
            now_s,
            counts_statics,
            state,
            resumed: limits.paging.clone(),
            boundaries,
            key: Bytes::new(),
            rows: 0,
            groups: 0,
            groups_of_partition: 0,
            has_begun_group,
            has_live_static: false,
            has_returned_rows: false,
            is_stopped: false,
            is_stopped_here: false,
        }
    }

    pub fn begin(&mut self, key: &Bytes, static_row: Option<&Row>) -> Taken {
        self.is_stopped_here = false;
        if let Some((resumed, remaining)) = &self.resumed
            && resumed == key
        {
            self.key = key.clone();
            self.groups_of_partition = self.per_partition.wrapping_sub(*remaining) as i32;
            self.is_stopped_here = self.has_enough_groups_here();
            self.has_returned_rows = true;
            self.has_live_static = false;
            self.has_begun_group =
                self.state.as_ref().is_some_and(|(_, clustering)| clustering.is_some());
            return Taken::Yes;
        }
        if self.state.as_ref().is_some_and(|(begun, _)| begun == key) {
            // The previous page has returned rows of the partition, and counted its static row.
            self.has_live_static = false;
            self.has_returned_rows = true;
            self.has_begun_group = true;
        } else {
            if self.has_begun_group && self.boundaries.is_at(key, None) {
                self.count_group();
                if self.has_enough_groups() {
                    self.count_group_of_partition();
                }
                self.has_begun_group = false;
            }
            self.has_returned_rows = false;
            self.has_live_static = static_row.is_some_and(|row| row.is_live(self.now_s));
        }
        self.key = key.clone();
        if self.has_enough_groups() {
            // The static row belongs to the next page.
            self.has_live_static = false;
            return Taken::No;
        }
        self.groups_of_partition = 0;
        Taken::Yes
    }

    pub fn take(&mut self, row: &Row) -> Taken {
        if self.boundaries.is_at(&self.key, Some(&row.clustering)) {
            if self.has_begun_group {
                self.count_group();
                self.count_group_of_partition();
            }
            self.has_begun_group = false;
        }
        if self.has_enough_groups_here() {
            self.has_begun_group = false;
            return Taken::No;
        }
        if row.is_live(self.now_s) {
            self.has_begun_group = true;
            self.count_row();
            self.has_returned_rows = true;
        }
        Taken::Yes
    }

    pub fn end(&mut self) {
        if self.counts_statics && self.has_live_static && !self.has_returned_rows {
            self.count_row();
            self.count_group();
            self.count_group_of_partition();
            self.has_begun_group = false;
        }
    }

    pub fn is_done(&self) -> bool {
        self.is_stopped
    }

    pub fn is_done_here(&self) -> bool {
        self.is_stopped || self.is_stopped_here || self.has_enough_groups_here()
    }

    fn has_enough_groups(&self) -> bool {
        self.groups >= self.limit
    }

    fn has_enough_groups_here(&self) -> bool {
        self.has_enough_groups() || self.has_enough_groups_of_partition()
    }

    fn has_enough_groups_of_partition(&self) -> bool {
        i64::from(self.groups_of_partition) >= i64::from(self.per_partition)
    }

    fn count_row(&mut self) {
        self.rows += 1;
        self.is_stopped |= self.rows >= self.max_rows;
    }

    fn count_group(&mut self) {
        self.groups += 1;
        self.is_stopped |= self.has_enough_groups();
    }

    fn count_group_of_partition(&mut self) {
        self.groups_of_partition = self.groups_of_partition.wrapping_add(1);
        self.is_stopped_here |= self.has_enough_groups_of_partition();
    }
}

//! Decides which parts of a reconciled row are dead, and which of these may be removed. One rule
//! serves readers, which remove everything dead, and compactions, which keep tombstones as long as
//! they may cover something elsewhere. Source: docs/formats/data.md.

use crate::{Cell, ColumnData, DeletionTime, Liveness, Row, schema::TableMetadata};

/// The compaction option that keeps the tombstones of unrepaired data.
const ONLY_REPAIRED: &str = "only_purge_repaired_tombstones";

/// The ages at which dead data may be removed.
#[derive(Clone, Copy, Debug)]
pub struct PurgeLimits {
    /// Second since 1970 up to which cells have expired.
    pub now_s: u32,
    /// Deletions before this second since 1970 are old enough to be removed.
    pub gc_before_s: u32,
}

impl PurgeLimits {
    /// Limits under which nothing is removed.
    pub const NONE: Self = Self { now_s: 0, gc_before_s: 0 };

    /// Returns the limits from the table's options at a second since 1970.
    ///
    /// No deletion of a table with `only_purge_repaired_tombstones` is old enough, because no data
    /// here counts as repaired: this node has no repair, and its compactions merge files that
    /// Cassandra repaired with others.
    pub fn at(table: &TableMetadata, now_s: i64) -> Self {
        let now_s = u32::try_from(now_s).unwrap_or(0);
        let option = table.options.compaction.get(ONLY_REPAIRED);
        let gc_before_s = if option.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            0
        } else {
            now_s.saturating_sub(table.options.gc_grace_seconds)
        };
        Self { now_s, gc_before_s }
    }

    /// Returns whether a deletion or expiration at a second is old enough.
    pub fn are_old_enough(self, second: u32) -> bool {
        second < self.gc_before_s
    }
}

/// Removes from a row everything dead that `may_go` allows: tombstones, and cells and liveness that
/// have expired by second `now_s`. `may_go` gets (write timestamp in µs, second of deletion or
/// expiration). An expired cell that must stay becomes a tombstone with the second of its write as
/// the deletion time, because a later second would delay the purge of the tombstone. Expired
/// liveness stays unchanged until it may be removed.
pub fn purge_row(row: &mut Row, now_s: u32, may_go: &mut impl FnMut(i64, u32) -> bool) {
    purge_deletion(&mut row.deletion, may_go);
    purge_deletion(&mut row.shadowable_deletion, may_go);
    let liveness = row.liveness;
    if !liveness.is_none()
        && !liveness.is_live(now_s)
        && may_go(liveness.timestamp, liveness.local_expiration)
    {
        row.liveness = Liveness::NONE;
    }
    row.columns.retain_mut(|(_, data)| match data {
        ColumnData::Simple(cell) => stays(cell, now_s, may_go),
        ColumnData::Complex(column) => {
            purge_deletion(&mut column.deletion, may_go);
            column.cells.retain_mut(|(_, cell)| stays(cell, now_s, may_go));
            !column.deletion.is_live() || !column.cells.is_empty()
        }
    });
}

/// Removes a deletion if `may_go` allows it.
pub fn purge_deletion(deletion: &mut DeletionTime, may_go: &mut impl FnMut(i64, u32) -> bool) {
    if !deletion.is_live() && may_go(deletion.marked_for_delete_at, deletion.local_deletion_time) {
        *deletion = DeletionTime::LIVE;
    }
}

/// Returns whether a cell stays, perhaps as a tombstone.
fn stays(cell: &mut Cell, now_s: u32, may_go: &mut impl FnMut(i64, u32) -> bool) -> bool {
    if cell.is_live(now_s) {
        return true;
    }
    if may_go(cell.timestamp, cell.local_deletion_time) {
        return false;
    }
    if !cell.is_expiring() {
        return true;
    }
    let written_s = cell.local_deletion_time.saturating_sub(cell.ttl);
    *cell = Cell::tombstone(cell.timestamp, written_s);
    !may_go(cell.timestamp, written_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Clustering, ComplexColumn,
        schema::{ColumnId, TableBuilder, TableId},
    };
    use bytes::Bytes;
    use espalier_types::CqlType;
    use uuid::Uuid;

    const NOW: u32 = 1000;

    fn row(cells: Vec<Cell>) -> Row {
        let mut row = Row::empty(Clustering::empty());
        let cells = cells.into_iter().enumerate();
        row.columns =
            cells.map(|(id, cell)| (ColumnId(id as u32), ColumnData::Simple(cell))).collect();
        row
    }

    fn value() -> Bytes {
        Bytes::from_static(b"v")
    }

    #[test]
    fn only_purge_repaired_tombstones_keeps_deletions_of_any_age() {
        let builder = TableBuilder::new("ks", "t", TableId(Uuid::nil()));
        let mut table = builder.partition_key("k", CqlType::Blob).build();
        table.options.gc_grace_seconds = 100;
        for (option, gc_before_s) in [("false", NOW - 100), ("x", NOW - 100), ("True", 0)] {
            table.options.compaction.insert(ONLY_REPAIRED.into(), option.into());
            let limits = PurgeLimits::at(&table, NOW.into());
            assert_eq!((limits.now_s, limits.gc_before_s), (NOW, gc_before_s), "{option}");
        }
    }

    #[test]
    fn an_expired_cell_becomes_a_tombstone_dated_at_its_write() {
        let mut row = row(vec![
            Cell::expiring(5, 100, NOW, value()),
            Cell::expiring(5, 100, NOW + 1, value()),
            Cell::tombstone(5, NOW - 1),
        ]);
        let live = row.columns[1].1.clone();
        purge_row(&mut row, NOW, &mut |_, _| false);
        assert_eq!(row.columns[0].1, ColumnData::Simple(Cell::tombstone(5, NOW - 100)));
        assert_eq!(row.columns[1].1, live);
        assert_eq!(row.columns.len(), 3);
    }

    #[test]
    fn the_grace_period_of_an_expired_cell_begins_at_its_write() {
        let mut row = row(vec![Cell::expiring(5, 100, NOW, value())]);
        purge_row(&mut row, NOW, &mut |_, second| second < NOW - 50);
        assert!(row.is_empty());
    }

    #[test]
    fn deletions_of_rows_and_collections_go_by_themselves() {
        let mut row = row(vec![Cell::live(7, value())]);
        row.deletion = DeletionTime::new(3, 10);
        row.shadowable_deletion = DeletionTime::new(4, 900);
        row.liveness = Liveness { timestamp: 6, ttl: 5, local_expiration: 20 };
        let cells = vec![(value(), Cell::tombstone(9, 20))];
        let column = ComplexColumn { deletion: DeletionTime::new(8, 20), cells };
        row.columns.push((ColumnId(1), ColumnData::Complex(column)));
        let mut kept = row.clone();
        purge_row(&mut kept, NOW, &mut |timestamp, second| second < 100 && timestamp < 8);
        assert!(kept.deletion.is_live() && !kept.shadowable_deletion.is_live());
        assert!(kept.liveness.is_none());
        assert_eq!(kept.columns, row.columns);
        purge_row(&mut kept, NOW, &mut |timestamp, second| second < 100 && timestamp < 9);
        let ColumnData::Complex(column) = &kept.columns[1].1 else { panic!() };
        assert!(column.deletion.is_live() && column.cells.len() == 1);
        purge_row(&mut kept, NOW, &mut |_, second| second < 100);
        assert_eq!(kept.columns.len(), 1);
        assert!(!kept.shadowable_deletion.is_live());
    }
}

//! The state of an acceptor as a row of `system.paxos`.
//!
//! The columns have Cassandra's content, so either system reads the files of the other. The cells
//! have the ballot's time as their timestamp: of two writes that cross, the one with the newer
//! ballot stays. A commit also deletes the accepted update, unless that update has a newer ballot.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, ColumnData,
    DecoratedKey, MAX_TTL_SECONDS, NO_DELETION_TIME, Row,
    schema::{ColumnId, Schema, TableId, TableMetadata},
};
use espalier_storage::{ReadCommand, ReadTarget, TurnRows};
use uuid::Uuid;

use super::{AcceptorState, Recorded, ballot_micros};

const PROMISE: &str = "in_progress_ballot";
/// The promise of a read, which only version 2 of Paxos makes.
const READ_PROMISE: &str = "in_progress_read_ballot";
const PROPOSAL: [&str; 3] = ["proposal_ballot", "proposal", "proposal_version"];
const COMMIT: [&str; 3] =
    ["most_recent_commit_at", "most_recent_commit", "most_recent_commit_version"];
/// The form of the updates: that of the messages of Cassandra 5.0.
const VERSION: i32 = 13;

/// The table of the states.
#[derive(Clone)]
pub(super) struct PaxosTable {
    pub table: Arc<TableMetadata>,
}

/// The times of a row that is written.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// The timestamp of the cells in µs: the ballot's time.
    pub timestamp_us: i64,
    /// The present second since 1970.
    pub now_s: u32,
    /// The time to live of the cells in seconds.
    pub ttl_s: u32,
}

impl Times {
    /// Makes the cells expire after second `others_s`, at which other cells expire.
    pub fn expire_after(&mut self, others_s: Option<u32>) {
        let ttl_s = self.ttl_s.clamp(1, MAX_TTL_SECONDS);
        let least_s = others_s.map_or(0, |others_s| others_s.saturating_add(1));
        self.now_s = self.now_s.max(least_s.saturating_sub(ttl_s));
    }

    fn cell(self, value: Bytes) -> Cell {
        let ttl_s = self.ttl_s.clamp(1, MAX_TTL_SECONDS);
        let expires_s = self.now_s.saturating_add(ttl_s).min(NO_DELETION_TIME - 1);
        Cell::expiring(self.timestamp_us, ttl_s, expires_s, value)
    }
}

impl PaxosTable {
    pub fn of(schema: &Schema) -> Result<Self, String> {
        let table = schema.table("system", "paxos").cloned();
        table.map(|table| Self { table }).ok_or_else(|| "there is no table system.paxos".into())
    }

    /// Returns the rows on which a request takes the turn.
    pub fn turn_rows(&self, table: TableId, key: &DecoratedKey) -> TurnRows {
        let mut rows = TurnRows::new(&self.table, key.borrowed());
        rows.add_row(&self.table, &place(table));
        rows
    }

    /// Returns the command that reads a state, whether it has expired by now or not.
    pub fn read(&self, table: TableId, key: &DecoratedKey) -> ReadCommand {
        let bound = |kind| ClusteringBound { kind, values: place(table).values };
        let start = bound(BoundKind::InclusiveStart);
        let slice = ClusteringSlice { start, end: bound(BoundKind::InclusiveEnd) };
        let target = ReadTarget::Partition(key.clone());
        let slices = Arc::new(ClusteringSlices { slices: vec![slice] });
        ReadCommand { slices, ..ReadCommand::of_all(Arc::clone(&self.table), target, 0) }
    }

    /// Decodes a state.
    pub fn state(&self, row: &Row) -> Result<AcceptorState, String> {
        let promises = [self.ballot(row, PROMISE)?, self.ballot(row, READ_PROMISE)?];
        let state = AcceptorState {
            promised: promises.into_iter().flatten().max_by_key(|ballot| ballot_micros(*ballot)),
            accepted: self.recorded(row, PROPOSAL)?,
            committed: self.recorded(row, COMMIT)?,
        };
        Ok(state.without_settled_proposal())
    }

    /// Makes the row that records a promise.
    pub fn promise(&self, table: TableId, ballot: Uuid, times: Times) -> Row {
        self.row(table, vec![(PROMISE, times.cell(bytes_of(ballot)))])
    }

    /// Makes the row that records an accepted update.
    pub fn proposal(&self, table: TableId, ballot: Uuid, update: Bytes, times: Times) -> Row {
        self.row(table, cells(PROPOSAL, ballot, update, times))
    }

    /// Makes the row that records a commit, and deletes the accepted update.
    pub fn commit(&self, table: TableId, ballot: Uuid, update: Bytes, times: Times) -> Row {
        let mut all = cells(COMMIT, ballot, update, times);
        let deleted = || Cell::tombstone(times.timestamp_us, times.now_s);
        all.extend(PROPOSAL.map(|name| (name, deleted())));
        self.row(table, all)
    }

    fn row(&self, table: TableId, cells: Vec<(&str, Cell)>) -> Row {
        let mut row = Row::empty(place(table));
        for (name, cell) in cells {
            if let Some(id) = self.column(name) {
                row.set_cell(id, cell);
            }
        }
        row
    }

    fn column(&self, name: &str) -> Option<ColumnId> {
        self.table.column(name).map(|column| column.id)
    }

    /// Returns a cell that has a value, whether it has expired or not.
    fn cell<'r>(&self, row: &'r Row, name: &str) -> Option<&'r Cell> {
        match row.column(self.column(name)?)? {
            ColumnData::Simple(cell) if !cell.is_tombstone() => Some(cell),
            _ => None,
        }
    }

    fn ballot(&self, row: &Row, name: &str) -> Result<Option<Uuid>, String> {
        let Some(cell) = self.cell(row, name) else { return Ok(None) };
        let ballot = Uuid::from_slice(&cell.value).ok();
        match ballot.filter(|ballot| ballot_micros(*ballot).is_some()) {
            Some(ballot) => Ok(Some(ballot)),
            None => Err(format!("the column {name} of a row of system.paxos has no ballot")),
        }
    }

    fn recorded(&self, row: &Row, [at, update, _]: [&str; 3]) -> Result<Option<Recorded>, String> {
        let Some(ballot) = self.ballot(row, at)? else { return Ok(None) };
        let expires_s = self.cell(row, at).map_or(0, |cell| cell.local_deletion_time);
        let update = self.cell(row, update).map(|cell| cell.value.clone());
        let update =
            update.ok_or_else(|| format!("a row of system.paxos has {at} and no update"))?;
        Ok(Some(Recorded { ballot, update, expires_s }))
    }
}

fn place(table: TableId) -> Clustering {
    Clustering::new([bytes_of(table.0)])
}

fn bytes_of(id: Uuid) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

fn cells(
    [at, content, version]: [&'static str; 3],
    ballot: Uuid,
    update: Bytes,
    times: Times,
) -> Vec<(&'static str, Cell)> {
    let number = Bytes::copy_from_slice(&VERSION.to_be_bytes());
    vec![
        (at, times.cell(bytes_of(ballot))),
        (content, times.cell(update)),
        (version, times.cell(number)),
    ]
}

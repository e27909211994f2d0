//! Checks a command, and translates it into reads of storage.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, DecoratedKey,
    KeyBound, KeyRange, Token,
    schema::{ColumnKind, IndexMetadata, TableMetadata},
};
use espalier_storage::{
    ColumnSelection, ReadCommand as StorageRead, ReadLimits, ReadTarget, slices_behind,
    system::is_system_keyspace,
};
use md5::{Digest as _, Md5};
use uuid::{Builder, Uuid};

use super::ReadFailure;
use crate::payload::{
    ClusteringFilter, Counted, DataRange, FailureReason, Position, ReadCommand, SelectedRows,
    Selection,
    check::{check_clustering, check_key},
    columns::named,
};

/// A read of storage.
pub(super) struct Part {
    pub read: StorageRead,
    /// True if the command selects rows; otherwise the answer has only the heads of partitions.
    pub has_rows: bool,
}

/// Returns the reads of storage that answer a command, in order.
pub(super) async fn parts(command: &ReadCommand) -> Result<Vec<Part>, ReadFailure> {
    check_table(&command.table)?;
    check_index(command)?;
    let table = &command.table;
    match &command.selection {
        Selection::Partition { key, filter } => {
            check_key(table, key).map_err(malformed)?;
            let target = ReadTarget::Partition(DecoratedKey::new(key.clone()));
            Ok(vec![read(command, target, slices(table, filter)?, filter)])
        }
        Selection::Range(range) => range_parts(command, range).await,
    }
}

/// Refuses a table if this node does not store all its writes.
fn check_table(table: &TableMetadata) -> Result<(), ReadFailure> {
    let reason = if is_system_keyspace(&table.keyspace) {
        "reads of system keyspaces are not answered"
    } else if table.is_counter() {
        "reads of counters are not answered"
    } else if table.has_views() || table.is_view() {
        "reads of materialized views and their base tables are not answered"
    } else if table.layout.is_compact() {
        "reads of compact tables are not answered"
    } else {
        return Ok(());
    };
    Err(ReadFailure::refused(reason))
}

/// Refuses an index if the conditions of the command do not select the same rows without it.
fn check_index(command: &ReadCommand) -> Result<(), ReadFailure> {
    let Some(id) = command.index else { return Ok(()) };
    let unavailable = |text| Err(ReadFailure::Refused(FailureReason::IndexNotAvailable, text));
    let Some(index) = command.table.indexes.iter().find(|index| id_of(index) == id) else {
        return unavailable(format!("the table has no index with id {id}"));
    };
    let class = index.class().unwrap_or_default();
    let is_known = matches!(class.rsplit('.').next(), Some("" | "StorageAttachedIndex" | "sai"));
    let has_plain_options =
        index.options.keys().all(|option| matches!(option.as_str(), "target" | "class_name"));
    if !is_known || !has_plain_options {
        return unavailable(format!(
            "the index {} is of a class or has options unknown here",
            index.name
        ));
    }
    if command.needs_reconciliation && index.is_storage_attached() && asks_for_union(command) {
        return unavailable("conditions on several columns with an index".into());
    }
    Ok(())
}

/// Returns whether a Cassandra replica answers with the rows that meet any of the conditions. It
/// does so if two columns outside of the primary key have conditions, or if a static column has a
/// condition and the command has another one. The cells may be at different replicas, so the
/// coordinator filters again.
fn asks_for_union(command: &ReadCommand) -> bool {
    let conditions = &command.filter.expressions;
    let mut mutable: Option<&Bytes> = None;
    for name in conditions.iter().filter_map(|condition| condition.column()) {
        let column = named(&command.table, name);
        if column.is_some_and(|column| column.is_primary_key()) {
            continue;
        }
        let is_static = column.is_some_and(|column| column.kind == ColumnKind::Static);
        if (is_static && conditions.len() > 1) || *mutable.get_or_insert(name) != name {
            return true;
        }
    }
    false
}

/// Returns Cassandra's id of an index: the version 3 UUID of its name.
fn id_of(index: &IndexMetadata) -> Uuid {
    Builder::from_md5_bytes(Md5::digest(index.name.as_bytes()).into()).into_uuid()
}

fn malformed(error: crate::DecodeError) -> ReadFailure {
    ReadFailure::refused(error.to_string())
}

fn read(
    command: &ReadCommand,
    target: ReadTarget,
    slices: ClusteringSlices,
    filter: &ClusteringFilter,
) -> Part {
    // Storage uses the limits as an estimate of the read's length, and does not enforce them.
    let (rows, rows_per_partition) = match &command.limits.counted {
        Counted::Rows { limit, per_partition, .. } => (*limit, *per_partition),
        Counted::Groups { rows, .. } => (*rows, u32::MAX),
    };
    let has_rows = !slices.slices.is_empty();
    let read = StorageRead {
        table: Arc::clone(&command.table),
        target,
        slices: Arc::new(if has_rows { slices } else { ClusteringSlices::all() }),
        direction: filter.direction(),
        columns: ColumnSelection::All,
        now_s: command.now_s,
        limits: ReadLimits {
            rows: rows as usize,
            rows_per_partition: rows_per_partition as usize,
            ..ReadLimits::NONE
        },
        resume: None,
        search: None,
        bypass_cache: false,
        flat: None,
    };
    Part { read, has_rows }
}

/// Returns the slices of the rows that a filter selects.
fn slices(
    table: &TableMetadata,
    filter: &ClusteringFilter,
) -> Result<ClusteringSlices, ReadFailure> {
    let slices = match &filter.rows {
        SelectedRows::Slices(slices) => {
            for slice in slices {
                check_clustering(table, &slice.start.values).map_err(malformed)?;
                check_clustering(table, &slice.end.values).map_err(malformed)?;
            }
            slices.clone()
        }
        SelectedRows::Names(names) => {
            for name in names {
                check_clustering(table, &name.values).map_err(malformed)?;
            }
            names.iter().map(|name| ClusteringSlice::prefix(name.values.clone())).collect()
        }
    };
    Ok(ClusteringSlices::normalise(slices, table.comparator()))
}

async fn range_parts(command: &ReadCommand, range: &DataRange) -> Result<Vec<Part>, ReadFailure> {
    let table = &command.table;
    let all = slices(table, &range.filter)?;
    let start = bound_at(table, &range.start, range.is_start_included)?;
    let end = match &range.end {
        Position::BeforeToken(Token(i64::MIN)) | Position::AfterToken(Token(i64::MIN)) => {
            KeyBound::Unbounded
        }
        end => bound_at(table, end, !range.is_end_included)?,
    };
    if end.token().zip(start.token()).is_some_and(|(end, start)| end < start) {
        return Err(ReadFailure::refused("a range of partitions wraps around the ring"));
    }
    let mut range_of_keys = KeyRange { start, end };
    let mut parts = Vec::new();
    if let (Some((last, is_included)), KeyBound::BeforeKey(first)) =
        (&range.paging, &range_of_keys.start)
    {
        let first = first.clone();
        check_clustering(table, &last.values).map_err(malformed)?;
        let rest = rest_of(table, &all, last, *is_included, &range.filter).await;
        if range_of_keys.contains(&first) {
            let target = ReadTarget::Partition(first.clone());
            parts.push(read(command, target, rest, &range.filter));
        }
        range_of_keys.start = KeyBound::AfterKey(first);
    }
    parts.push(read(command, ReadTarget::Range(range_of_keys), all, &range.filter));
    Ok(parts)
}

/// Returns the bound at a position. At a key, the bound is before the key if `is_before_key` is
/// set, otherwise after the key. A token says itself on which side its bound is.
fn bound_at(
    table: &TableMetadata,
    position: &Position,
    is_before_key: bool,
) -> Result<KeyBound, ReadFailure> {
    Ok(match position {
        Position::Key(key) => {
            check_key(table, key).map_err(malformed)?;
            let key = DecoratedKey::new(key.clone());
            if is_before_key { KeyBound::BeforeKey(key) } else { KeyBound::AfterKey(key) }
        }
        Position::BeforeToken(token) => KeyBound::BeforeToken(*token),
        Position::AfterToken(token) => KeyBound::AfterToken(*token),
    })
}

/// Returns the part of the slices after the last row of the previous page, or from this row on if
/// `is_included`.
async fn rest_of(
    table: &TableMetadata,
    slices: &ClusteringSlices,
    last: &Clustering,
    is_included: bool,
    filter: &ClusteringFilter,
) -> ClusteringSlices {
    let kind = match (filter.is_reversed, is_included) {
        (false, true) => BoundKind::InclusiveStart,
        (false, false) => BoundKind::ExclusiveStart,
        (true, true) => BoundKind::InclusiveEnd,
        (true, false) => BoundKind::ExclusiveEnd,
    };
    let reached = ClusteringBound { kind, values: last.values.clone() };
    slices_behind(slices, table.comparator(), &reached, filter.direction()).await
}

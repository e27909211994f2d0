//! Mutations: changes of the partitions that one key has in several tables, applied together.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    DecoratedKey, PartitionUpdate, RangeTombstone, RangeTombstoneMarker, Unfiltered,
    schema::{TableId, TableMetadata},
};
use espalier_types::vint;

use super::{
    Partition, Tables,
    check::{check_clustering, check_key, check_row},
};
use crate::{
    error::{DecodeError, Result},
    input::Input,
};

/// The change of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The table at the time of decoding.
    pub table: Arc<TableMetadata>,
    /// The changed partition.
    pub partition: Partition,
}

/// The changes of one partition key, each in another table.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The changes, at least one.
    pub updates: Vec<Update>,
}

impl Update {
    pub(crate) fn decode(input: &mut Input<'_>, tables: &dyn Tables) -> Result<Self> {
        let id = TableId(input.uuid()?);
        let table = tables.table(id).ok_or(DecodeError::UnknownTable(id))?;
        let partition = Partition::decode(input, &table, None)?;
        if partition.is_reversed {
            return Err(DecodeError::Malformed("an update in reversed order"));
        }
        if partition.content.as_ref().is_some_and(|content| content.row_estimate.is_none()) {
            return Err(DecodeError::Malformed("an update without a number of rows"));
        }
        Ok(Self { table, partition })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(self.table.id.0.as_bytes());
        self.partition.encode(&self.table, None, out)
    }

    /// Decodes an update that stands alone.
    pub(crate) fn of_bytes(bytes: &Bytes, tables: &dyn Tables) -> Result<Self> {
        Input::whole(bytes, |input| Self::decode(input, tables))
    }

    /// Returns the update as storage takes it.
    ///
    /// # Errors
    ///
    /// Fails if a range deletion does not end where the next begins, if the key is empty or too
    /// long, if a key or value is not of its type, if a deleted cell has a value, or if the cells
    /// of a column do not ascend.
    pub fn into_update(self) -> Result<PartitionUpdate> {
        let table = &*self.table;
        check_key(table, &self.partition.key)?;
        let key = DecoratedKey::new(self.partition.key);
        let mut update = PartitionUpdate::new(self.table.id, key);
        let Some(content) = self.partition.content else { return Ok(update) };
        update.deletion = content.deletion;
        if let Some((_, mut row)) = content.static_row {
            check_row(table, &mut row)?;
            update.static_row = Some(row).filter(|row| !row.is_empty());
        }
        let mut open: Option<RangeTombstoneMarker> = None;
        for item in content.unfiltered {
            match item {
                Unfiltered::Row(mut row) => {
                    check_row(table, &mut row)?;
                    update.rows.extend(Some(row).filter(|row| !row.is_empty()));
                }
                Unfiltered::Marker(marker) => {
                    check_clustering(table, &marker.position.values)?;
                    update.range_tombstones.extend(close(open.take(), &marker)?);
                    open = (!marker.after.is_live()).then_some(marker);
                }
            }
        }
        match open {
            None => Ok(update),
            Some(_) => Err(DecodeError::Malformed("a range deletion does not end")),
        }
    }
}

/// Returns the range that ends at `marker`, if any. `open` is the marker at which the range began.
fn close(
    open: Option<RangeTombstoneMarker>,
    marker: &RangeTombstoneMarker,
) -> Result<Option<RangeTombstone>> {
    match open {
        None if marker.before.is_live() => Ok(None),
        Some(start) if start.after == marker.before => {
            let start_bound = start.position.position().to_bound(true);
            let end = marker.position.position().to_bound(false);
            Ok(Some(RangeTombstone { start: start_bound, end, deletion: marker.before }))
        }
        _ => Err(DecodeError::Malformed("a range deletion does not end where the next begins")),
    }
}

impl Mutation {
    pub(crate) fn decode(input: &mut Input<'_>, tables: &dyn Tables) -> Result<Self> {
        let count = input.count()?;
        if count == 0 {
            return Err(DecodeError::Malformed("a mutation without an update"));
        }
        let mut updates: Vec<Update> = Vec::new();
        for _ in 0..count {
            let update = Update::decode(input, tables)?;
            if updates.first().is_some_and(|first| first.partition.key != update.partition.key) {
                return Err(DecodeError::Malformed("a mutation of several keys"));
            }
            updates.push(update);
        }
        Ok(Self { updates })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        vint::write_unsigned(self.updates.len() as u64, out);
        self.updates.iter().try_for_each(|update| update.encode(out))
    }

    /// Returns the mutation as storage takes it.
    ///
    /// # Errors
    ///
    /// Fails if an update has no form in storage; see [`Update::into_update`].
    pub fn into_mutation(self) -> Result<espalier_mutation::Mutation> {
        let updates = self.updates.into_iter().map(Update::into_update).collect::<Result<_>>()?;
        Ok(espalier_mutation::Mutation { updates })
    }
}

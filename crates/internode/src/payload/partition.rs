//! A partition in a message: its change in a mutation, or its rows in the answer to a read.
//!
//! ```text
//! partition  vint key length, key, flags, [content]
//! content    minima, [static columns], regular columns, [deletion], [static row],
//!            [vint rows estimated], (row | marker)*, 01
//! row        flags, [extended flags], clustering values, body
//! marker     02, kind, be16 number of values, clustering values, deletions
//! ```
//!
//! Rows and markers have the body that they have in Data.db, without the lengths in front of it
//! ([`espalier_mutation::encoding`]). A mutation lists its columns by name. An answer encodes its
//! columns as a subset of the columns that the command fetches.

use bytes::{BufMut, Bytes};
use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, DeletionTime, Row, Unfiltered,
    encoding::{
        baselines::{Baselines, LocalDeletionTimes},
        flags::{
            END_OF_PARTITION, EXTENDED_SHADOWABLE, EXTENDED_STATIC, EXTENSION, HAS_TIMESTAMP,
            HAS_TTL, IS_MARKER,
        },
        marker::{read_marker_body, write_marker_body},
        row::{RowDeletions, read_row_body, write_row_body},
        stats::{DELETION_TIME_EPOCH_S, EncodingStats, TIMESTAMP_EPOCH_US},
    },
    schema::{ColumnKind, TableMetadata},
};
use espalier_runtime::maybe_yield;
use espalier_types::vint;

use super::{
    ColumnList,
    clusterings::{read_bound_values, read_clustering, write_bound, write_values_of},
};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::put_vint_bytes,
};

const IS_EMPTY: u8 = 0x01;
const IS_REVERSED: u8 = 0x02;
const HAS_PARTITION_DELETION: u8 = 0x04;
const HAS_STATIC_ROW: u8 = 0x08;
const HAS_ROW_ESTIMATE: u8 = 0x10;
const FLAGS: u8 = 0x1F;

/// A partition in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The serialised key.
    pub key: Bytes,
    /// True if the rows are in reversed clustering order.
    pub is_reversed: bool,
    /// The content; `None` if there is nothing.
    pub content: Option<PartitionContent>,
}

/// The content of a partition in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionContent {
    /// The baselines of the deltas.
    pub minima: Minima,
    /// The static row and the columns that it may have; `None` if the message has no static row.
    pub static_row: Option<(ColumnList, Row)>,
    /// The columns that rows may have.
    pub regulars: ColumnList,
    /// The deletion of the partition.
    pub deletion: DeletionTime,
    /// The sender's estimate of the number of rows; only mutations have it.
    pub row_estimate: Option<u32>,
    /// Rows and markers in order.
    pub unfiltered: Vec<Unfiltered>,
}

/// The minima of a message's timestamps, deletion times and TTLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minima {
    /// Write timestamp in µs.
    pub timestamp: i64,
    /// Second of a deletion or expiry.
    pub local_deletion_time: u32,
    /// Time to live in seconds.
    pub ttl: u32,
}

impl From<&EncodingStats> for Minima {
    fn from(stats: &EncodingStats) -> Self {
        Self {
            timestamp: stats.min_timestamp(),
            local_deletion_time: stats.min_local_deletion_time(),
            ttl: stats.min_ttl(),
        }
    }
}

impl Minima {
    fn baselines(self) -> Baselines {
        let Self { timestamp, local_deletion_time, ttl } = self;
        // Version 12 writes the low 32 bits, too. A receiver with version 12 treats seconds of more
        // than 31 bits as overflowed.
        Baselines::new(timestamp, local_deletion_time, ttl, LocalDeletionTimes::Unsigned)
    }

    fn decode(input: &mut Input<'_>) -> Result<Self> {
        Ok(Self {
            timestamp: TIMESTAMP_EPOCH_US.wrapping_add(input.vint()? as i64),
            local_deletion_time: DELETION_TIME_EPOCH_S.wrapping_add(input.vint()? as u32),
            ttl: input.vint()? as u32,
        })
    }

    fn encode(self, out: &mut Vec<u8>) {
        let timestamp = self.timestamp.wrapping_sub(TIMESTAMP_EPOCH_US);
        vint::write_unsigned(timestamp as u64, out);
        let deletion_time = self.local_deletion_time.wrapping_sub(DELETION_TIME_EPOCH_S);
        vint::write_unsigned(deletion_time as i32 as u64, out);
        vint::write_unsigned(self.ttl as i32 as u64, out);
    }
}

/// The columns that a read fetches: static ones, then regular ones. The columns of its answer are a
/// subset of them.
pub type FetchedColumns = (ColumnList, ColumnList);

impl Partition {
    /// Decodes a partition. For an answer, `fetched` has the columns that its command fetches; for
    /// a mutation, it is `None`.
    pub(crate) fn decode(
        input: &mut Input<'_>,
        table: &TableMetadata,
        fetched: Option<&FetchedColumns>,
    ) -> Result<Self> {
        let key = input.vint_bytes()?;
        let flags = input.u8()?;
        if flags & !FLAGS != 0 {
            return Err(DecodeError::Malformed("unknown flags of a partition"));
        }
        let is_reversed = flags & IS_REVERSED != 0;
        let content = if flags & IS_EMPTY != 0 {
            if flags & !(IS_EMPTY | IS_REVERSED) != 0 {
                return Err(DecodeError::Malformed("an empty partition with content"));
            }
            None
        } else {
            Some(PartitionContent::decode(input, flags, table, fetched)?)
        };
        Ok(Self { key, is_reversed, content })
    }

    /// Appends the partition.
    pub(crate) fn encode(
        &self,
        table: &TableMetadata,
        fetched: Option<&FetchedColumns>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.encode_head(fetched, out)?;
        if let Some(content) = &self.content {
            let baselines = content.minima.baselines();
            for item in &content.unfiltered {
                content.encode_item(item, &baselines, table, out)?;
            }
            out.push(END_OF_PARTITION);
        }
        Ok(())
    }

    /// Appends all that precedes the first row or marker.
    fn encode_head(
        &self,
        fetched: Option<&FetchedColumns>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        put_vint_bytes(&self.key, out);
        let reversed = if self.is_reversed { IS_REVERSED } else { 0 };
        match &self.content {
            None => {
                out.push(reversed | IS_EMPTY);
                Ok(())
            }
            Some(content) => content.encode_head(reversed, fetched, out),
        }
    }

    /// Appends the partition as [`Self::encode`] does. Frees each row that it has encoded, and
    /// yields between rows.
    pub(crate) async fn encode_and_yield(
        mut self,
        table: &TableMetadata,
        fetched: Option<&FetchedColumns>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.encode_head(fetched, out)?;
        let Some(content) = &mut self.content else { return Ok(()) };
        let baselines = content.minima.baselines();
        for item in std::mem::take(&mut content.unfiltered) {
            content.encode_item(&item, &baselines, table, out)?;
            maybe_yield().await;
        }
        out.push(END_OF_PARTITION);
        Ok(())
    }
}

impl PartitionContent {
    fn decode(
        input: &mut Input<'_>,
        flags: u8,
        table: &TableMetadata,
        fetched: Option<&FetchedColumns>,
    ) -> Result<Self> {
        let has_static_row = flags & HAS_STATIC_ROW != 0;
        let minima = Minima::decode(input)?;
        let baselines = minima.baselines();
        let columns = |input: &mut Input<'_>, kind: ColumnKind| match (fetched, kind) {
            (None, kind) => ColumnList::decode(input, table, kind),
            (Some((statics, _)), ColumnKind::Static) => statics.decode_subset(input),
            (Some((_, regulars)), _) => regulars.decode_subset(input),
        };
        let statics = has_static_row.then(|| columns(input, ColumnKind::Static)).transpose()?;
        let regulars = columns(input, ColumnKind::Regular)?;
        let mut deletion = DeletionTime::LIVE;
        if flags & HAS_PARTITION_DELETION != 0 {
            deletion = baselines.read_deletion(&mut input.data)?;
            if deletion.is_live() {
                return Err(DecodeError::Malformed("a partition deletion that deletes nothing"));
            }
        }
        let static_row = match statics {
            None => None,
            Some(statics) => {
                let row = read_static_row(input, &baselines, &statics)?;
                Some((statics, row))
            }
        };
        let has_estimate = flags & HAS_ROW_ESTIMATE != 0;
        let row_estimate = has_estimate.then(|| input.count()).transpose()?;
        let mut unfiltered = Vec::new();
        while let Some(item) = read_unfiltered(input, &baselines, table, &regulars)? {
            unfiltered.push(item);
        }
        Ok(Self { minima, static_row, regulars, deletion, row_estimate, unfiltered })
    }

    fn encode_head(
        &self,
        reversed: u8,
        fetched: Option<&FetchedColumns>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
        let baselines = self.minima.baselines();
        out.push(
            reversed
                | flag(!self.deletion.is_live(), HAS_PARTITION_DELETION)
                | flag(self.static_row.is_some(), HAS_STATIC_ROW)
                | flag(self.row_estimate.is_some(), HAS_ROW_ESTIMATE),
        );
        self.minima.encode(out);
        let statics = self.static_row.as_ref().map(|(statics, _)| statics);
        match fetched {
            None => {
                statics.into_iter().for_each(|statics| statics.encode(out));
                self.regulars.encode(out);
            }
            Some((fetched_statics, fetched_regulars)) => {
                if let Some(statics) = statics {
                    statics.encode_subset(fetched_statics, out)?;
                }
                self.regulars.encode_subset(fetched_regulars, out)?;
            }
        }
        if !self.deletion.is_live() {
            baselines.write_deletion(self.deletion, out);
        }
        if let Some((statics, row)) = &self.static_row {
            write_row(row, None, &baselines, statics, out)?;
        }
        if let Some(estimate) = self.row_estimate {
            vint::write_unsigned(estimate.into(), out);
        }
        Ok(())
    }

    fn encode_item(
        &self,
        item: &Unfiltered,
        baselines: &Baselines,
        table: &TableMetadata,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match item {
            Unfiltered::Row(row) => write_row(row, Some(table), baselines, &self.regulars, out)?,
            Unfiltered::Marker(marker) => {
                out.push(IS_MARKER);
                write_bound(&marker.position, table, out)?;
                write_marker_body(marker, baselines, out);
            }
        }
        Ok(())
    }
}

fn read_static_row(
    input: &mut Input<'_>,
    baselines: &Baselines,
    columns: &ColumnList,
) -> Result<Row> {
    let flags = input.u8()?;
    if flags & EXTENSION == 0 || flags & (END_OF_PARTITION | IS_MARKER) != 0 {
        return Err(DecodeError::Malformed("the static row is missing"));
    }
    if input.u8()? != EXTENDED_STATIC {
        return Err(DecodeError::Malformed("unknown extended flags"));
    }
    check_row_flags(flags)?;
    let columns = columns.encoded().columns();
    let clustering = Clustering::empty();
    let input = (input.bytes, &mut input.data);
    Ok(read_row_body(input, baselines, (flags, 0), clustering, columns, None)?)
}

/// Reads the next row or marker; `None` at the end of the partition.
fn read_unfiltered(
    input: &mut Input<'_>,
    baselines: &Baselines,
    table: &TableMetadata,
    columns: &ColumnList,
) -> Result<Option<Unfiltered>> {
    let flags = input.u8()?;
    if flags == END_OF_PARTITION {
        return Ok(None);
    }
    if flags & END_OF_PARTITION != 0 {
        return Err(DecodeError::Malformed("other flags besides the end of the partition"));
    }
    if flags & IS_MARKER != 0 {
        if flags != IS_MARKER {
            return Err(DecodeError::Malformed("a marker with the flags of a row"));
        }
        let kind = BoundKind::from_number(input.u8()?);
        let kind = kind.ok_or(DecodeError::Malformed("a marker of unknown kind"))?;
        let values = read_bound_values(input, table)?;
        let position = ClusteringBound { kind, values };
        let marker = read_marker_body(&mut input.data, baselines, position)?;
        return Ok(Some(Unfiltered::Marker(marker)));
    }
    let mut extended = 0;
    if flags & EXTENSION != 0 {
        extended = input.u8()?;
        if extended != EXTENDED_SHADOWABLE {
            return Err(DecodeError::Malformed("unknown extended flags"));
        }
    }
    check_row_flags(flags)?;
    let clustering = read_clustering(input, table)?;
    let columns = columns.encoded().columns();
    let (input, flags) = ((input.bytes, &mut input.data), (flags, extended));
    let row = read_row_body(input, baselines, flags, clustering, columns, None)?;
    Ok(Some(Unfiltered::Row(row)))
}

fn check_row_flags(flags: u8) -> Result<()> {
    if flags & (HAS_TTL | HAS_TIMESTAMP) == HAS_TTL {
        return Err(DecodeError::Malformed("a row with a ttl and no timestamp"));
    }
    Ok(())
}

/// Appends a row, or a static row if `table` is `None`.
fn write_row(
    row: &Row,
    table: Option<&TableMetadata>,
    baselines: &Baselines,
    columns: &ColumnList,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let deletions = RowDeletions::of(row);
    let mut body = Vec::new();
    let flags = write_row_body(columns.encoded(), baselines, row, &deletions, &mut body)?;
    let static_flag = if table.is_none() { EXTENDED_STATIC } else { 0 };
    match deletions.extended | static_flag {
        0 => out.push(flags),
        extended => {
            out.put_u8(flags | EXTENSION);
            out.put_u8(extended);
        }
    }
    if let Some(table) = table {
        write_values_of(&row.clustering.values, table, out)?;
    }
    out.extend_from_slice(&body);
    Ok(())
}

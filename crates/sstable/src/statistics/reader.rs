//! This module reads Statistics.db. If the version has checksums, it verifies the checksum of a
//! part before it uses any of the part.

use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringBound};
use espalier_types::CqlType;
use uuid::Uuid;

use super::{
    drop_times::DropTimes,
    estimated_histogram::EstimatedHistogram,
    layout::{
        CommitLogInterval, CommitLogPosition, CoveredClustering, PartKind, Statistics,
        StatsComponent,
    },
    serialization_header::{SerializationHeader, read_type},
};
use crate::{
    data::{clustering_values, input::DataInput, values::ValueForm},
    error::{FileName, Result},
    input::Input,
    versions::{ClusteringStatistics, VersionFeatures},
};

/// Maximum number of parts. A file has four. The reader compares each part with all others, so a
/// forged number of parts would take unbounded time.
const MAX_PARTS: u32 = 64;

impl Statistics {
    /// Reads all parts of the file in `bytes`.
    ///
    /// # Errors
    /// Returns [`SSTableError::Corrupt`](crate::error::SSTableError::Corrupt) if a part is missing
    /// or malformed, or if a checksum is wrong.
    pub fn read(file: &FileName, bytes: &Bytes, features: &VersionFeatures) -> Result<Self> {
        let parts = parts(file, bytes, features)?;
        let part = |kind: PartKind| {
            parts.iter().find(|part| part.kind == kind as u32).ok_or_else(|| {
                Input::new(file, bytes, 0).corrupt(format!("part {kind:?} is missing"))
            })
        };
        let mut input = part(PartKind::Validation)?.input(file, bytes);
        let partitioner = input.short_text("partitioner")?.to_string();
        let bloom_filter_fp_chance = input.f64("bloom filter fp chance")?;
        input.expect_end("the validation part")?;

        let mut input = part(PartKind::Compaction)?.input(file, bytes);
        let mut length = input.u32("length of the cardinality estimate")?;
        if length == 0 && input.remaining() > 0 {
            // Early files of ScyllaDB begin with an empty list of ancestors, as files of Cassandra
            // 2 do (docs/formats/statistics.md).
            length = input.u32("length of the cardinality estimate")?;
        }
        let length = input.checked_count(u64::from(length), 1, "bytes of cardinality estimate")?;
        let cardinality = bytes.slice_ref(input.take(length, "cardinality estimate")?);
        input.expect_end("the compaction part")?;

        let mut input = part(PartKind::Header)?.input(file, bytes);
        let header = SerializationHeader::read(&mut input)?;
        input.expect_end("the header part")?;

        let types = &header.clustering_types;
        let stats = read_stats(part(PartKind::Stats)?, file, bytes, features, types)?;
        Ok(Statistics { partitioner, bloom_filter_fp_chance, cardinality, stats, header })
    }
}

/// The location of a part's body.
struct Part {
    kind: u32,
    start: usize,
    end: usize,
}

impl Part {
    fn input<'a>(&self, file: &'a FileName, bytes: &'a [u8]) -> Input<'a> {
        Input::new(file, bytes.get(self.start..self.end).unwrap_or_default(), self.start as u64)
    }
}

/// Reads the table of parts. A body ends where the next body in the file begins, whatever the order
/// of the parts in the table.
fn parts(file: &FileName, bytes: &[u8], features: &VersionFeatures) -> Result<Vec<Part>> {
    let mut input = Input::new(file, bytes, 0);
    let mut checksum = crc32fast::Hasher::new();
    let count = input.u32("number of parts")?;
    if count > MAX_PARTS {
        return Err(input.corrupt(format!("{count} parts")));
    }
    let count = input.checked_count(u64::from(count), 8, "parts")?;
    let check = |input: &mut Input<'_>, checksum: &crc32fast::Hasher, what: &str| {
        let (at, expected) = (input.clone(), checksum.clone().finalize());
        if features.statistics_checksums && input.u32("checksum")? != expected {
            Err(at.corrupt(format!("wrong checksum of {what}")))
        } else {
            Ok(())
        }
    };
    checksum.update(bytes.get(..4).unwrap_or_default());
    check(&mut input, &checksum, "the number of parts")?;
    let mut starts = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = input.take(8, "table of parts")?;
        checksum.update(entry);
        let mut entry = Input::new(file, entry, input.position() - 8);
        starts.push((entry.u32("kind of a part")?, entry.u32("offset of a part")? as usize));
    }
    check(&mut input, &checksum, "the table of parts")?;
    let table_end = bytes.len() - input.remaining();
    let checksum_length = if features.statistics_checksums { 4 } else { 0 };
    let mut parts = Vec::with_capacity(count);
    for &(kind, start) in &starts {
        let next = starts.iter().map(|(_, start)| *start).filter(|&other| other > start).min();
        let end = next.unwrap_or(bytes.len());
        let twice = starts.iter().filter(|(other, at)| *other == kind || *at == start).count() > 1;
        if twice || start < table_end || end > bytes.len() || end < start + checksum_length {
            return Err(Input::new(file, bytes, 0)
                .corrupt(format!("part {kind} cannot be at {start}..{end}")));
        }
        let part = Part { kind, start, end: end - checksum_length };
        if features.statistics_checksums {
            let mut behind = Input::new(file, &bytes[part.end..end], part.end as u64);
            let body = bytes.get(start..part.end).unwrap_or_default();
            if behind.u32("checksum")? != crc32fast::hash(body) {
                return Err(part
                    .input(file, bytes)
                    .corrupt(format!("wrong checksum of part {kind}")));
            }
        }
        parts.push(part);
    }
    Ok(parts)
}

fn read_stats(
    part: &Part,
    file: &FileName,
    bytes: &Bytes,
    features: &VersionFeatures,
    clustering_types: &[(CqlType, bool)],
) -> Result<StatsComponent> {
    let mut input = part.input(file, bytes);
    let input = &mut input;
    let times = features.local_deletion_times;
    let has_repair = features.repair_in_statistics;
    let has_keys = features.key_range_in_statistics;
    let stats = StatsComponent {
        partition_sizes: read_histogram(input)?,
        cell_counts: read_histogram(input)?,
        commit_log_upper: read_position(input)?,
        min_timestamp: input.i64("min timestamp")?,
        max_timestamp: input.i64("max timestamp")?,
        min_local_deletion_time: times.meant(input.u32("min local deletion time")?),
        max_local_deletion_time: times.meant(input.u32("max local deletion time")?),
        min_ttl: input.u32("min ttl")?,
        max_ttl: input.u32("max ttl")?,
        compression_ratio: input.f64("compression ratio")?,
        drop_times: read_drop_times(input, features.wide_drop_times)?,
        level: input.u32("level")?,
        repaired_at: input.i64("repaired at")?,
        covered_clustering: match features.clustering_statistics {
            ClusteringStatistics::CoveredSlice => read_covered(input, bytes)?,
            ClusteringStatistics::MinMaxValues => read_min_max(input, bytes, clustering_types)?,
        },
        has_legacy_counter_shards: input.flag("legacy counter shards")?,
        total_columns: input.u64("total columns")?,
        total_rows: input.u64("total rows")?,
        commit_log_lower: read_position(input)?,
        commit_log_intervals: read_intervals(input)?,
        pending_repair: if has_repair { read_uuid(input, "pending repair")? } else { None },
        is_transient: has_repair && input.flag("transient")?,
        originating_host_id: if features.host_id_in_statistics {
            read_uuid(input, "host id")?
        } else {
            None
        },
        has_partition_deletions: !has_keys || input.flag("partition deletions")?,
        first_key: if has_keys {
            bytes.slice_ref(input.vint_bytes("first key")?)
        } else {
            Bytes::new()
        },
        last_key: if has_keys {
            bytes.slice_ref(input.vint_bytes("last key")?)
        } else {
            Bytes::new()
        },
        token_space_coverage: if has_keys { input.f64("token space coverage")? } else { f64::NAN },
    };
    // Cassandra's size calculation leaves zeros after the stats; a writer may omit them
    // (docs/formats/statistics.md).
    let at = input.clone();
    if input.rest().iter().any(|&byte| byte != 0) {
        return Err(at.corrupt("bytes other than padding after the stats"));
    }
    Ok(stats)
}

fn read_histogram(input: &mut Input<'_>) -> Result<EstimatedHistogram> {
    let count = input.u32("number of buckets")?;
    let count = input.checked_count(u64::from(count), 16, "buckets")?;
    if count < 2 {
        return Err(input.corrupt(format!("a histogram of {count} buckets")));
    }
    let (mut offsets, mut counts) = (Vec::with_capacity(count - 1), Vec::with_capacity(count));
    for bucket in 0..count {
        let offset = input.u64("bucket offset")?;
        counts.push(input.u64("bucket count")?);
        // The first entry repeats the first offset.
        match bucket {
            0 => {}
            _ if offsets.last().is_some_and(|&last| last >= offset) => {
                return Err(input.corrupt("offsets of a histogram do not ascend"));
            }
            _ => offsets.push(offset),
        }
    }
    Ok(EstimatedHistogram { offsets, counts })
}

fn read_drop_times(input: &mut Input<'_>, is_wide: bool) -> Result<DropTimes> {
    let maximum = input.u32("maximum of bins")?;
    let count = input.u32("number of bins")?;
    if count > maximum {
        return Err(input.corrupt(format!("{count} bins exceed the maximum of {maximum}")));
    }
    let bin_length = if is_wide { 16 } else { 12 };
    let count = input.checked_count(u64::from(count), bin_length, "bins")?;
    let mut bins = Vec::with_capacity(count);
    for _ in 0..count {
        bins.push(if is_wide {
            // A valid time fits in a `u64`, and a valid sum of counts in a `u32`. Any other value
            // becomes the nearest one that fits.
            let (time, count) = (input.f64("bin")? as u64, input.u64("count of a bin")?);
            (time, u32::try_from(count).unwrap_or(u32::MAX))
        } else {
            (input.u64("bin")?, input.u32("count of a bin")?)
        });
    }
    Ok(DropTimes { bins })
}

/// Reads two lists of values, one value for each of the first clustering columns. The format does
/// not distinguish null from an empty value.
fn read_min_max(
    input: &mut Input<'_>,
    bytes: &Bytes,
    types: &[(CqlType, bool)],
) -> Result<CoveredClustering> {
    let mut bound = |kind: BoundKind| -> Result<ClusteringBound> {
        let count = input.u32("values of a clustering")?;
        let count = input.checked_count(u64::from(count), 2, "values of a clustering")?;
        let values: Result<Box<[_]>> = (0..count)
            .map(|_| Ok(Some(bytes.slice_ref(input.short_bytes("a clustering's value")?))))
            .collect();
        Ok(ClusteringBound { kind, values: values? })
    };
    let (start, end) = (bound(BoundKind::InclusiveStart)?, bound(BoundKind::InclusiveEnd)?);
    Ok(CoveredClustering { types: types.to_vec(), start, end })
}

fn read_covered(input: &mut Input<'_>, bytes: &Bytes) -> Result<CoveredClustering> {
    let count = input.vint("number of clustering types")?;
    let count = input.checked_count(count, 1, "clustering types")?;
    let mut types = Vec::with_capacity(count);
    for _ in 0..count {
        types.push(read_type(input, "type of a clustering column")?);
    }
    let forms: Vec<_> = types.iter().map(|(column_type, _)| ValueForm::of(column_type)).collect();
    let mut bound = || -> Result<ClusteringBound> {
        let kind = input.u8("kind of a bound")?;
        let kind = BoundKind::from_number(kind)
            .ok_or_else(|| input.corrupt(format!("bound of kind {kind}")))?;
        let count = usize::from(input.u16("values of a bound")?);
        let mut values = DataInput::new(bytes, input.position() as usize);
        let spans = clustering_values::read_spans(&mut values, &forms, count)
            .map_err(|wrong| input.corrupt(format!("values of a bound: {}", wrong.reason())))?;
        let length = values.offset() - input.position() as usize;
        input.take(length, "values of a bound")?;
        Ok(ClusteringBound { kind, values: clustering_values::to_values(bytes, &spans) })
    };
    Ok(CoveredClustering { start: bound()?, end: bound()?, types })
}

fn read_position(input: &mut Input<'_>) -> Result<CommitLogPosition> {
    Ok(CommitLogPosition {
        segment: input.i64("commit log segment")?,
        offset: input.i32("commit log offset")?,
    })
}

fn read_intervals(input: &mut Input<'_>) -> Result<Vec<CommitLogInterval>> {
    let count = input.u32("number of commit log intervals")?;
    let count = input.checked_count(u64::from(count), 24, "commit log intervals")?;
    (0..count)
        .map(|_| Ok(CommitLogInterval { start: read_position(input)?, end: read_position(input)? }))
        .collect()
}

fn read_uuid(input: &mut Input<'_>, what: &str) -> Result<Option<Uuid>> {
    if input.flag(what)? { Ok(Some(Uuid::from_bytes(input.bytes16(what)?))) } else { Ok(None) }
}

//! This module writes Statistics.db, with the same bytes as Cassandra for equal values.

use bytes::{BufMut, Bytes, BytesMut};
use espalier_types::vint;
use uuid::Uuid;

use super::{
    drop_times::DropTimes,
    estimated_histogram::EstimatedHistogram,
    layout::{CommitLogPosition, CoveredClustering, PartKind, Statistics, StatsComponent},
    serialization_header::{type_name, write_bytes},
};
use crate::{
    data::clustering_values::{borrowed, write_values},
    versions::{ClusteringStatistics, VersionFeatures},
};

impl Statistics {
    /// Returns the bytes of the file.
    ///
    /// # Errors
    /// Returns a text that names the value that cannot be written.
    pub fn to_bytes(&self, features: &VersionFeatures) -> Result<Bytes, String> {
        let bodies = PartKind::ALL
            .iter()
            .map(|kind| self.part(*kind, features))
            .collect::<Result<Vec<_>, _>>()?;
        let checksum_length = if features.statistics_checksums { 4 } else { 0 };
        let mut out = BytesMut::new();
        let put_checksum = |out: &mut BytesMut, checksum: u32| {
            if features.statistics_checksums {
                out.put_u32(checksum);
            }
        };
        out.put_u32(PartKind::ALL.len() as u32);
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&out);
        put_checksum(&mut out, checksum.clone().finalize());
        let table_start = out.len();
        let mut offset = table_start + 8 * bodies.len() + checksum_length;
        for (kind, body) in PartKind::ALL.iter().zip(&bodies) {
            out.put_u32(*kind as u32);
            out.put_u32(offset as u32);
            offset += body.len() + checksum_length;
        }
        checksum.update(&out[table_start..]);
        put_checksum(&mut out, checksum.finalize());
        for body in &bodies {
            out.put_slice(body);
            put_checksum(&mut out, crc32fast::hash(body));
        }
        Ok(out.freeze())
    }

    fn part(&self, kind: PartKind, features: &VersionFeatures) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        match kind {
            PartKind::Validation => {
                out.put_u16(self.partitioner.len() as u16);
                out.put_slice(self.partitioner.as_bytes());
                out.put_f64(self.bloom_filter_fp_chance);
            }
            PartKind::Compaction => {
                out.put_u32(self.cardinality.len() as u32);
                out.put_slice(&self.cardinality);
            }
            PartKind::Stats => write_stats(&self.stats, features, &mut out)?,
            PartKind::Header => self.header.write(&mut out),
        }
        Ok(out)
    }
}

fn write_stats(
    stats: &StatsComponent,
    features: &VersionFeatures,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    write_histogram(&stats.partition_sizes, out);
    write_histogram(&stats.cell_counts, out);
    write_position(stats.commit_log_upper, out);
    out.put_i64(stats.min_timestamp);
    out.put_i64(stats.max_timestamp);
    let times = features.local_deletion_times;
    out.put_u32(times.stored(stats.min_local_deletion_time));
    out.put_u32(times.stored(stats.max_local_deletion_time));
    out.put_u32(stats.min_ttl);
    out.put_u32(stats.max_ttl);
    out.put_f64(stats.compression_ratio);
    write_drop_times(&stats.drop_times, features.wide_drop_times, out);
    out.put_u32(stats.level);
    out.put_i64(stats.repaired_at);
    match features.clustering_statistics {
        ClusteringStatistics::CoveredSlice => write_covered(&stats.covered_clustering, out)?,
        ClusteringStatistics::MinMaxValues => write_min_max(&stats.covered_clustering, out),
    }
    out.put_u8(stats.has_legacy_counter_shards.into());
    out.put_u64(stats.total_columns);
    out.put_u64(stats.total_rows);
    write_position(stats.commit_log_lower, out);
    out.put_u32(stats.commit_log_intervals.len() as u32);
    for interval in &stats.commit_log_intervals {
        write_position(interval.start, out);
        write_position(interval.end, out);
    }
    if features.repair_in_statistics {
        write_uuid(stats.pending_repair, out);
        out.put_u8(stats.is_transient.into());
    }
    if features.host_id_in_statistics {
        write_uuid(stats.originating_host_id, out);
    }
    if features.key_range_in_statistics {
        out.put_u8(stats.has_partition_deletions.into());
        write_bytes(&stats.first_key, out);
        write_bytes(&stats.last_key, out);
        out.put_f64(stats.token_space_coverage);
        // Cassandra counts 16 bytes for a bin of 12 and leaves the difference as zeros
        // (docs/formats/statistics.md).
        out.put_bytes(0, 4 * stats.drop_times.bins.len());
    }
    Ok(())
}

fn write_histogram(histogram: &EstimatedHistogram, out: &mut Vec<u8>) {
    out.put_u32(histogram.counts.len() as u32);
    for (bucket, count) in histogram.counts.iter().enumerate() {
        let offset = histogram.offsets.get(bucket.saturating_sub(1)).copied().unwrap_or_default();
        out.put_u64(offset);
        out.put_u64(*count);
    }
}

fn write_drop_times(drop_times: &DropTimes, is_wide: bool, out: &mut Vec<u8>) {
    // Cassandra 5 writes the number of bins also into the field for their maximum number.
    out.put_u32(drop_times.bins.len() as u32);
    out.put_u32(drop_times.bins.len() as u32);
    for (time, count) in &drop_times.bins {
        if is_wide {
            out.put_f64(*time as f64);
            out.put_u64(u64::from(*count));
        } else {
            out.put_u64(*time);
            out.put_u32(*count);
        }
    }
}

fn write_min_max(covered: &CoveredClustering, out: &mut Vec<u8>) {
    for bound in [&covered.start, &covered.end] {
        let values = CoveredClustering::values_before_null(bound);
        out.put_u32(values.len() as u32);
        for value in values.iter().flatten() {
            // The SSTable writer rejects longer values in versions that store these lengths.
            out.put_u16(value.len() as u16);
            out.put_slice(value);
        }
    }
}

fn write_covered(covered: &CoveredClustering, out: &mut Vec<u8>) -> Result<(), String> {
    vint::write_unsigned(covered.types.len() as u64, out);
    for (column_type, reversed) in &covered.types {
        write_bytes(type_name(column_type, *reversed).as_bytes(), out);
    }
    for bound in [&covered.start, &covered.end] {
        out.put_u8(bound.kind as u8);
        out.put_u16(bound.values.len() as u16);
        write_values(&covered.types, borrowed(&bound.values), out)?;
    }
    Ok(())
}

fn write_position(position: CommitLogPosition, out: &mut Vec<u8>) {
    out.put_i64(position.segment);
    out.put_i32(position.offset);
}

fn write_uuid(uuid: Option<Uuid>, out: &mut Vec<u8>) {
    out.put_u8(uuid.is_some().into());
    if let Some(uuid) = uuid {
        out.put_slice(uuid.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use espalier_mutation::{BoundKind, ClusteringBound};

    use super::*;

    /// The minimum ends before the first null of its row, as in Cassandra 5.0.9. With an empty
    /// value instead of the null, the minimum would lie behind the row, and readers would skip the
    /// row.
    #[test]
    fn the_minimum_of_clusterings_ends_before_null() {
        let five = Some(Bytes::from_static(&[0, 0, 0, 5]));
        let bound =
            |kind, values: [Option<Bytes>; 3]| ClusteringBound { kind, values: values.into() };
        let empty = Some(Bytes::new());
        let covered = CoveredClustering {
            types: Vec::new(),
            start: bound(BoundKind::InclusiveStart, [five.clone(), None, five.clone()]),
            end: bound(BoundKind::InclusiveEnd, [five, empty, None]),
        };
        let mut out = Vec::new();
        write_min_max(&covered, &mut out);
        let start = [0, 0, 0, 1, 0, 4, 0, 0, 0, 5];
        let end = [0, 0, 0, 2, 0, 4, 0, 0, 0, 5, 0, 0];
        assert_eq!(out, [&start[..], &end[..]].concat());
    }
}

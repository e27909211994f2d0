//! Statistics.db against what the data makes.

use std::fmt::Debug;

use espalier_mutation::ClusteringBound;

use super::report::{Severity, VerifyReport};
use crate::{
    components::Component,
    error::FileName,
    reader::SSTableReader,
    statistics::{StatisticsCollector, collector::WriterFacts},
    versions::{ClusteringStatistics, Family},
};

struct Comparison<'a> {
    name: FileName,
    report: &'a mut VerifyReport,
}

impl Comparison<'_> {
    /// A bound that must hold, and should be tight.
    fn bound<T: Ord + Debug>(&mut self, what: &str, stored: T, actual: T, is_minimum: bool) {
        let holds = if is_minimum { stored <= actual } else { stored >= actual };
        let what = format!("{}: {what} is {stored:?}, the data has {actual:?}", self.name);
        match (holds, stored == actual) {
            (false, _) => self.report.add(Severity::Failure, &self.name, what),
            (true, false) => self.report.add(Severity::Warning, &self.name, what),
            (true, true) => {}
        }
    }

    fn equal<T: PartialEq + Debug>(
        &mut self,
        severity: Severity,
        what: &str,
        stored: T,
        actual: T,
    ) {
        if stored != actual {
            let what = format!("{}: {what} is {stored:?}, the data makes {actual:?}", self.name);
            self.report.add(severity, &self.name, what);
        }
    }
}

pub(super) fn check_statistics(
    reader: &SSTableReader,
    collector: StatisticsCollector,
    report: &mut VerifyReport,
) {
    let stored = &reader.statistics().stats;
    let header = reader.statistics().header.clone();
    let actual = collector.finish(header, &WriterFacts::default(), -1.0).stats;
    let name = reader.descriptor().name_in_errors(&Component::Statistics);
    let mut compare = Comparison { name, report };
    compare.bound("min timestamp", stored.min_timestamp, actual.min_timestamp, true);
    compare.bound("max timestamp", stored.max_timestamp, actual.max_timestamp, false);
    let (stored_time, time) = (stored.min_local_deletion_time, actual.min_local_deletion_time);
    compare.bound("min local deletion time", stored_time, time, true);
    let (stored_time, time) = (stored.max_local_deletion_time, actual.max_local_deletion_time);
    compare.bound("max local deletion time", stored_time, time, false);
    compare.bound("min ttl", stored.min_ttl, actual.min_ttl, true);
    compare.bound("max ttl", stored.max_ttl, actual.max_ttl, false);
    let (failure, warning) = (Severity::Failure, Severity::Warning);
    let is_counted_alike = reader.features().family == Family::Cassandra;
    if reader.features().key_range_in_statistics {
        let (stored_flag, flag) = (stored.has_partition_deletions, actual.has_partition_deletions);
        compare.bound("the flag of partition deletions", stored_flag, flag, false);
        compare.equal(failure, "first key", &stored.first_key, &actual.first_key);
        compare.equal(failure, "last key", &stored.last_key, &actual.last_key);
    }
    let (stored_covered, covered) = (&stored.covered_clustering, &actual.covered_clustering);
    match reader.features().clustering_statistics {
        ClusteringStatistics::CoveredSlice => {
            compare.equal(warning, "covered clustering", stored_covered, covered);
        }
        // ScyllaDB and Cassandra 3 had other notions of what is least, of what is a row and of when it may be dropped.
        ClusteringStatistics::MinMaxValues if is_counted_alike => {
            let values = |bound: &ClusteringBound| bound.values.clone();
            let what = "minimum of clusterings";
            compare.equal(warning, what, values(&stored_covered.start), values(&covered.start));
            let what = "maximum of clusterings";
            compare.equal(warning, what, values(&stored_covered.end), values(&covered.end));
        }
        ClusteringStatistics::MinMaxValues => {}
    }
    if is_counted_alike {
        compare.equal(warning, "total rows", stored.total_rows, actual.total_rows);
        let drop_times = (&stored.drop_times, &actual.drop_times);
        compare.equal(warning, "histogram of drop times", drop_times.0, drop_times.1);
    }
    compare.equal(warning, "total columns", stored.total_columns, actual.total_columns);
    let sizes = |histogram: &crate::statistics::estimated_histogram::EstimatedHistogram| {
        histogram.non_empty().collect::<Vec<_>>()
    };
    let (stored_sizes, partition_sizes) =
        (sizes(&stored.partition_sizes), sizes(&actual.partition_sizes));
    compare.equal(warning, "histogram of partition sizes", stored_sizes, partition_sizes);
    let (stored_counts, counts) = (sizes(&stored.cell_counts), sizes(&actual.cell_counts));
    compare.equal(warning, "histogram of cell counts", stored_counts, counts);
}

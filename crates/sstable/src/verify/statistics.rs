//! Compares Statistics.db with statistics that are computed from the data.

use std::fmt::Display;

use bytes::Bytes;
use espalier_types::literal::to_cql_literal;

use super::{
    report::{Severity, VerifyReport},
    words::{Bins, clustering_in_words, slice_in_words},
};
use crate::{
    components::Component,
    error::FileName,
    reader::SSTableReader,
    statistics::{
        CoveredClustering, StatisticsCollector, collector::WriterFacts, drop_times::DropTimes,
        estimated_histogram::EstimatedHistogram,
    },
    versions::{ClusteringStatistics, Family},
};

struct Comparison<'a> {
    name: FileName,
    report: &'a mut VerifyReport,
}

impl Comparison<'_> {
    /// Compares a bound, which must hold (else a failure) and should be tight (else a warning).
    fn bound<T: Ord + Display>(&mut self, what: &str, stored: T, actual: T, is_minimum: bool) {
        let holds = if is_minimum { stored <= actual } else { stored >= actual };
        let what = format!("{}: {what} is {stored}, the data has {actual}", self.name);
        match (holds, stored == actual) {
            (false, _) => self.report.add(Severity::Failure, &self.name, what),
            (true, false) => self.report.add(Severity::Warning, &self.name, what),
            (true, true) => {}
        }
    }

    /// Compares a value; `words` formats it.
    fn equal<T: PartialEq, W: Display>(
        &mut self,
        severity: Severity,
        what: &str,
        (stored, actual): (T, T),
        words: impl Fn(&T) -> W,
    ) {
        if stored != actual {
            let (stored, actual) = (words(&stored), words(&actual));
            let what = format!("{}: {what} is {stored}, the data makes {actual}", self.name);
            self.report.add(severity, &self.name, what);
        }
    }

    /// Compares a histogram. The report shows only the first bin that differs, because a reader of
    /// the report would not read a hundred of them.
    fn histogram(&mut self, what: &str, stored: Bins, actual: Bins, ends: &str) {
        if let Some(difference) = stored.difference(&actual, ends) {
            let what = format!("{}: the histogram of {what} {difference}", self.name);
            self.report.add(Severity::Warning, &self.name, what);
        }
    }
}

pub(super) async fn check_statistics(
    reader: &SSTableReader,
    collector: StatisticsCollector,
    report: &mut VerifyReport,
) {
    let stored = &reader.statistics().stats;
    let header = reader.statistics().header.clone();
    let key_type = header.key_type.clone();
    let actual = collector.finish(header, &WriterFacts::default(), -1.0).await.stats;
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
        let words = |key: &&Bytes| to_cql_literal(&key_type, key);
        compare.equal(failure, "first key", (&stored.first_key, &actual.first_key), words);
        compare.equal(failure, "last key", (&stored.last_key, &actual.last_key), words);
    }
    let (stored_covered, covered) = (&stored.covered_clustering, &actual.covered_clustering);
    match reader.features().clustering_statistics {
        ClusteringStatistics::CoveredSlice => {
            let both = (stored_covered, covered);
            compare.equal(warning, "covered clustering", both, |slice| slice_in_words(slice));
        }
        // ScyllaDB and Cassandra 3 have other definitions of the least clustering, of a row that
        // counts, and of the time at which a row may be dropped. So only files that count as
        // Espalier does are compared.
        ClusteringStatistics::MinMaxValues if is_counted_alike => {
            let words = |values: &&[Option<Bytes>]| clustering_in_words(&covered.types, values);
            let before_null = CoveredClustering::values_before_null;
            let least = (&*stored_covered.start.values, before_null(&covered.start));
            compare.equal(warning, "minimum of clusterings", least, words);
            let greatest = (&*stored_covered.end.values, before_null(&covered.end));
            compare.equal(warning, "maximum of clusterings", greatest, words);
        }
        ClusteringStatistics::MinMaxValues => {}
    }
    if is_counted_alike {
        let rows = (stored.total_rows, actual.total_rows);
        compare.equal(warning, "total rows", rows, |rows| *rows);
        let of =
            |times: &DropTimes| Bins::new(times.bins.iter().map(|(s, n)| (Some(*s), (*n).into())));
        let (stored_times, times) = (of(&stored.drop_times), of(&actual.drop_times));
        compare.histogram("drop times", stored_times, times, "at second");
    }
    let columns = (stored.total_columns, actual.total_columns);
    compare.equal(warning, "total columns", columns, |columns| *columns);
    let of = |histogram: &EstimatedHistogram| Bins::new(histogram.non_empty());
    let (stored_sizes, sizes) = (of(&stored.partition_sizes), of(&actual.partition_sizes));
    compare.histogram("partition sizes", stored_sizes, sizes, "up to");
    let (stored_counts, counts) = (of(&stored.cell_counts), of(&actual.cell_counts));
    compare.histogram("cell counts", stored_counts, counts, "up to");
}

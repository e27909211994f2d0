//! Checks Data.db from front to back, in step with the partition index.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::DecoratedKey;

use super::{
    partition::{Tally, check_partition},
    report::{Severity, VerifyReport},
    statistics::check_statistics,
};
use crate::{
    components::Component,
    data::{column_map::ColumnSelection, decode::RowDecoder, stream::DataStream},
    error::Result,
    filter::BloomFilter,
    page_cache::Caching,
    reader::{Index, RowSource, SSTableReader},
    statistics::StatisticsCollector,
};

pub(super) async fn check_content(
    reader: &SSTableReader,
    quick: bool,
    watch: &mut dyn FnMut(u64, u64),
    report: &mut VerifyReport,
) -> Result<()> {
    if let Err(error) = reader.data().check_all_chunks().await {
        // If its checksums are wrong, the data is not worth reading.
        return report.take_error(error);
    }
    if quick {
        return Ok(());
    }
    let decoder = RowDecoder::new(reader.layout(), &ColumnSelection::All);
    let stream = DataStream::sequential(reader.data().clone(), 0);
    let mut source = RowSource::new(stream, decoder);
    let mut collector = StatisticsCollector::new(source.comparator().clone());
    let mut rebuilt = reader.filter().map(BloomFilter::emptied);
    let name = reader.descriptor().name_in_errors(&Component::Data);
    let table = reader.table();
    let mut last: Option<DecoratedKey> = None;
    let index_name = reader.0.index.name().clone();
    let mut entries = reader.index_entries(Caching::Shared);
    let mut candidate = entries.next().await;
    while !source.stream.is_at_end() {
        let position = source.stream.position();
        let mut tally = Tally {
            report: &mut *report,
            collector: &mut collector,
            watch: &mut *watch,
            table: &table,
            name: &name,
            key: Bytes::new(),
        };
        let key = match check_partition(reader, &mut source, &mut tally).await {
            Ok(key) => key,
            Err(error) => return report.take_error(error),
        };
        report.partitions += 1;
        if last.as_ref().is_some_and(|last| *last >= key) {
            report.fail(&name, position, "a partition is out of key order");
        }
        if let Some(filter) = reader.filter() {
            report.check(
                filter.may_contain(&key.key),
                &name,
                position,
                "the filter does not have this partition's key",
            );
        }
        if let Some(rebuilt) = &mut rebuilt {
            rebuilt.add(&key.key);
        }
        match candidate {
            // If the index stores no key, the look-up of this key led here.
            Ok(Some((at, indexed)))
                if at == position && indexed.as_ref().is_none_or(|indexed| *indexed == key) => {}
            Ok(Some(_)) => report.fail(&index_name, 0, format_args!("it leads past {position}")),
            Ok(None) => report.fail(&index_name, 0, format_args!("it ends before {position}")),
            Err(error) => {
                report.take_error(error)?;
                return Ok(());
            }
        }
        candidate = entries.next().await;
        last = Some(key);
        espalier_runtime::maybe_yield().await;
    }
    match candidate {
        Ok(None) => {}
        Ok(Some(_)) => report.fail(&index_name, 0, "it has more keys than there are partitions"),
        Err(error) => report.take_error(error)?,
    }
    report.check(
        last.as_ref() == Some(reader.last_key()),
        &name,
        reader.data_length(),
        "the last partition is not the one that Statistics.db names",
    );
    report.check(
        report.partitions == reader.partition_count(),
        &name,
        reader.data_length(),
        "the number of partitions is not that of Partitions.db",
    );
    if rebuilt.as_ref() != reader.filter() {
        let what = "its bits are not those that its size and the keys give";
        let name = reader.descriptor().name_in_errors(&Component::Filter);
        report.add(Severity::Warning, &name, format_args!("{name}: {what}"));
    }
    check_statistics(reader, collector, report);
    Ok(())
}

/// Reports a damaged Summary.db, since a reader that finds it damaged, when it opens it or at a
/// look-up, rebuilds it silently.
pub(super) fn check_summary(reader: &SSTableReader, report: &mut VerifyReport) -> Result<()> {
    match &reader.0.index {
        Index::Big(index) => match index.summary_fault().flatten() {
            Some(error) => report.take_error(error.clone()),
            None => Ok(()),
        },
        Index::Trie(_) => Ok(()),
    }
}

impl SSTableReader {
    fn layout(&self) -> Arc<crate::data::column_map::FileLayout> {
        self.0.layout.borrow().clone()
    }

    fn data(&self) -> &crate::data::file::DataFile {
        &self.0.data
    }

    fn filter(&self) -> Option<&BloomFilter> {
        self.0.filter.as_ref()
    }
}

//! Checks Data.db from front to back, in step with the partition index.

use bytes::Bytes;
use espalier_mutation::DecoratedKey;

use super::{
    partition::{Tally, check_partition},
    report::{Severity, VerifyReport},
    statistics::check_statistics,
};
use crate::{
    components::Component,
    data::{column_map::ColumnSelection, stream::DataStream},
    error::{FileName, Result},
    filter::BloomFilter,
    page_cache::Caching,
    reader::{Index, IndexEntries, RowSource, SSTableReader},
    statistics::StatisticsCollector,
};

pub(super) async fn check_content(
    reader: &SSTableReader,
    quick: bool,
    watch: &mut dyn FnMut(u64, u64),
    report: &mut VerifyReport,
) -> Result<()> {
    if let Err(error) = reader.0.data.check_all_chunks().await {
        // Data with wrong checksums is not worth reading.
        return report.take_error(error);
    }
    if quick {
        return Ok(());
    }
    let stream = DataStream::sequential(reader.0.data.clone(), 0);
    let mut source = RowSource::new(stream, reader.decoder(&ColumnSelection::All));
    let mut collector = StatisticsCollector::new(source.comparator().clone());
    let name = reader.descriptor().name_in_errors(&Component::Data);
    let table = reader.table();
    let mut keys = KeyCheck::new(reader, &name);
    let mut index = IndexCheck::begin(reader).await;
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
        keys.check(&key, position, report);
        if !index.check(&key, position, report)? {
            return Ok(());
        }
        index.advance().await;
        keys.last = Some(key);
        espalier_runtime::maybe_yield().await;
    }
    index.check_end(report)?;
    keys.check_end(report);
    check_statistics(reader, collector, report).await;
    Ok(())
}

/// Compares the keys in Data.db with each other, with the filter and with the last key of the
/// index, and their number with Statistics.db.
struct KeyCheck<'a> {
    reader: &'a SSTableReader,
    /// The name of Data.db.
    name: &'a FileName,
    last: Option<DecoratedKey>,
    /// The filter, built again from the keys.
    rebuilt: Option<BloomFilter>,
}

impl<'a> KeyCheck<'a> {
    fn new(reader: &'a SSTableReader, name: &'a FileName) -> Self {
        let rebuilt = reader.bloom_filter().map(BloomFilter::emptied);
        Self { reader, name, last: None, rebuilt }
    }

    fn check(&mut self, key: &DecoratedKey, position: u64, report: &mut VerifyReport) {
        if self.last.as_ref().is_some_and(|last| last >= key) {
            report.fail(self.name, position, "a partition is out of key order");
        }
        if let Some(filter) = self.reader.bloom_filter() {
            report.check(
                filter.may_contain(&key.key),
                self.name,
                position,
                "the filter does not have this partition's key",
            );
        }
        if let Some(rebuilt) = &mut self.rebuilt {
            rebuilt.add(&key.key);
        }
    }

    fn check_end(&self, report: &mut VerifyReport) {
        let (reader, end) = (self.reader, self.reader.data_length());
        report.check(
            self.last.as_ref() == Some(reader.last_key()),
            self.name,
            end,
            "the last partition is not the one that the index names",
        );
        report.check(
            report.partitions == reader.partition_count(),
            self.name,
            end,
            "the number of partitions is not that of Statistics.db",
        );
        if self.rebuilt.as_ref() != reader.bloom_filter() {
            let what = "its bits are not those that its size and the keys give";
            let name = reader.descriptor().name_in_errors(&Component::Filter);
            report.add(Severity::Warning, &name, format_args!("{name}: {what}"));
        }
    }
}

/// Compares the entries of the index with the partitions in Data.db.
struct IndexCheck<'a> {
    name: FileName,
    entries: IndexEntries<'a>,
    /// The entry that should lead to the next partition.
    next: Result<Option<(u64, Option<DecoratedKey>)>>,
}

impl<'a> IndexCheck<'a> {
    async fn begin(reader: &'a SSTableReader) -> Self {
        let name = reader.0.index.name().clone();
        let mut entries = reader.index_entries(Caching::Shared);
        let next = entries.next().await;
        Self { name, entries, next }
    }

    async fn advance(&mut self) {
        self.next = self.entries.next().await;
    }

    /// Checks that the next entry leads to the partition at `position`. Returns `false` if the rest
    /// of the index cannot be read.
    fn check(
        &mut self,
        key: &DecoratedKey,
        position: u64,
        report: &mut VerifyReport,
    ) -> Result<bool> {
        let name = &self.name;
        match std::mem::replace(&mut self.next, Ok(None)) {
            // An entry of a trie may have no key. `check_partition` has looked up `key` already.
            Ok(Some((at, indexed)))
                if at == position && indexed.as_ref().is_none_or(|indexed| indexed == key) => {}
            Ok(Some(_)) => report.fail(name, 0, format_args!("it leads past {position}")),
            Ok(None) => report.fail(name, 0, format_args!("it ends before {position}")),
            Err(error) => {
                report.take_error(error)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_end(self, report: &mut VerifyReport) -> Result<()> {
        match self.next {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                report.fail(&self.name, 0, "it has more keys than there are partitions");
                Ok(())
            }
            Err(error) => report.take_error(error),
        }
    }
}

/// Reports a damaged Summary.db, because the reader rebuilds it silently if it finds damage
/// when it opens the file or at a look-up.
pub(super) fn check_summary(reader: &SSTableReader, report: &mut VerifyReport) -> Result<()> {
    match &reader.0.index {
        Index::Big(index) => match index.summary_fault().flatten() {
            Some(error) => report.take_error(error.clone()),
            None => Ok(()),
        },
        Index::Trie(_) => Ok(()),
    }
}

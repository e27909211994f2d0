//! Writes the outputs of a compaction, one SSTable after another. The name of each output is
//! reserved, then recorded in the transaction, and then its files are created.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{
    LogPosition, NO_DELETION_TIME, PartitionHeader, Row, Token, Unfiltered,
    encoding::baselines::LocalDeletionTimes, joined_intervals, schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, log_limit::LogLimit};
use espalier_sstable::{
    EncodingStats, PresentColumns, SSTable, SSTableWriter, WrittenSSTable,
    components::reserve_name, set_commit_log_facts, versions::SpecialData,
};

use crate::{
    CompactionContext, CompactionError, Transaction, index_entries::IndexBuilders, strategy::Split,
};

/// Number of the latest commit log intervals that an output keeps even if their segments have no
/// files. Only a safeguard (arbitrary): the log counts a removed segment until the removal is
/// durable.
const KEPT_INTERVALS: usize = 256;

thread_local! {
    /// Limits the log lines about shortened TTLs to ten a minute on each shard (arbitrary).
    static SHORTENED_TTLS: LogLimit = const { LogLimit::at_most(10) };
}

/// The outputs of a compaction so far.
pub(crate) struct Outputs<'a> {
    context: &'a CompactionContext,
    metadata: Arc<TableMetadata>,
    template: Template,
    split: Split,
    transaction: Transaction,
    /// The output that is being written, boxed because it is large and this type is moved.
    current: Option<Box<Output>>,
    written: Vec<WrittenSSTable>,
}

/// An output that is being written, with the entries of its rows.
pub(crate) struct Output {
    pub(crate) writer: SSTableWriter,
    pub(crate) indexes: IndexBuilders,
    file_system: FileSystem,
    metadata: Arc<TableMetadata>,
}

impl Output {
    /// Begins a partition, whose static row has entries, too.
    pub(crate) async fn start_partition(
        &mut self,
        header: PartitionHeader,
    ) -> Result<(), CompactionError> {
        self.indexes.start_partition(&header);
        if let Some(row) = &header.static_row {
            self.indexes.add(&self.metadata, row, true)?;
            self.add_if_large(row, true).await?;
        }
        Ok(self.writer.start_partition(header)?)
    }

    /// Adds a fragment, except for the entries of a large row. The caller must call
    /// [`Self::make_room`] next.
    pub(crate) fn put(&mut self, fragment: Unfiltered) -> Result<(), CompactionError> {
        if let Unfiltered::Row(row) = &fragment {
            self.indexes.add(&self.metadata, row, false)?;
        }
        Ok(self.writer.put(fragment)?)
    }

    /// Returns whether a fragment is a row whose entries [`Self::add_large`] must add before
    /// [`Self::put`].
    #[inline]
    pub(crate) fn is_large(&self, fragment: &Unfiltered) -> bool {
        matches!(fragment, Unfiltered::Row(row) if self.indexes.is_large(row, false))
    }

    /// Adds the entries of a large row in steps.
    pub(crate) async fn add_large(&mut self, fragment: &Unfiltered) -> Result<(), CompactionError> {
        match fragment {
            Unfiltered::Row(row) => self.add_if_large(row, false).await,
            Unfiltered::Marker(_) => Ok(()),
        }
    }

    async fn add_if_large(&mut self, row: &Row, is_static: bool) -> Result<(), CompactionError> {
        if !self.indexes.is_large(row, is_static) {
            return Ok(());
        }
        let files = (&self.file_system, &self.writer);
        Box::pin(self.indexes.add_large(&self.metadata, row, is_static, files)).await
    }

    /// Writes buffered bytes once they are many.
    pub(crate) async fn make_room(&mut self) -> Result<(), CompactionError> {
        if self.indexes.wants_room() {
            // Boxed, because its future is large, and each call would copy it.
            Box::pin(self.indexes.make_room(&self.file_system, &self.writer)).await?;
        }
        Ok(self.writer.make_room().await?)
    }
}

/// The properties that all outputs share.
struct Template {
    columns: PresentColumns,
    encoding_stats: EncodingStats,
    /// Partitions of all inputs per byte of Data.db before compression.
    partitions_per_byte: f64,
    plain_bytes: u64,
    /// Stored bytes of Data.db per byte before compression.
    compression_ratio: f64,
    special: SpecialData,
    level: u32,
    repaired_at: i64,
    intervals: Vec<(LogPosition, LogPosition)>,
}

impl<'a> Outputs<'a> {
    pub(crate) fn new(
        context: &'a CompactionContext,
        metadata: &Arc<TableMetadata>,
        // The inputs to read, and all inputs to remove.
        (read, all): (&[Rc<SSTable>], &[Rc<SSTable>]),
        (level, split): (u32, Split),
        // The second up to which cells have expired.
        now_s: u32,
        transaction: Transaction,
    ) -> Self {
        Self {
            context,
            metadata: metadata.clone(),
            template: Template::of(context, metadata, (read, all), level, now_s),
            split,
            transaction,
            current: None,
            written: Vec::new(),
        }
    }

    /// Returns the current output, if a partition with this token belongs to it.
    #[inline]
    pub(crate) fn current(&mut self, token: Token) -> Option<&mut Output> {
        let output = self.current.as_deref_mut()?;
        let is_full = match &self.split {
            Split::Never => false,
            Split::Bytes(bytes) => {
                let writer = &output.writer;
                let stored = writer.data_length() as f64 * self.template.compression_ratio;
                stored >= *bytes as f64 && writer.partition_count() > 0
            }
            Split::Tokens(ends) => ends.first().is_some_and(|end| *end < token.0),
        };
        (!is_full).then_some(output)
    }

    /// Seals the current output, if there is one, and begins the output to which a partition with
    /// this token belongs.
    pub(crate) async fn begin_for(&mut self, token: Token) -> Result<&mut Output, CompactionError> {
        self.seal().await?;
        if let Split::Tokens(ends) = &mut self.split {
            ends.drain(..ends.partition_point(|end| *end < token.0));
        }
        let output = Box::new(self.create().await?);
        Ok(self.current.insert(output))
    }

    async fn create(&mut self) -> Result<Output, CompactionError> {
        let (context, template) = (self.context, &self.template);
        let mut options = context.outputs.next(&self.metadata, template.special).await?;
        options.columns = template.columns.clone();
        options.encoding_stats = template.encoding_stats;
        let bytes = match self.split {
            Split::Bytes(stored) => stored as f64 / template.compression_ratio.max(0.01),
            Split::Tokens(ref ends) => template.plain_bytes as f64 / (ends.len() + 1) as f64,
            Split::Never => template.plain_bytes as f64,
        };
        let partitions = bytes.min(template.plain_bytes as f64) * template.partitions_per_byte;
        options.estimated_partitions = (partitions.ceil() as u64).max(1);
        options.facts.level = template.level;
        options.facts.repaired_at = template.repaired_at;
        if !template.intervals.is_empty() {
            set_commit_log_facts(&mut options.facts, &template.intervals, context.host);
        }
        // The log may name only files that this compaction makes, because recovery removes them. So
        // the name is reserved first: an operator may have copied files under it into the directory
        // since it was chosen.
        reserve_name(&context.file_system, &options.descriptor).await?;
        self.transaction.add(&options.descriptor).await?;
        Ok(Output {
            writer: SSTableWriter::create_reserved(&context.file_system, options).await?,
            indexes: IndexBuilders::new(&self.metadata, &context.vector_limits),
            file_system: context.file_system.clone(),
            metadata: self.metadata.clone(),
        })
    }

    /// Finishes the output that is being written, which includes building the graphs of its
    /// vectors.
    pub(crate) async fn seal(&mut self) -> Result<(), CompactionError> {
        if let Some(output) = self.current.take() {
            let Output { mut writer, indexes, file_system, .. } = *output;
            indexes.finish(&file_system, &mut writer).await?;
            self.written.extend(writer.finish().await?);
            // The table's compression may differ from that of the inputs.
            let lengths = self.written.iter().map(|its| (its.stored_length, its.data_length));
            let (stored, plain) = lengths.fold((0, 0), |all, its| (all.0 + its.0, all.1 + its.1));
            if plain > 0 {
                self.template.compression_ratio = stored as f64 / plain as f64;
            }
        }
        Ok(())
    }

    /// Seals the last output if it is not sealed. Returns all outputs with data, the transaction,
    /// which is not committed yet, and the intervals of the commit log that no output can carry.
    pub(crate) async fn finish(
        mut self,
        // True if the outputs lack only dead data. If they lack live data, the commit log may still
        // have to supply that data.
        has_left_out_dead_only: bool,
    ) -> (Result<Vec<WrittenSSTable>, CompactionError>, Transaction, Vec<(LogPosition, LogPosition)>)
    {
        let sealed = self.seal().await;
        let is_discarded = self.written.is_empty() && has_left_out_dead_only;
        let discarded = if is_discarded { self.template.intervals } else { Vec::new() };
        (sealed.map(|()| self.written), self.transaction, discarded)
    }

    /// Abandons the outputs. The caller aborts the returned transaction, which removes their files.
    pub(crate) fn give_up(self) -> Transaction {
        self.transaction
    }
}

impl Template {
    fn of(
        context: &CompactionContext,
        metadata: &TableMetadata,
        (inputs, all): (&[Rc<SSTable>], &[Rc<SSTable>]),
        level: u32,
        now_s: u32,
    ) -> Self {
        let mut columns = PresentColumns::none();
        let mut encoding_stats = EncodingStats::default();
        let (mut partitions, mut plain_bytes, mut stored_bytes) = (0u64, 0u64, 0u64);
        for input in inputs {
            let reader = input.reader();
            let header = &reader.statistics().header;
            columns.add_header(header, metadata);
            let mut stats = header.encoding_stats();
            stats.cover_writes_of_expired(reader.statistics().stats.max_ttl, now_s);
            encoding_stats.merge(&stats);
            partitions += reader.partition_count();
            plain_bytes += reader.data_length();
            stored_bytes += reader.stored_data_length();
        }
        let repaired = inputs.iter().map(|input| input.reader().statistics().stats.repaired_at);
        // Include the inputs that expired as a whole: their writes must not reappear from the log.
        let intervals =
            all.iter().flat_map(|input| input.commit_log_intervals(context.host)).collect();
        let per = |count: u64| count as f64 / plain_bytes.max(1) as f64;
        Self {
            columns,
            encoding_stats,
            partitions_per_byte: per(partitions),
            plain_bytes,
            compression_ratio: per(stored_bytes),
            special: special_data(context, inputs, now_s),
            level,
            // An output is repaired only if all its inputs are.
            repaired_at: repaired.min().unwrap_or(0),
            intervals: joined_intervals(intervals, context.oldest_segment, KEPT_INTERVALS),
        }
    }
}

/// Returns the data of the inputs for which the outputs may need another version than the table's.
///
/// No version can store both late expiries and deletions at negative timestamps. If the inputs may
/// have both, the outputs keep the table's version. If its seconds are signed, the outputs shorten
/// the TTLs; if they are unsigned, the writer refuses the deletion, and the compaction fails.
fn special_data(context: &CompactionContext, inputs: &[Rc<SSTable>], now_s: u32) -> SpecialData {
    let has_late_expiry = inputs.iter().any(|input| may_expire_late(input, now_s));
    let has_negative_deletion = inputs.iter().any(may_delete_at_negative_timestamps);
    match (has_late_expiry, has_negative_deletion) {
        (false, false) => return SpecialData::None,
        (false, true) => return SpecialData::NegativeDeletions,
        (true, false) => return SpecialData::LateExpiries,
        (true, true) => {}
    }
    let signed = LocalDeletionTimes::Signed;
    if context.version.features().is_some_and(|its| its.local_deletion_times == signed)
        && let Some(left_out) = SHORTENED_TTLS.with(|limit| limit.due("shortened TTLs"))
    {
        tracing::warn!(
            table = context.metadata.name,
            left_out,
            "compaction may shorten TTLs to January 2038: inputs may have rows that expire \
            later, and deletions at negative timestamps"
        );
    }
    SpecialData::None
}

/// Returns whether an input may have deletions of partitions or ranges at negative timestamps. A
/// file without deletions and expiries has none.
fn may_delete_at_negative_timestamps(input: &Rc<SSTable>) -> bool {
    input.minimum_timestamp() < 0
        && input.reader().statistics().stats.min_local_deletion_time != NO_DELETION_TIME
        && input.reader().features().has_room_for_negative_deletions()
}

/// Returns whether an input with unsigned seconds may have data that expires later than the
/// versions with signed seconds can store.
fn may_expire_late(input: &Rc<SSTable>, now_s: u32) -> bool {
    let latest = LocalDeletionTimes::Signed.maximum();
    let max_ttl = input.reader().statistics().stats.max_ttl;
    input.reader().features().local_deletion_times == LocalDeletionTimes::Unsigned
        && input.maximum_local_deletion_time() > latest
        && now_s.saturating_add(max_ttl) > latest
}

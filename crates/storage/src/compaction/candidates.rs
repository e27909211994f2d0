//! The candidates of a table for compactions: its files on this shard, and the metadata by which
//! the strategy chooses among them.

use std::rc::Rc;

use espalier_compaction::strategy::{CompactionCandidates, CompactionStrategy, SSTableInfo, Split};
use espalier_mutation::purge::PurgeLimits;
use espalier_runtime::time;
use espalier_sstable::{Droppable, SSTable, SSTableSet};

use crate::{ShardStore, table::Table};

/// The compaction candidates of a table on this shard, with the metadata that the strategy gets.
pub(crate) struct TableCandidates {
    pub(crate) idle: Vec<Rc<SSTable>>,
    idle_info: Vec<SSTableInfo>,
    busy_info: Vec<SSTableInfo>,
    suspect_info: Vec<SSTableInfo>,
    tokens: (i64, i64),
    shards: usize,
    flush_bytes: u64,
}

impl TableCandidates {
    pub(crate) fn facts(&self) -> CompactionCandidates<'_> {
        CompactionCandidates {
            idle: &self.idle_info,
            busy: &self.busy_info,
            left_out: &self.suspect_info,
            tokens: self.tokens,
            shards: self.shards,
            flush_bytes: self.flush_bytes,
            now_s: u64::try_from(time::now_seconds()).unwrap_or(0),
        }
    }

    /// Moves suspect files out of `idle`. A suspect file has made a compaction fail.
    pub(crate) fn without_suspects(mut self) -> Self {
        let idle = std::mem::take(&mut self.idle).into_iter();
        for (sstable, facts) in idle.zip(std::mem::take(&mut self.idle_info)) {
            if sstable.is_suspect() {
                self.suspect_info.push(facts);
            } else {
                self.idle.push(sstable);
                self.idle_info.push(facts);
            }
        }
        self
    }

    /// Returns the output level and split of a compaction that merges some of the idle files into
    /// one run.
    pub(crate) fn one_run(
        &self,
        strategy: &CompactionStrategy,
        inputs: &[Rc<SSTable>],
    ) -> (u32, Split) {
        let inputs = SSTableSet::of(inputs);
        let files = (0..self.idle.len()).filter(|index| inputs.has(&self.idle[*index])).collect();
        let pick = strategy.one_run(&self.facts(), files);
        (pick.level, pick.split)
    }
}

/// Returns the tokens of a table that this shard owns.
pub(super) fn tokens_of(store: &ShardStore, table: &Table) -> (i64, i64) {
    if table.is_schema() { (i64::MIN, i64::MAX) } else { store.routing.own_tokens() }
}

/// Collects the candidates of a table. Files that span several shards are excluded until they are
/// split.
pub(crate) fn candidates_of(store: &ShardStore, table: &Rc<Table>) -> TableCandidates {
    let view = table.view();
    let tokens = tokens_of(store, table);
    let limits = PurgeLimits::at(&table.metadata(), time::now_seconds());
    let mut candidates = TableCandidates {
        idle: Vec::new(),
        idle_info: Vec::new(),
        busy_info: Vec::new(),
        suspect_info: Vec::new(),
        tokens,
        shards: if table.is_schema() { 1 } else { store.shard().count },
        flush_bytes: table.flushes.mean_bytes(),
    };
    for sstable in view.sstables.iter().filter(|sstable| is_inside(sstable, tokens)) {
        let facts = info_of(sstable, limits.gc_before_s);
        if table.compactions.is_busy(sstable) {
            candidates.busy_info.push(facts);
        } else {
            candidates.idle.push(sstable.clone());
            candidates.idle_info.push(facts);
        }
    }
    candidates
}

pub(super) fn is_inside(sstable: &SSTable, tokens: (i64, i64)) -> bool {
    let (first, last) = sstable.tokens();
    tokens.0 <= first && last <= tokens.1
}

fn info_of(sstable: &SSTable, gc_before_s: u32) -> SSTableInfo {
    let (first_token, last_token) = sstable.tokens();
    let Droppable { cells, ratio, row_deletions, partition_deletions } =
        sstable.droppable(gc_before_s);
    SSTableInfo {
        number: sstable.number(),
        bytes: sstable.reader().stored_data_length(),
        plain_bytes: sstable.reader().data_length(),
        level: sstable.level(),
        first_token,
        last_token,
        minimum_timestamp: sstable.minimum_timestamp(),
        maximum_timestamp: sstable.maximum_timestamp(),
        cells,
        droppable_ratio: ratio,
        row_deletions,
        partition_deletions,
        rows: sstable.row_count(),
        partitions: sstable.reader().partition_count().max(1),
        age_s: sstable.age_s(),
    }
}

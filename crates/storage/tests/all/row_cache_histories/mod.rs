//! Random histories of random tables. Whatever is written, flushed, compacted, evicted,
//! invalidated, truncated or altered, each read through the cache, with any number of concurrent
//! readers, returns the result of a read around the cache.
//!
//! The state of a partition after each write is read around the cache at once (`states`). A model
//! of the writes must agree with this state; counters have no model. A page that is read during
//! writes must show each of its partitions as a whole, before or after one of these writes.
//!
//! Where tombstones may be purged, the writer raises its floor of timestamps before each write, so
//! that the write is newer than all deletions. A purged deletion does not cover an older write any
//! more, and reads may differ by whether it was purged in files, in the cache (rule 17 of
//! docs/cache.md) or in neither.

mod reader;
mod schema;
mod states;

use std::{cell::RefCell, collections::VecDeque, rc::Rc, sync::Arc};

use espalier_mutation::{
    DecoratedKey, DeletionTime, KeyRange, Mutation, PartitionUpdate,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::{
    file::FileSystem, preempt, random::Generator, spawn_local, task::JoinHandle, time,
};
use espalier_storage::{
    Node, PartitionRows, ReadCommand, ReadTarget, RowCacheMetrics, StorageError,
};

use self::states::{Page, States};
use crate::{
    looks::compare_look,
    model::{Model, Writer, forget_liveness},
    row_cache::{number_from_environment, settings},
    support::{values::partition_key, *},
};

/// Versions of SSTables; each history writes one.
const VERSIONS: [&str; 5] = ["da", "oa", "nb", "me", "mt"];

/// Values of the last clustering column in a partition so long that reading it takes as long as a
/// flush.
const LONG: u64 = 200;

/// Maximum number of concurrent readers.
const MAX_READERS: usize = 5;

/// Counts of what a history met, so that the test can check that it tests something.
#[derive(Debug, Default)]
pub(crate) struct Met {
    cache: RowCacheMetrics,
    counter_tables: usize,
    looks_answered: usize,
    pages: usize,
    /// Partitions in pages that started before the end of a write, so that the pages may or may not
    /// show the write.
    of_several_states: usize,
    pages_while_altered: usize,
    alterations: usize,
    truncations: usize,
    compared_with_model: usize,
}

struct History {
    database: Node,
    table: Arc<TableMetadata>,
    writer: Writer,
    /// `None` for counters, which the model does not support.
    model: Option<Model>,
    states: Rc<RefCell<States>>,
    purges: bool,
    partitions: u64,
    spread: u64,
    cache_bytes: usize,
    readers: VecDeque<JoinHandle<Vec<Page>>>,
    /// Flushes, compactions and invalidation that run beside the next steps.
    working: VecDeque<JoinHandle<Result<(), StorageError>>>,
    context: String,
    met: Met,
}

/// Runs `steps` steps of the history with this seed.
pub(crate) fn check(seed: u64, steps: u64) -> Met {
    let file_system = FileSystem::simulated(seed);
    let mut random = Generator::from_seed(seed);
    let purges = random.below(3) == 0;
    let definition = schema::table(&mut random, purges);
    println!("seed {seed} {}", schema::describe(&definition));
    let mut writer = Writer::new(seed);
    writer.ttl_s = 10_000;
    // Purges depend on the clock. Nothing expires during the history. Old versions of SSTables
    // cannot store seconds after 2038.
    writer.now_s =
        if purges { u32::try_from(time::now_seconds()).unwrap() - 3 } else { NOW + 400_000_000 };
    let (partitions, spread) = match definition.clustering_columns().len() {
        0 => (2 + random.below(60), 1),
        1 if random.below(4) == 0 => (1, LONG),
        _ => (1 + random.below(4), [3, 6, 12, 40][random.below(4) as usize]),
    };
    let cache_bytes = [1 << 20, 1 << 20, 3 << 10, 8 << 10][random.below(4) as usize];
    run(async {
        preempt::force_yields(Some(seed));
        let mut settings = settings(cache_bytes);
        settings.sstables.column_index_bytes = (random.below(2) == 0).then_some(64);
        settings.autocompaction = random.below(2) == 0;
        settings.sstables.format = VERSIONS[random.below(5) as usize].into();
        let database = open(&file_system, settings).await.unwrap();
        create(&database, vec![definition]).await;
        let table = table(&database, "random");
        let keys = (0..partitions).map(|number| partition_key(&table, number));
        let states = Rc::new(RefCell::new(States::new(keys)));
        let now_s = writer.now_s;
        let mut history = History {
            database,
            writer,
            model: (!table.is_counter()).then(|| Model { now_s, ..Model::default() }),
            states,
            purges,
            partitions,
            spread,
            cache_bytes,
            readers: VecDeque::new(),
            working: VecDeque::new(),
            context: String::new(),
            met: Met { counter_tables: usize::from(table.is_counter()), ..Met::default() },
            table,
        };
        for step in 0..steps {
            history.context = format!("seed {seed} step {step}");
            history.step().await;
        }
        history.end_readers().await;
        while !history.working.is_empty() {
            history.end_work().await;
        }
        preempt::force_yields(None);
        let metrics = history.database.store().row_cache().metrics();
        // The last insertion may have split nodes, or a flush may have made a row longer.
        assert!(metrics.used_bytes <= cache_bytes as u64 + 512, "{metrics:?}");
        history.met.cache = metrics;
        history.met
    })
}

impl History {
    async fn step(&mut self) {
        let database = self.database.clone();
        match self.writer.below(48) {
            0 => self.work(async move { database.flush("ks", None).await }).await,
            1 if self.writer.below(3) == 0 => {
                self.work(async move { database.compactions().compact("ks", None, false).await })
                    .await;
            }
            2 => match self.writer.below(24) {
                0 => self.truncate().await,
                1..4 => self.alter().await,
                4 => database.drop_caches().await,
                5 | 6 => {
                    let forget = async move {
                        database.forget_cached_rows().await;
                        Ok(())
                    };
                    self.work(forget).await;
                }
                _ => {}
            },
            3 => {
                // The clock hand evicts the oldest entries.
                let used = database.store().row_cache().metrics().used_bytes as usize;
                let least = used * self.writer.below(100) as usize / 100;
                database.store().row_cache().set_limit(least);
                database.store().row_cache().set_limit(self.cache_bytes);
            }
            4..10 => self.look().await,
            10..16 => self.compare().await,
            16..26 => self.begin_to_read().await,
            26 if self.writer.below(2) == 0 => self.end_readers().await,
            _ => self.write().await,
        }
        for _ in 0..self.writer.below(3) {
            preempt::yield_now().await;
        }
    }

    async fn work(&mut self, work: impl Future<Output = Result<(), StorageError>> + 'static) {
        self.working.push_back(spawn_local(work));
        if self.working.len() > 2 {
            self.end_work().await;
        }
    }

    async fn end_work(&mut self) {
        match self.working.pop_front().unwrap().await {
            // A later compaction or TRUNCATE may stop a compaction.
            Ok(()) | Err(StorageError::CompactionStopped(_)) => {}
            Err(error) => panic!("{} {error}", self.context),
        }
    }

    async fn look(&mut self) {
        let key = partition_key(&self.table, self.writer.below(self.partitions));
        let row = self.writer.clustering(&self.table, self.spread);
        let now_s = self.writer.now_s;
        let look = compare_look(&self.database, &self.table, key, row, now_s, &self.context);
        self.met.looks_answered += usize::from(look.await);
    }

    fn command(&mut self) -> ReadCommand {
        self.writer.command(&self.table, self.partitions, self.spread)
    }

    /// Reads page after page; each must equal the read around the cache.
    async fn compare(&mut self) {
        let mut command = self.command();
        for _ in 0..reader::MAX_PAGES {
            reader::limit(&mut command, &mut self.writer.random);
            let around = ReadCommand { bypass_cache: true, ..command.clone() };
            let mut expected = self.database.read(around).await.unwrap();
            let mut got = self.database.read(command.clone()).await.unwrap();
            // The cache leaves out what is dead, so a read through it drops less.
            (expected.dropped, got.dropped) = (0, 0);
            forget_liveness(&mut expected.partitions);
            forget_liveness(&mut got.partitions);
            assert_eq!(got, expected, "{} {command:?}", self.context);
            match got.next {
                Some(next) => command.resume = Some(next),
                None => return,
            }
        }
    }

    async fn begin_to_read(&mut self) {
        if self.readers.len() == MAX_READERS {
            self.end_reader().await;
        }
        let (command, seed) = (self.command(), self.writer.below(u64::MAX));
        let walk = reader::walk(self.database.clone(), self.states.clone(), command, seed);
        self.readers.push_back(spawn_local(walk));
    }

    async fn end_reader(&mut self) {
        let Some(reader) = self.readers.pop_front() else { return };
        let pages = reader.await;
        self.met.pages += pages.len();
        self.met.pages_while_altered += pages.iter().filter(|page| page.is_altered()).count();
        self.met.of_several_states += self.states.borrow().judge(&pages, &self.context);
    }

    async fn end_readers(&mut self) {
        while !self.readers.is_empty() {
            self.end_reader().await;
        }
        self.states.borrow_mut().forget_old();
    }

    /// Reads the whole partition, around the cache.
    async fn read_around(&self, key: &DecoratedKey) -> Option<PartitionRows> {
        let mut command = command(&self.table, ReadTarget::Partition(key.clone()));
        command.bypass_cache = true;
        command.now_s = self.writer.now_s;
        let mut found = self.database.read(command).await.unwrap().partitions;
        forget_liveness(&mut found);
        found.pop()
    }

    fn update(&mut self) -> PartitionUpdate {
        let mut update = self.writer.update(&self.table, self.partitions, self.spread);
        if self.spread == LONG && self.writer.below(4) == 0 {
            for _ in 0..20 {
                let more = self.writer.update(&self.table, self.partitions, self.spread);
                update.rows.extend(more.rows);
            }
        }
        // An update of counters has either deletions or additions, because the order of the two in
        // one update has no effect.
        if self.table.is_counter() {
            match self.writer.below(3) {
                0 => {
                    update.rows.clear();
                    update.static_row = None;
                }
                _ => {
                    update.deletion = DeletionTime::LIVE;
                    update.range_tombstones.clear();
                }
            }
        }
        update
    }

    async fn write(&mut self) {
        // Counters apply changes in the order in which they are made, and deletions are among these
        // changes.
        if self.purges || self.table.is_counter() {
            self.writer.raise_floor();
        }
        let mut updates = vec![self.update()];
        if self.writer.below(8) == 0 && !self.table.is_counter() {
            let other = self.update();
            if other.key != updates[0].key {
                updates.push(other);
            }
        }
        updates.retain(|update| !update.is_empty());
        if updates.is_empty() {
            return;
        }
        let keys: Vec<_> = updates.iter().map(|update| update.key.clone()).collect();
        keys.iter().for_each(|key| self.states.borrow_mut().begin(key));
        match &mut self.model {
            Some(model) => {
                model.writes.extend(updates.iter().cloned());
                self.database.apply(Mutation { updates }).await.unwrap();
            }
            None => self.database.apply_counters(updates.remove(0)).await.unwrap(),
        }
        self.end_write(&keys).await;
    }

    async fn end_write(&mut self, keys: &[DecoratedKey]) {
        for key in keys {
            let state = self.read_around(key).await;
            // The model evaluates all writes for each row.
            let one_of = if self.spread == LONG { 64 } else { 8 };
            if self.writer.below(one_of) == 0
                && let Some(model) = &self.model
            {
                let mut command = command(&self.table, ReadTarget::Partition(key.clone()));
                command.now_s = self.writer.now_s;
                let mut expected = model.read(&command);
                forget_liveness(&mut expected);
                assert_eq!(state.as_slice(), expected, "{} {key:?}", self.context);
                self.met.compared_with_model += 1;
            }
            self.states.borrow_mut().end(key, state);
        }
    }

    async fn truncate(&mut self) {
        self.met.truncations += 1;
        let keys = self.states.borrow().keys();
        keys.iter().for_each(|key| self.states.borrow_mut().begin(key));
        self.database.truncate(self.table.id).await.unwrap();
        if let Some(model) = &mut self.model {
            model.writes.clear();
        }
        let all = ReadCommand {
            bypass_cache: true,
            ..command(&self.table, ReadTarget::Range(KeyRange::full()))
        };
        assert_eq!(self.database.read(all).await.unwrap().partitions, [], "{}", self.context);
        self.end_write(&keys).await;
    }

    /// Installs a new version of the table, while readers of the old one are under way.
    async fn alter(&mut self) {
        self.met.alterations += 1;
        // All earlier writes to a column are older than its drop, and all later writes are newer.
        self.writer.raise_floor();
        let altered = schema::altered(&mut self.writer.random, &self.table, self.writer.floor);
        self.states.borrow_mut().begin_change();
        let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
            Ok(Some(with_tables(schema, vec![altered])))
        };
        assert!(self.database.change_schema(change).await.unwrap().unwrap());
        self.table = table(&self.database, "random");
        if let Some(model) = &mut self.model {
            let rows = model.writes.iter_mut();
            let rows = rows.flat_map(|update| update.rows.iter_mut().chain(&mut update.static_row));
            for row in rows {
                row.columns.retain(|(id, _)| self.table.column_by_id(*id).is_some());
            }
        }
        let keys = self.states.borrow().keys();
        keys.iter().for_each(|key| self.states.borrow_mut().begin(key));
        self.end_write(&keys).await;
        self.states.borrow_mut().end_change();
    }
}

impl Met {
    pub(crate) fn add(&mut self, other: Met) {
        self.cache.add(&other.cache);
        self.counter_tables += other.counter_tables;
        self.looks_answered += other.looks_answered;
        self.pages += other.pages;
        self.of_several_states += other.of_several_states;
        self.pages_while_altered += other.pages_while_altered;
        self.alterations += other.alterations;
        self.truncations += other.truncations;
        self.compared_with_model += other.compared_with_model;
    }

    /// Asserts that the histories met every case.
    pub(crate) fn assert_all(&self) {
        let Met { cache, .. } = self;
        assert!(cache.reads_without_misses > 0 && cache.reads_with_misses > 0, "{self:?}");
        assert!(cache.row_evictions > 0 && cache.row_merges > 0, "{self:?}");
        assert!(cache.row_removals > 0, "{self:?}");
        let counts = [
            self.counter_tables,
            self.looks_answered,
            self.pages,
            self.of_several_states,
            self.pages_while_altered,
            self.alterations,
            self.truncations,
            self.compared_with_model,
        ];
        assert!(counts.iter().all(|count| *count > 0), "{self:?}");
    }
}

#[test]
fn reads_of_random_tables_are_those_without_the_cache() {
    let mut all = Met::default();
    for seed in espalier_testing::seeds(200) {
        all.add(check(seed, 300));
    }
    println!("{all:?}");
    if espalier_testing::runs_all() {
        all.assert_all();
    }
}

/// Runs the histories that the environment selects: `ESPALIER_SEED=12 ESPALIER_SEEDS=1
/// ESPALIER_STEPS=300`.
#[test]
#[ignore = "runs as long as the environment says"]
fn histories_of_the_configured_seeds_agree() {
    let first = number_from_environment("ESPALIER_SEED", 0);
    for seed in first..first + number_from_environment("ESPALIER_SEEDS", 100) {
        println!("{:?}", check(seed, number_from_environment("ESPALIER_STEPS", 300)));
    }
}

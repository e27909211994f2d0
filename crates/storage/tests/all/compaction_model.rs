//! Random histories of writes, deletions of every kind and TTLs, with steps of the clock, flushes,
//! compactions of random files, crashes and restarts. Reads return the content of a model that has
//! no files, compactions or crashes, and no deleted row comes back.

use std::{sync::Arc, time::Duration};

use espalier_mutation::{
    KeyRange, Mutation,
    schema::{TableMetadata, TableOptions},
};
use espalier_runtime::{file::FileSystem, spawn_local, time::ManualClock};
use espalier_storage::{CompactionKind, Node, ReadTarget, ScrubMode, SnapshotTable, TokenRange};

use crate::{
    model::{Model, Writer, compare_flat, forget_liveness, read_in_pages},
    support::*,
};

const VERSIONS: [&str; 5] = ["da", "oa", "nb", "me", "mt"];
const STRATEGIES: [&str; 4] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "UnifiedCompactionStrategy",
];

struct History {
    seed: u64,
    clock: ManualClock,
    model: Model,
    writer: Writer,
    partitions: u64,
    spread: u64,
}

impl History {
    /// Sets the time of the next read or write. The clock moves while a compaction waits for the
    /// disk, and the compaction then purges cells that have expired meanwhile.
    fn look_at_clock(&mut self) {
        let now_s = u32::try_from(self.clock.now_micros() / 1_000_000).unwrap();
        self.writer.now_s = now_s;
        self.model.now_s = now_s;
    }

    async fn read(&mut self, database: &Node, table: &Arc<TableMetadata>, step: u64) {
        self.look_at_clock();
        let command = self.writer.command(table, self.partitions, self.spread);
        let mut expected = self.model.read(&command);
        forget_liveness(&mut expected);
        let context = format!("seed {} step {step} {command:?}", self.seed);
        let mut got = database.read(command.clone()).await.unwrap().partitions;
        forget_liveness(&mut got);
        assert_eq!(got, expected, "{context}");
        let page = 1 + self.writer.below(4) as usize;
        let mut got = read_in_pages(database, command.clone(), page).await;
        forget_liveness(&mut got);
        assert_eq!(got, expected, "pages of {page}: {context}");
        compare_flat(database, &command, &expected, page, &context).await;
    }

    async fn read_all(&mut self, database: &Node, table: &Arc<TableMetadata>, step: u64) {
        self.look_at_clock();
        let mut command = command(table, ReadTarget::Range(KeyRange::full()));
        command.now_s = self.writer.now_s;
        let mut expected = self.model.read(&command);
        forget_liveness(&mut expected);
        let mut got = database.read(command).await.unwrap().partitions;
        forget_liveness(&mut got);
        assert_eq!(got, expected, "seed {} step {step}: everything", self.seed);
    }

    async fn write(&mut self, database: &Node, table: &Arc<TableMetadata>) {
        self.look_at_clock();
        let update = self.writer.update(table, self.partitions, self.spread);
        if !update.is_empty() {
            self.model.writes.push(update.clone());
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
    }

    async fn flush(&mut self, database: &Node) {
        self.writer.raise_floor();
        database.flush("ks", None).await.unwrap();
    }

    /// Compacts all files, some of them or a range of tokens, or upgrades or scrubs files, during
    /// reads and writes.
    async fn compact(
        &mut self,
        database: &Node,
        file_system: &FileSystem,
        table: &Arc<TableMetadata>,
        step: u64,
    ) {
        self.writer.raise_floor();
        let names = sstable_names(file_system, table).await;
        let kept = names.into_iter().filter(|_| self.writer.random.below(3) > 0).collect();
        let kind = self.writer.below(9);
        let mut token = || self.writer.random.next_u64() as i64;
        let range = TokenRange { after: token(), through: token() };
        let mode = [ScrubMode::Abort, ScrubMode::Skip, ScrubMode::Validate][step as usize % 3];
        let (other, name) = (database.clone(), table.name.clone());
        let compaction = spawn_local(async move {
            let ended = match kind {
                0 => other.compactions().compact("ks", Some(&name), true).await,
                2 => other.compactions().compact_range("ks", Some(&name), range, false).await,
                1 => other.compactions().upgrade_sstables("ks", Some(&name), false).await,
                3 => return scrub(&other, &name, mode).await,
                _ => other.compactions().compact_sstables("ks", &name, kept).await.map(|_| ()),
            };
            // Some steps stop the running compactions.
            done_or_stopped(ended);
        });
        for _ in 0..self.writer.below(4) {
            match self.writer.below(4) {
                0 => self.read(database, table, step).await,
                1 => self.flush(database).await,
                // This compaction flushes memtables too. It could purge a tombstone that is written
                // now, before an older write arrives.
                _ if kind == 0 => {}
                2 if self.writer.below(8) == 0 => {
                    database.compactions().stop(&CompactionKind::ALL).await
                }
                _ => self.write(database, table).await,
            }
        }
        compaction.await;
        self.read_all(database, table, step).await;
    }
}

/// Scrubs sound files, and checks that the scrub finds no damage.
async fn scrub(database: &Node, name: &str, mode: ScrubMode) {
    let tables =
        vec![SnapshotTable { id: table(database, name).id, describe: |_, _| String::new() }];
    let report = database.compactions().scrub(tables, mode, false).await.unwrap();
    assert_eq!((report.faults, report.left_out_partitions), (Vec::new(), 0), "{mode:?}");
}

fn table_of(definition: fn() -> TableMetadata, writer: &mut Writer) -> TableMetadata {
    let mut table = definition();
    let strategy = STRATEGIES[writer.below(4) as usize].to_owned();
    table.options = TableOptions {
        gc_grace_seconds: [0, 0, 4, 60][writer.below(4) as usize],
        compaction: [("class".to_owned(), strategy)].into(),
        ..TableOptions::default()
    };
    table
}

fn check(seed: u64, definition: fn() -> TableMetadata, partitions: u64, spread: u64, steps: u64) {
    let clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle();
    let _installed = clock.install();
    let mut file_system = FileSystem::simulated(seed);
    let (model, writer) = (Model::default(), Writer::new(seed));
    let mut history = History { seed, clock: clock.clone(), model, writer, partitions, spread };
    let mut is_created = false;
    for _ in 0..3 {
        run(async {
            espalier_runtime::preempt::force_yields(Some(seed));
            let mut configuration = configuration();
            configuration.autocompaction = history.writer.below(2) == 0;
            let version = VERSIONS[history.writer.below(VERSIONS.len() as u64) as usize];
            configuration.sstables.format = version.into();
            let database = open(&file_system, configuration).await.unwrap();
            if !is_created {
                create(&database, vec![table_of(definition, &mut history.writer)]).await;
                is_created = true;
            }
            let table = table(&database, &definition().name);
            for step in 0..steps {
                history.look_at_clock();
                match history.writer.below(14) {
                    0 => history.flush(&database).await,
                    1 => history.compact(&database, &file_system, &table, step).await,
                    2 => clock.advance(Duration::from_secs(history.writer.below(6))),
                    3..6 => history.read(&database, &table, step).await,
                    _ => history.write(&database, &table).await,
                }
            }
            history.read_all(&database, &table, steps).await;
            history.writer.raise_floor();
            if history.writer.below(2) == 0 {
                database.shutdown().await.unwrap();
            }
            espalier_runtime::preempt::force_yields(None);
        });
        let disk = file_system.simulated_disk().unwrap().clone();
        file_system = FileSystem::on(disk.crash(history.writer.random.next_u64()));
    }
}

#[test]
fn wide_partitions() {
    espalier_testing::seeds(30).for_each(|seed| check(seed, wide_table, 3, 6, 70));
}

#[test]
fn many_rows() {
    espalier_testing::seeds(4).for_each(|seed| check(1000 + seed, wide_table, 1, 200, 160));
}

#[test]
fn single_rows() {
    espalier_testing::seeds(30).for_each(|seed| check(2000 + seed, narrow_table, 12, 1, 70));
}

#[test]
fn clusterings_of_several_columns() {
    espalier_testing::seeds(30).for_each(|seed| check(3000 + seed, mixed_table, 2, 4, 70));
}

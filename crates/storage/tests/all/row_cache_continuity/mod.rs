//! A second model of the row cache, for its continuity alone: which places of a partition may be
//! continuous, and which must be.
//!
//! The model has no tries, entries or flags. A partition is a line of places, the rows and the gaps
//! between them, and the cache's continuity is a set of places, as the cache explains it. After
//! every step of a random history (the rules are those of docs/cache.md):
//!
//! - the continuous places are those from before and those requested since, no others (rules 2 and
//!   6);
//! - while there is room, places that were continuous stay so, and the places of a read are
//!   continuous (rules 4 to 6);
//! - an eviction may lose places, and adds none (rule 8); invalidation loses all (rule 10);
//! - a read of continuous places reads no file, and a read of other places does (rule 2);
//! - in each continuous range the cache holds the rows that the files have there, and a read of it,
//!   in both directions, returns the written content, according to a model of the writes alone
//!   (rules 2 and 11).

mod model;
mod places;

use std::collections::BTreeMap;

use espalier_mutation::schema::{TableBuilder, TableId, TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_types::CqlType;
use uuid::Uuid;

use self::{model::Continuity, places::Line};
use crate::{
    model::{Model, Writer},
    row_cache::{number_from_environment, settings},
    support::*,
};

#[derive(Clone, Copy)]
struct Shape {
    table: fn() -> TableMetadata,
    line: Line,
    partitions: u64,
    cache_bytes: usize,
    /// True if nothing is evicted except by a step of the model.
    has_room: bool,
}

/// Counts of what the steps met, so that a run that met nothing fails.
#[derive(Debug, Default)]
struct Seen {
    claims: u64,
    reads_with_misses: u64,
    reads_without_misses: u64,
    row_merges: u64,
    row_evictions: u64,
    /// Scans after which a second scan had to find the list of partitions in the cache.
    scans: u64,
}

fn check(seed: u64, shape: Shape, steps: u64, seen: &mut Seen) {
    let file_system = FileSystem::simulated(seed);
    let mut writer = Writer::new(seed);
    // Compactions depend on the clock; nothing has expired yet.
    writer.now_s = NOW + 1_000_000_000;
    let model = || Model { now_s: NOW + 1_000_000_000, ..Model::default() };
    run(async {
        espalier_runtime::preempt::force_yields(Some(seed));
        let mut settings = settings(shape.cache_bytes);
        // Skipped rows are not recorded as empty ranges.
        settings.min_dropped = u32::MAX;
        let database = open(&file_system, settings).await.unwrap();
        let definition = keeping_tombstones((shape.table)());
        let name = definition.name.clone();
        create(&database, vec![definition]).await;
        let mut continuity = Continuity {
            shape,
            table: table(&database, &name),
            database,
            writer,
            all: model(),
            files: model(),
            memory: Vec::new(),
            claims: BTreeMap::new(),
            flushing: None,
            has_files: false,
            scans: 0,
            context: String::new(),
        };
        for step in 0..steps {
            continuity.context = format!("seed {seed} step {step}");
            continuity.step().await;
            seen.claims += continuity.claims.len() as u64;
        }
        continuity.end_flush().await;
        for at in 0..shape.partitions {
            continuity.check_contents(at).await;
        }
        let metrics = continuity.database.store().row_cache().metrics();
        seen.reads_with_misses += metrics.reads_with_misses;
        seen.reads_without_misses += metrics.reads_without_misses;
        seen.scans += continuity.scans;
        seen.row_merges += metrics.row_merges;
        seen.row_evictions += metrics.row_evictions;
        espalier_runtime::preempt::force_yields(None);
    });
}

/// Returns a table with rows in descending order. A clustering value has several byte forms, so a
/// cached row stores its form beside its path.
fn reversed_table() -> TableMetadata {
    TableBuilder::new("ks", "reversed", TableId(Uuid::from_u128(0xaa)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Varint, true)
        .regular("v", CqlType::Blob)
        .build()
}

const fn shape(
    table: fn() -> TableMetadata,
    rows: u32,
    is_reversed: bool,
    partitions: u64,
) -> Shape {
    let line = Line { rows, is_reversed };
    Shape { table, line, partitions, cache_bytes: 1 << 20, has_room: true }
}

const WIDE: Shape = shape(wide_table, 12, false, 3);
const LONG: Shape = shape(wide_table, 60, false, 1);
const REVERSED: Shape = shape(reversed_table, 10, true, 2);
/// Partitions of one row: either continuous or not.
const NARROW: Shape = shape(narrow_table, 0, false, 20);

const fn without_room(shape: Shape, cache_bytes: usize) -> Shape {
    Shape { cache_bytes, has_room: false, ..shape }
}

/// Checks histories from seeds that begin `first` after the run's first seed. Only a full run
/// asserts that the rare events were met.
fn check_seeds(first: u64, seeds: u64, shape: Shape, steps: u64) {
    let mut seen = Seen::default();
    for seed in espalier_testing::seeds(seeds) {
        check(first + seed, shape, steps, &mut seen);
    }
    let Seen { claims, reads_with_misses, reads_without_misses, row_merges, row_evictions, scans } =
        seen;
    assert!(claims > espalier_testing::cases(seeds) * steps / 8, "{seen:?}");
    assert!(reads_with_misses > 0 && reads_without_misses > 0, "{seen:?}");
    if espalier_testing::runs_all() {
        assert!(scans > seeds / 2 || !shape.has_room, "{seen:?}");
        assert!(claims > seeds * steps / 4, "{seen:?}");
        assert!(row_merges > 0 && row_evictions > 0, "{seen:?}");
    }
}

#[test]
fn wide_partitions_are_claimed_as_far_as_they_are_known() {
    check_seeds(0, 20, WIDE, 400);
    check_seeds(50, 10, without_room(WIDE, 3 << 10), 400);
}

#[test]
fn long_partitions_are_claimed_as_far_as_they_are_known() {
    check_seeds(100, 8, LONG, 400);
    check_seeds(150, 4, without_room(LONG, 4 << 10), 400);
}

#[test]
fn reversed_partitions_are_claimed_as_far_as_they_are_known() {
    check_seeds(200, 10, REVERSED, 400);
    check_seeds(250, 5, without_room(REVERSED, 2 << 10), 400);
}

#[test]
fn partitions_of_one_row_are_claimed_or_not() {
    check_seeds(300, 5, NARROW, 400);
    check_seeds(350, 5, without_room(NARROW, 1 << 10), 400);
}

/// The long run: `ESPALIER_STEPS=1000000 cargo test -p espalier-storage --test all
/// row_cache_continuity::a_million -- --ignored --nocapture`.
#[test]
#[ignore = "runs as long as the environment says"]
fn a_million_steps() {
    let (steps, first) = (
        number_from_environment("ESPALIER_STEPS", 1_000_000),
        number_from_environment("ESPALIER_SEED", 0),
    );
    let shapes = [
        WIDE,
        without_room(WIDE, 3 << 10),
        LONG,
        without_room(LONG, 4 << 10),
        REVERSED,
        without_room(REVERSED, 2 << 10),
        NARROW,
        without_room(NARROW, 1 << 10),
    ];
    let mut seen = Seen::default();
    for round in 0..steps / 1000 {
        let shape = shapes[round as usize % shapes.len()];
        let seed = espalier_runtime::random::Generator::from_seed(first + round).below(u64::MAX);
        println!("round {round} seed {seed}");
        check(seed, shape, 1000, &mut seen);
    }
    println!("{seen:?}");
}

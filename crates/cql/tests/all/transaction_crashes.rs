//! A crash keeps all writes of a transaction over shards, or none.
//!
//! An image is the disk after a power failure during a transfer. The power fails after a given
//! number of disk operations of the transfer. The images of a full run cover each such number for
//! each pair of accounts. The seed of an image decides the order of the operations, which unsynced
//! writes are kept, lost or torn, and how many shards start from the image. The power fails a
//! second time during some of these starts.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use espalier_cql::QueryProcessor;
use espalier_mutation::DecoratedKey;
use espalier_runtime::{
    ShardContext, block_on,
    file::{FileSystem, simulated::SimulatedDisk},
    random::Generator,
};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

use crate::support::{
    bank::{attempt, bank, check},
    shards::{configuration, on_shards_with},
};

/// The pairs of accounts, source first.
const PAIRS: [(i64, i64); 9] =
    [(0, 3), (0, 4), (0, 5), (1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)];

/// Returns the distance between the cuts of two successive seeds, of `cuts` in all. It is near the
/// golden section of their number, so that few images suffice for cuts in all parts of a commit. It
/// has no common factor with the number, so that many images suffice for all cuts.
fn stride(cuts: u64) -> u64 {
    let has_factor =
        |stride: u64| (2..=stride).any(|n| stride.is_multiple_of(n) && cuts.is_multiple_of(n));
    let mut strides = cuts * 618 / 1000..;
    strides.find(|stride| *stride > 0 && !has_factor(*stride)).unwrap()
}

/// Number of images that run at the same time. Their nodes mostly wait, because a transaction
/// without a disk retries.
const IMAGES_AT_ONCE: usize = 8;

/// Returns settings with small segments of the commit log, because to copy large segments into
/// images would take most of the time.
fn small_segments() -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.commit_log.segment_bytes = 32 << 10;
    configuration
}

/// A transfer, with its number in the ledger.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    number: i64,
    source: i64,
    target: i64,
}

/// Returns a transfer for each pair. The number is chosen so that several shards own the rows of
/// the transfer, which is then a logged batch.
fn transfers_over_shards(processor: &QueryProcessor) -> Vec<Transfer> {
    let database = processor.database();
    let shard = |table: &str, id: i64| {
        let table = database.store().schema().table("ks", table).unwrap().clone();
        database
            .store()
            .routing()
            .shard_of(&table, &DecoratedKey::new(Bytes::copy_from_slice(&id.to_be_bytes())))
    };
    let transfer = |(source, target)| {
        let table = if source % 2 == 0 { "even" } else { "odd" };
        let of_source = shard(table, source);
        let number = (1..).find(|number| shard("ledger", *number) != of_source).unwrap();
        Transfer { number, source, target }
    };
    PAIRS.into_iter().map(transfer).collect()
}

/// Returns the maximum number of disk operations during a transfer, including those of other tasks.
fn operations_of_a_commit(bank: &SimulatedDisk, transfers: &[Transfer]) -> u64 {
    let operations = transfers.iter().map(|transfer| {
        let (disk, Transfer { number, source, target }) = (bank.crash(0), *transfer);
        let counted = disk.clone();
        on_shards_with(3, &FileSystem::on(disk), small_segments(), move |processor| {
            let counted = counted.clone();
            async move {
                let before = counted.operations();
                let attempted = attempt(&processor, &counted, number, source, target, 30).await;
                assert_eq!(attempted, Some(true));
                counted.operations() - before
            }
        })
    });
    operations.max().unwrap()
}

/// Opens a node of one shard on a disk whose power fails after `operations` operations. Returns the
/// number of operations that the start has used.
fn start(disk: &SimulatedDisk, operations: u64) -> u64 {
    let file_system = FileSystem::on(disk.clone());
    let before = disk.operations();
    block_on(async {
        disk.power_off_after(operations);
        let context = ShardContext { index: 0, count: 1 };
        let (configuration, shared) = (Arc::new(small_segments()), SharedStorage::new());
        // The start fails if the power fails during the start.
        let started = Node::open(context, file_system, configuration, shared).await;
        disk.power_off_after(0);
        drop(started);
    });
    disk.operations() - before
}

/// The outcome of an image.
struct Outcome {
    is_acknowledged: bool,
    is_kept: bool,
}

/// Makes a transfer, cuts the power after some of its operations on the disk, and starts from the
/// image of the disk.
fn crash(bank: &SimulatedDisk, transfer: Transfer, cut_after: u64, seed: u64) -> Outcome {
    let mut random = Generator::from_seed(seed);
    let (disk, Transfer { number, source, target }) = (bank.crash(0), transfer);
    let power = disk.clone();
    let (acknowledged, mut crashed) =
        on_shards_with(3, &FileSystem::on(disk), small_segments(), move |processor| {
            let power = power.clone();
            async move {
                power.power_off_after(cut_after);
                let acknowledged = attempt(&processor, &power, number, source, target, 30).await;
                // Without power, the image is of one moment even if the transfer has ended.
                power.power_off_after(0);
                (acknowledged, power.crash(seed))
            }
        });
    if random.below(2) == 0 {
        // A start on a copy of the image counts the operations of the start.
        let operations = start(&crashed.crash(seed), u64::from(u32::MAX));
        start(&crashed, random.below(operations + 1));
        crashed = crashed.crash(seed);
    }
    let power = crashed.clone();
    let shards = 1 + random.below(3) as usize;
    let what = format!("seed {seed}, {transfer:?} cut after {cut_after}, {shards} shards");
    let transfers =
        on_shards_with(shards, &FileSystem::on(crashed), small_segments(), move |processor| {
            let (what, power) = (what.clone(), power.clone());
            async move {
                let transfers = check(&processor, &what).await;
                // The shutdown need not flush.
                power.power_off_after(0);
                transfers
            }
        });
    let (is_acknowledged, is_kept) = (acknowledged.is_some(), transfers == [number]);
    assert!(is_kept || !is_acknowledged, "seed {seed}: an acknowledged transfer is lost");
    Outcome { is_acknowledged, is_kept }
}

#[test]
fn a_crash_keeps_all_of_a_commit_or_nothing() {
    let bank = bank(3);
    let image = FileSystem::on(bank.crash(0));
    let transfers = on_shards_with(3, &image, small_segments(), |processor| async move {
        transfers_over_shards(&processor)
    });
    let operations = operations_of_a_commit(&bank, &transfers);
    let stride = stride(operations + 1);
    let images = if espalier_testing::runs_all() { 10_000 } else { 400 };
    let seeds = Mutex::new(espalier_testing::seeds(images));
    let visited = Mutex::new(BTreeSet::new());
    let (whole, none, unknown) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..IMAGES_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.lock().unwrap().next() else { return };
                    let cut_after = seed % (operations + 1) * stride % (operations + 1);
                    let pair = (seed / (operations + 1)) as usize % PAIRS.len();
                    let Outcome { is_acknowledged, is_kept } =
                        crash(&bank, transfers[pair], cut_after, seed);
                    let count = if is_kept { &whole } else { &none };
                    count.fetch_add(1, Ordering::Relaxed);
                    unknown.fetch_add((is_kept && !is_acknowledged).into(), Ordering::Relaxed);
                    visited.lock().unwrap().insert((pair, cut_after));
                }
            });
        }
    });
    let least = espalier_testing::at_least(40) as usize;
    let (whole, none, unknown) = (whole.into_inner(), none.into_inner(), unknown.into_inner());
    let visited = visited.into_inner().unwrap().len();
    println!(
        "{operations} operations, {visited} cuts; {whole} images with the transfer, {unknown} of \
         them without an answer, {none} images without the transfer"
    );
    assert!(whole > least && none > least, "{whole} whole, {none} none: the cuts fall in between");
    assert!(unknown >= least, "{unknown} kept without an answer: the cuts are before the commit");
    if espalier_testing::runs_all() {
        assert_eq!(visited, PAIRS.len() * (operations as usize + 1), "some cuts are missing");
    }
}

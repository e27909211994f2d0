//! `espalier bench cache`: the row cache's memory and throughput, how long its work holds the core,
//! and how much of a hot set survives a scan.
//!
//! One shard in this process executes the statements, without sockets. Every row that is read is
//! compared with the row that was written, except the rows that `scan` reads in pages.

mod points;
mod scan;
mod stalls;
mod verdicts;

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_cql::{PreparedCache, Value};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{SharedStorage, StorageConfiguration};

use verdicts::Verdicts;

use super::{
    BenchError, arguments::CacheArguments, node::InProcessNode, print_line, progress::Progress,
};

/// Measures and prints.
pub fn run(arguments: &CacheArguments) -> Result<(), BenchError> {
    block_on(async {
        if FileSystem::real().exists(&arguments.node.workdir).await? {
            return Err(BenchError::Exists(arguments.node.workdir.clone()));
        }
        let mut progress = Progress::new();
        let (mut of_stalls, mut verdicts) = (Ok(()), Verdicts::default());
        let wants = |part: &str| !arguments.skip.iter().any(|skipped| skipped == part);
        if wants("points") {
            let node = open(arguments, CACHE_BYTES).await?;
            let outcome = Box::pin(points::measure(&node, arguments, &mut progress)).await;
            progress.clear();
            let closed = InProcessNode::close_shared(node).await;
            outcome?.print(arguments, &mut verdicts)?;
            closed?;
        }
        if wants("stalls") {
            let mut changes = Vec::new();
            for _ in 0..arguments.rounds {
                let node = open(arguments, CACHE_BYTES).await?;
                let outcome = Box::pin(stalls::measure_changes(&node, arguments, &mut progress));
                let outcome = outcome.await;
                progress.clear();
                let closed = InProcessNode::close_shared(node).await;
                changes.push(outcome?);
                closed?;
            }
            let node = open(arguments, CACHE_BYTES).await?;
            let large = Box::pin(stalls::measure_large(&node, arguments, &mut progress)).await;
            progress.clear();
            let closed = InProcessNode::close_shared(node).await;
            let large = large?;
            closed?;
            of_stalls = crate::stalls::print(&[&changes, &large], arguments.max_us);
        }
        if wants("scan") {
            let node = open(arguments, CACHE_BYTES).await?;
            let outcome = Box::pin(scan::measure(&node, &mut progress)).await;
            progress.clear();
            let closed = InProcessNode::close_shared(node).await;
            outcome?.print(arguments, &mut verdicts)?;
            closed?;
        }
        of_stalls.and(verdicts.finish())
    })
}

/// Size of the row cache: enough for all rows of a measurement with the default arguments.
const CACHE_BYTES: usize = 3 << 30;

async fn open(
    arguments: &CacheArguments,
    cache_bytes: usize,
) -> Result<Rc<InProcessNode>, BenchError> {
    let mut configuration = StorageConfiguration::new(&arguments.node.workdir);
    configuration.data_directory.clone_from(&arguments.node.workdir);
    configuration.memtables.bytes = 1 << 40;
    configuration.memtables.cleanup_threshold = 1.0;
    configuration.autocompaction = false;
    configuration.caches.page_cache_bytes = cache_bytes + (256 << 20);
    configuration.caches.row_cache_bytes = cache_bytes;
    let context = ShardContext { index: 0, count: 1 };
    let statements = Arc::new(PreparedCache::default());
    let shared = SharedStorage::new();
    let node = InProcessNode::open_shard(context, Arc::new(configuration), shared, statements);
    let node = Rc::new(node.await?);
    node.query(
        "CREATE KEYSPACE bench_cache WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1} \
         AND durable_writes = false",
    )
    .await?;
    Ok(node)
}

fn bigint(number: u64) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&number.to_be_bytes()))
}

/// Maps a number to another one that looks unrelated.
fn scramble(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    number ^ (number >> 29)
}

/// Returns the value of a column of eight bytes in the protocol's form.
fn answer(value: u64) -> Vec<u8> {
    [&8i32.to_be_bytes()[..], &value.to_be_bytes()[..]].concat()
}

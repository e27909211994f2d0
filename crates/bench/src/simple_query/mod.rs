//! `espalier bench simple-query`: measures prepared statements of one row in this process, after
//! ScyllaDB's perf-simple-query.
//!
//! Each shard fills a table with one row for each partition. Before SELECTs, it flushes its rows to
//! one SSTable, unless `--flush` is 0. Then many tasks on each shard read (or write) random rows,
//! by default in iterations of one second. Every row that is read is compared with the row that was
//! written.

mod arguments;
pub(crate) mod entries;
mod figures;
mod report;
mod shard;

pub use arguments::{Compression, SimpleQueryArguments};

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use espalier_commands::memory::MemoryBudget;
use espalier_cql::PreparedCache;
use espalier_runtime::allocation::count_allocations;
use espalier_runtime::sync::Event;
use espalier_runtime::{
    ShardContext, ShardOptions, cpu, file::FileSystem, memory::total_bytes, start_shards, submit_to,
};
use espalier_storage::{SharedStorage, StorageConfiguration};

use super::BenchError;
use super::machine::Machine;
use super::node::InProcessNode;
use figures::Iteration;
use shard::{KEYSPACE, Shard};

/// State that all shards share.
#[derive(Clone)]
struct Shared {
    arguments: Arc<SimpleQueryArguments>,
    storage: Arc<StorageConfiguration>,
    database: Arc<SharedStorage>,
    statements: Arc<PreparedCache>,
}

thread_local! {
    static OPENED: RefCell<Option<Rc<InProcessNode>>> = const { RefCell::new(None) };
    static READY: Event = Event::new();
    static FINISHED: Event = Event::new();
}

/// Measures, prints, and removes all files.
pub fn run(arguments: &SimpleQueryArguments) -> Result<(), BenchError> {
    let machine = Machine::this();
    let count = usize::from(arguments.smp);
    let shared = Shared {
        storage: Arc::new(configuration(arguments)?),
        arguments: Arc::new(arguments.clone()),
        database: SharedStorage::new(),
        statements: Arc::new(PreparedCache::default()),
    };
    let cpus = match arguments.cpuset.as_slice() {
        [] => {
            let allowed = cpu::allowed_cpus();
            allowed.get(allowed.len().saturating_sub(count)..).unwrap_or_default().to_vec()
        }
        given => given.to_vec(),
    };
    let options = ShardOptions { count, pin_to: Some(cpus), ..ShardOptions::default() };
    let main = move |context| run_shard(context, shared.clone(), machine.clone());
    let shards = start_shards(&options, main).map_err(BenchError::Shards)?;
    let outcomes = shards.join().map_err(|panic| BenchError::Wrong(panic.to_string()))?;
    outcomes.into_iter().collect()
}

fn configuration(arguments: &SimpleQueryArguments) -> Result<StorageConfiguration, BenchError> {
    let budget = MemoryBudget::new(arguments.memory, total_bytes());
    let budget = budget.map_err(|error| BenchError::Refused(error.to_string()))?;
    let mut storage = StorageConfiguration::new(&arguments.node.workdir);
    let to_usize = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    storage.caches.page_cache_bytes =
        to_usize(arguments.file_cache_size.unwrap_or(budget.page_cache));
    storage.caches.row_cache_bytes =
        if arguments.enable_cache { storage.caches.page_cache_bytes / 4 * 3 } else { 0 };
    if arguments.write || arguments.update {
        storage.memtables.bytes = to_usize(budget.memtables);
    } else {
        // All rows must be in one SSTable.
        storage.memtables.bytes = 1 << 40;
        storage.memtables.cleanup_threshold = 1.0;
    }
    storage.sstables.format = arguments.sstable_format.clone();
    storage.caches.enable_index_cache = arguments.enable_index_cache;
    storage.sstables.summary_ratio = arguments.sstable_summary_ratio;
    Ok(storage)
}

async fn run_shard(
    context: ShardContext,
    shared: Shared,
    machine: Machine,
) -> Result<(), BenchError> {
    let directory = shared.arguments.node.workdir.clone();
    // The directory is removed at the end, with everything in it. No shard creates it before this
    // check.
    if context.index == 0 && FileSystem::real().exists(&directory).await? {
        return Err(BenchError::Exists(directory));
    }
    if context.index > 0 {
        READY.with(Event::clone).wait().await;
    }
    for other in 1..context.count {
        if context.index == 0 {
            submit_to(other, || async { READY.with(Event::set) }).await;
        }
    }
    let (storage, database) = (shared.storage.clone(), shared.database.clone());
    let node =
        InProcessNode::open_shard(context, storage, database, shared.statements.clone()).await?;
    OPENED.set(Some(Rc::new(node)));
    if context.index > 0 {
        FINISHED.with(Event::clone).wait().await;
        return Ok(());
    }
    let outcome = lead(context, &shared, &machine).await;
    let stopped = match OPENED.with_borrow(Clone::clone) {
        Some(node) => node.database().shutdown().await.map_err(BenchError::from),
        None => Ok(()),
    };
    for index in 0..context.count {
        let release = || async {
            Shard::release();
            OPENED.set(None);
            FINISHED.with(Event::set);
        };
        submit_to(index, release).await;
    }
    let removed = FileSystem::real().remove_dir_all(&directory).await.map_err(BenchError::from);
    outcome.and(stopped).and(removed)
}

/// Directs all shards through the measurement.
async fn lead(context: ShardContext, shared: &Shared, machine: &Machine) -> Result<(), BenchError> {
    let arguments = &shared.arguments;
    let node = OPENED.with_borrow(Clone::clone);
    let Some(node) = node else { return Ok(()) };
    Shard::create_table(&node, arguments).await?;
    let mut fills = Vec::with_capacity(context.count);
    for index in 0..context.count {
        let arguments = arguments.clone();
        let context = ShardContext { index, count: context.count };
        fills.push(submit_to(index, move || async move {
            let Some(node) = OPENED.with_borrow(Clone::clone) else { return Ok(()) };
            Shard::install(node, context, arguments)?;
            Shard::here()?.fill().await
        }));
    }
    for fill in fills {
        fill.await?;
    }
    if !arguments.write && !arguments.update && arguments.flush {
        Shard::here()?.node().database().flush(KEYSPACE, None).await?;
    }
    report::begin(arguments, machine)?;
    count_allocations();
    // The first iteration is not reported, because it fills caches and allocates memory.
    iterate(context, arguments, 0).await?;
    let mut iterations = Vec::new();
    for number in 1..=arguments.duration {
        let iteration = iterate(context, arguments, u64::from(number)).await?;
        report::iteration(&iteration, context.count)?;
        iterations.push(iteration);
    }
    report::end(arguments, machine, &iterations).await
}

async fn iterate(
    context: ShardContext,
    arguments: &SimpleQueryArguments,
    number: u64,
) -> Result<Iteration, BenchError> {
    let seed = arguments.random_seed.wrapping_add(number << 16);
    let calls: Vec<_> = (0..context.count)
        .map(|index| {
            submit_to(index, move || async move {
                Shard::here()?.iterate(seed.wrapping_add(index as u64)).await
            })
        })
        .collect();
    let mut whole: Option<Iteration> = None;
    for part in futures_util::future::join_all(calls).await {
        match &mut whole {
            None => whole = Some(part?),
            Some(whole) => *whole += part?,
        }
    }
    Ok(whole.unwrap_or_default())
}

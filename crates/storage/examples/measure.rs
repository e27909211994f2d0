//! Writes and reads a second of the engine alone, on one core: 16-byte keys, 8-byte values.
//!
//! `cargo run --release -p espalier-storage --example measure [writes] [directory]`

use std::{path::PathBuf, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ClusteringSlices, ColumnData, DecoratedKey, Direction, Liveness, Mutation,
    PartitionUpdate, Row,
    schema::{KeyspaceMetadata, Schema, TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{
    ShardContext, block_on, file::FileSystem, maybe_yield, random::Generator, spawn_local, time,
};
use espalier_storage::{
    ColumnSelection, CommitLogSync, Database, ReadCommand, ReadLimits, ReadTarget, SharedDatabase,
    StorageConfiguration,
};
use espalier_types::CqlType;
use uuid::Uuid;

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn key(number: u64) -> DecoratedKey {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    DecoratedKey::new(Bytes::copy_from_slice(&bytes))
}

fn mutation(table: &TableMetadata, number: u64, timestamp: i64) -> Mutation {
    let mut row = Row::empty(Clustering::empty());
    row.liveness = Liveness::live(timestamp);
    let value = Bytes::copy_from_slice(&number.to_be_bytes());
    row.columns
        .push((table.regular_columns()[0].id, ColumnData::Simple(Cell::live(timestamp, value))));
    let mut update = PartitionUpdate::new(table.id, key(number));
    update.rows.push(row);
    Mutation { updates: vec![update] }
}

fn table() -> TableMetadata {
    TableBuilder::new("bench", "kv", TableId(Uuid::from_u128(0xbe)))
        .partition_key("k", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build()
}

async fn open(directory: &PathBuf, sync: CommitLogSync) -> Database {
    let mut configuration = StorageConfiguration::new(directory);
    configuration.commitlog_sync = sync;
    configuration.memtable_bytes = 4 << 30;
    configuration.commitlog_total_bytes = 4 << 30;
    let context = ShardContext { index: 0, count: 1 };
    let shared = SharedDatabase::new();
    let database = Database::open(context, FileSystem::real(), Arc::new(configuration), shared)
        .await
        .expect("the directory can be used");
    let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
        let table = Arc::new(table());
        let keyspace = KeyspaceMetadata {
            name: "bench".into(),
            replication: Default::default(),
            durable_writes: true,
            tables: [("kv".to_string(), table)].into(),
            types: Default::default(),
        };
        let mut keyspaces = schema.keyspaces.clone();
        keyspaces.insert("bench".into(), Arc::new(keyspace));
        Ok(Some(Schema::new(keyspaces, schema.version)))
    };
    database.change_schema(change).await.expect("the schema can be written").expect("it is new");
    database
}

/// Wall clock, and the time that this thread was on a core: the machine may have other work.
struct Watch {
    started: time::Instant,
    on_core_ns: u64,
}

impl Watch {
    fn start() -> Self {
        Self { started: time::Instant::now(), on_core_ns: on_core_ns() }
    }

    fn report(&self, what: &str, count: u64) {
        let rate = count as f64 / self.started.elapsed().as_secs_f64();
        let core = (on_core_ns() - self.on_core_ns) as f64 / count as f64;
        let possible = 1e9 / core;
        println!("{what:<44} {rate:>9.0}/s; on the core {core:>6.0} ns each, {possible:>9.0}/s");
    }
}

/// Nanoseconds that this thread has run, as Linux counts them.
fn on_core_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0)
}

/// Writes without waiting for anything but room.
async fn writes(database: &Database, prepared: &[Mutation], what: &str) {
    let watch = Watch::start();
    let mut last = None;
    let mut waits = 0u64;
    for mutation in prepared {
        loop {
            match database.try_apply(mutation) {
                Some(ticket) => {
                    last = Some(ticket.expect("the write is taken"));
                    break;
                }
                None => {
                    waits += 1;
                    espalier_runtime::yield_now().await;
                }
            }
        }
        maybe_yield().await;
    }
    watch.report(&format!("{what}: applied"), prepared.len() as u64);
    if let Some(ticket) = last {
        ticket.await.expect("the write is acknowledged");
    }
    watch.report(&format!("{what}: acknowledged ({waits} waits)"), prepared.len() as u64);
}

/// Closed loop: each client sends the next write when the last is acknowledged.
async fn clients(database: &Database, prepared: Vec<Mutation>, count: usize, what: &str) {
    let total = prepared.len() as u64;
    let prepared = Rc::new(prepared);
    let watch = Watch::start();
    let tasks: Vec<_> = (0..count)
        .map(|client| {
            let (database, prepared) = (database.clone(), prepared.clone());
            spawn_local(async move {
                for mutation in prepared.iter().skip(client).step_by(count) {
                    match database.try_apply(mutation) {
                        Some(ticket) => ticket.expect("taken").await.expect("acknowledged"),
                        None => database.apply(mutation.clone()).await.expect("acknowledged"),
                    }
                    maybe_yield().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    watch.report(what, total);
}

async fn reads(database: &Database, count: u64, what: &str) {
    let table = Arc::new(table());
    let slices = Arc::new(ClusteringSlices::all());
    let mut random = Generator::from_seed(1);
    let keys: Vec<DecoratedKey> =
        (0..count.min(1 << 20)).map(|_| key(random.below(count))).collect();
    let watch = Watch::start();
    let mut found = 0u64;
    for key in &keys {
        let row = database.try_read_row::<&[u8], _>(&table, key.borrowed(), &[], true, |lookup| {
            match lookup.row {
                Some(row) => row.columns().count() as u64,
                None => 0,
            }
        });
        found += row.unwrap_or(0);
        maybe_yield().await;
    }
    watch.report(what, keys.len() as u64);
    assert_eq!(found, keys.len() as u64);
    let keys = &keys[..keys.len().min(200_000)];
    let watch = Watch::start();
    for key in keys {
        let command = ReadCommand {
            table: table.clone(),
            target: ReadTarget::Partition(key.clone()),
            slices: slices.clone(),
            direction: Direction::Forward,
            columns: ColumnSelection::All,
            now_s: 1_700_000_000,
            limits: ReadLimits::NONE,
            resume: None,
            bypass_cache: false,
        };
        let result = database.read(command).await.expect("it can be read");
        assert_eq!(result.partitions.len(), 1);
        maybe_yield().await;
    }
    watch.report(&format!("{what} by the general path"), keys.len() as u64);
}

async fn reads_from_files(database: &Database, count: u64, what: &str) {
    let table = Arc::new(table());
    let slices = Arc::new(ClusteringSlices::all());
    let mut random = Generator::from_seed(2);
    let reads = 50_000;
    let watch = Watch::start();
    for _ in 0..reads {
        let command = ReadCommand {
            table: table.clone(),
            target: ReadTarget::Partition(key(random.below(count))),
            slices: slices.clone(),
            direction: Direction::Forward,
            columns: ColumnSelection::All,
            now_s: 1_700_000_000,
            limits: ReadLimits::NONE,
            resume: None,
            bypass_cache: false,
        };
        let result = database.read(command).await.expect("it can be read");
        assert_eq!(result.partitions.len(), 1);
        maybe_yield().await;
    }
    watch.report(what, reads);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| "measure-data".into()));
    let table = table();
    let periodic = CommitLogSync::Periodic { period: Duration::from_secs(10) };
    for (name, sync) in [("periodic", periodic), ("group", CommitLogSync::default())] {
        let directory = directory.join(name);
        let prepared = |timestamp| -> Vec<Mutation> {
            (0..count).map(|number| mutation(&table, number, timestamp)).collect()
        };
        let (new, again) = (prepared(1), prepared(2));
        let mut sent = prepared(3);
        block_on(async {
            let database = open(&directory, sync).await;
            writes(&database, &new, &format!("{name} try_apply, new rows")).await;
            reads(&database, count, &format!("{name} try_read_row, random")).await;
            writes(&database, &again, &format!("{name} try_apply, overwrites")).await;
            drop((new, again));
            sent.truncate(300_000);
            for concurrency in [1usize, 16, 256, 4096] {
                let count = if concurrency == 1 { 2_000 } else { sent.len().min(300_000) };
                let prepared = sent[..count].to_vec();
                let what = format!("{name} {concurrency} clients");
                clients(&database, prepared, concurrency, &what).await;
            }
            let watch = Watch::start();
            database.flush("bench", None).await.expect("it can be flushed");
            watch.report(&format!("{name} flush"), count);
            reads_from_files(&database, count, &format!("{name} read from a file")).await;
            let stalls = espalier_runtime::preempt::stall_report();
            println!("longest task {} µs, stalls {}", stalls.longest_us, stalls.stalls);
            println!("{:?}", database.metrics());
            database.shutdown().await.expect("it can be shut down");
        });
        block_on(async { FileSystem::real().remove_dir_all(&directory).await })
            .expect("the directory can be removed");
    }
}

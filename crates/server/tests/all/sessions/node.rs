//! A node in the test's process: its shards run on threads of their own.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

use espalier_cql::{PreparedCache, QueryProcessor};
use espalier_runtime::file::FileSystem;
use espalier_runtime::sync::Notify;
use espalier_runtime::{ShardOptions, Shards, block_on, start_shards};
use espalier_server::{ServerConfig, ShardServer, SharedState};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

use super::client::Client;
use super::client::Mode;

thread_local! {
    /// The server and the database of the calling shard.
    static RUNNING: RefCell<Option<(Rc<ShardServer>, Node)>> = const { RefCell::new(None) };
    static STOPPED: Notify = Notify::new();
}

/// A running node.
pub struct TestNode {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    pub shard_aware: Option<SocketAddr>,
    pub file_system: FileSystem,
}

impl TestNode {
    /// Connects a client that has not sent STARTUP.
    pub async fn connect(&self, mode: Mode) -> Client {
        Client::connect(self.address, mode).await
    }

    /// Connects a client and sends STARTUP.
    pub async fn client(&self, mode: Mode) -> Client {
        let mut client = self.connect(mode).await;
        client.startup().await;
        client
    }
}

/// Runs `test` against a node of `shards` shards; `configure` changes the node's configuration.
pub fn with_node<F: Future<Output = ()>>(
    shards: usize,
    configure: impl FnOnce(&mut ServerConfig),
    test: impl FnOnce(TestNode) -> F,
) {
    with_node_over(storage(), shards, configure, test);
}

/// Runs `test` against a node with a storage engine of the test's choice.
pub fn with_node_over<F: Future<Output = ()>>(
    storage: StorageConfiguration,
    shards: usize,
    configure: impl FnOnce(&mut ServerConfig),
    test: impl FnOnce(TestNode) -> F,
) {
    // All shards of a node must listen on the same addresses.
    let [address, admin, shard_aware] = espalier_testing::free_addresses();
    let mut config = ServerConfig::new(address, 1 << 30);
    config.admin_listen = Some(admin);
    config.shard_aware_listen = Some(shard_aware);
    configure(&mut config);
    let (shard_aware, file_system) = (config.shard_aware_listen, FileSystem::simulated(1));
    let running = start(shards, config, storage, &file_system);
    let node = TestNode { address, admin, shard_aware, file_system };
    block_on(test(node));
    stop(&running);
    running.join().unwrap();
}

/// Stops the servers of all shards, then the database, then the shards.
fn stop(running: &Shards<()>) {
    let (caller, shards) = (running.caller(), running.count());
    block_on(async {
        for shard in 0..shards {
            let stop_server = || async {
                let server = RUNNING.with_borrow(|it| it.as_ref().map(|it| Rc::clone(&it.0)));
                server.unwrap().stop().await;
            };
            caller.submit_to(shard, stop_server).await.unwrap();
        }
        let stop_database = || async {
            let database = RUNNING.with_borrow(|it| it.as_ref().map(|it| it.1.clone()));
            database.unwrap().shutdown().await.unwrap();
        };
        caller.submit_to(0, stop_database).await.unwrap();
        for shard in 0..shards {
            caller.submit_to(shard, || async { STOPPED.with(Notify::notify_one) }).await.unwrap();
        }
    });
}

fn start(
    shards: usize,
    config: ServerConfig,
    storage: StorageConfiguration,
    file_system: &FileSystem,
) -> Shards<()> {
    let shared = SharedState::new(config, shards);
    let (database, storage) = (SharedStorage::new(), Arc::new(storage));
    let cache = Arc::new(PreparedCache::default());
    let file_system = file_system.clone();
    let (ready, all_ready) = mpsc::channel();
    let options = ShardOptions { count: shards, ..ShardOptions::default() };
    let running = start_shards(&options, move |context| {
        let (shared, ready, cache) = (shared.clone(), ready.clone(), Arc::clone(&cache));
        let (database, storage) = (Arc::clone(&database), Arc::clone(&storage));
        let file_system = file_system.clone();
        async move {
            let database = Node::open(context, file_system, storage, database).await.unwrap();
            let processor = QueryProcessor::new(database.clone(), cache);
            let server = ShardServer::new(&shared, context, processor);
            server.listen().unwrap();
            if context.index == 0 {
                server.listen_admin().unwrap();
            }
            RUNNING.replace(Some((server, database)));
            ready.send(()).unwrap();
            STOPPED.with(Notify::clone).notified().await;
            RUNNING.take();
        }
    })
    .unwrap();
    for _ in 0..shards {
        all_ready.recv().unwrap();
    }
    running
}

/// Memory for the memtables of a test's node, in bytes.
const MEMTABLE_BYTES: usize = 64 << 20;

/// Returns the configuration of a test node's storage engine.
pub fn storage() -> StorageConfiguration {
    let mut configuration = StorageConfiguration::new("node");
    configuration.memtables.bytes = MEMTABLE_BYTES;
    configuration.commit_log.segment_bytes = 1 << 20;
    configuration
}

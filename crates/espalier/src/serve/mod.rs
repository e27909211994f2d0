//! `espalier serve`: from arguments to a running node, and to its end.
//!
//! Order: settings, directories (made and locked), addresses (checked), shards (data, then server), `ready`. Whatever fails
//! before `ready` ends the process with one line that says what to do.
//!
//! | module | what it does |
//! | --- | --- |
//! | `directories`, `listen` | what a node must have for itself |
//! | `shard` | what each shard is made of |
//! | `lead`, `introduce` | what shard 0 does for all |

mod directories;
mod error;
mod introduce;
mod lead;
mod listen;
mod shard;

pub use error::ServeError;

use std::sync::Arc;

use espalier_cql::PreparedCache;
use espalier_runtime::file::FileSystem;
use espalier_runtime::time::Instant;
use espalier_runtime::{ShardContext, block_on, driver_notice, process, start_shards};
use espalier_server::SharedState;
use espalier_storage::SharedDatabase;

use crate::command_line::ServeArguments;
use crate::configuration::{ConfigurationError, Machine, NodeConfiguration, display_size, shown};
use crate::logging;
use directories::Directories;
use lead::Leadership;
use listen::Addresses;
use shard::{ShardNode, SharedNode};

/// Serves until a signal says to stop. `began` is when the process began.
pub fn serve(arguments: &ServeArguments, began: Instant) -> Result<(), ServeError> {
    logging::start(arguments.log.as_deref()).map_err(ServeError::Logging)?;
    let Prepared { configuration, addresses, directories } = block_on(prepare(arguments))?;
    if let Err(error) = process::raise_open_file_limit() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    describe(&configuration);
    let database = SharedDatabase::new();
    database.set_settings(shown(&configuration));
    let shards = configuration.shards;
    let shared = SharedNode {
        storage: Arc::new(configuration.storage),
        database,
        statements: Arc::new(PreparedCache::default()),
        server: SharedState::new(configuration.server, shards.count),
    };
    let leadership = Leadership {
        began,
        cluster_name: configuration.cluster_name,
        broadcast_address: configuration.broadcast_address,
        addresses,
        directory: configuration.directory.display().to_string(),
        shards: shards.count,
    };
    let main = move |context| run_shard(context, shared.clone(), leadership.clone());
    let shards = start_shards(&shards, main).map_err(ServeError::Start)?;
    let outcomes = shards.join()?;
    outcomes.into_iter().collect::<Result<(), _>>()?;
    drop(directories);
    tracing::info!("stopped");
    Ok(())
}

/// What a node has before it has shards.
struct Prepared {
    configuration: NodeConfiguration,
    addresses: Addresses,
    directories: Directories,
}

/// Reads the settings, takes the directories, and checks the addresses.
async fn prepare(arguments: &ServeArguments) -> Result<Prepared, ServeError> {
    let content = match &arguments.config {
        Some(path) => {
            let content = FileSystem::real().read(path).await;
            Some((path.as_path(), content.map_err(ConfigurationError::from)?))
        }
        None => None,
    };
    let file = content.as_ref().map(|(path, content)| (*path, content.as_slice()));
    let mut configuration = NodeConfiguration::load(arguments, file, Machine::here())?;
    let directories = Directories::claim(&configuration).await?;
    let addresses = Addresses::claim(&mut configuration.server).await?;
    Ok(Prepared { configuration, addresses, directories })
}

/// One shard, from its first to its last moment.
async fn run_shard(
    context: ShardContext,
    shared: SharedNode,
    leadership: Leadership,
) -> Result<(), ServeError> {
    if context.index > 0 {
        let node = ShardNode::open(context, &shared).await?;
        node.finished.wait().await;
        return Ok(());
    }
    let stop = lead::stop_at_signal()?;
    if let Some(notice) = driver_notice() {
        tracing::info!("kernel interface: {notice}");
    }
    let node = ShardNode::open(context, &shared).await?;
    lead::lead(node, leadership, stop).await
}

fn describe(configuration: &NodeConfiguration) {
    let NodeConfiguration { shards, memory, storage, .. } = configuration;
    tracing::info!(
        "espalier {}: {} shards{}, memory {} (memtables {}, page cache {}), commit log sync {:?}",
        env!("CARGO_PKG_VERSION"),
        shards.count,
        if shards.pin_to.is_some() { ", pinned" } else { "" },
        display_size(memory.total),
        display_size(storage.memtable_bytes as u64),
        display_size(storage.page_cache_bytes as u64),
        storage.commitlog_sync,
    );
    for (key, reason) in &configuration.ignored {
        tracing::info!("{key} changes nothing: {reason}");
    }
}

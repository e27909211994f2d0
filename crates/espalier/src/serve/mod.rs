//! `espalier serve`: starts a node, runs it, and stops it.
//!
//! The start reads the settings, creates and locks the directories, takes the files of a replaced
//! node, reads the certificates, checks the addresses and starts the shards. Each shard opens its
//! data; then shard 0 starts the servers, joins the ring if the node is a member of one, and prints
//! `ready`. An error before `ready` ends the process with one line.
//!
//! | module | what it does |
//! | --- | --- |
//! | `directories`, `listen` | directories and addresses that no other process may use |
//! | `shard` | the parts of one shard |
//! | `lead`, `introduce`, `ring`, `ring_batches` | the duties of shard 0 |

mod directories;
mod error;
mod introduce;
mod lead;
mod listen;
mod ring;
mod ring_batches;
mod shard;

pub use error::ServeError;

use std::net::SocketAddr;
use std::sync::Arc;

use espalier_commands::units::display_size;
use espalier_cql::PreparedCache;
use espalier_cql::auth::Auth;
use espalier_runtime::file::FileSystem;
use espalier_runtime::net::tls::{TlsAcceptor, TlsOptions};
use espalier_runtime::time::Instant;
use espalier_runtime::{ShardContext, block_on, driver_notice, process, start_shards};
use espalier_server::{ClientEncryption, SharedState};
use espalier_storage::{SharedStorage, take_files};

use crate::command_line::ServeArguments;
use crate::configuration::{ConfigurationError, Machine, NodeConfiguration, RACK_FILE_NAME, shown};
use crate::logging;
use directories::Directories;
use lead::Leadership;
use listen::Addresses;
use shard::{ShardNode, SharedNode};

/// Serves until a signal arrives. `began` is the time at which the process started.
///
/// # Errors
/// Fails if the node cannot start, if a shard panics, or if the node does not stop cleanly. Each
/// case is a variant of [`ServeError`].
pub fn serve(arguments: &ServeArguments, began: Instant) -> Result<(), ServeError> {
    logging::start(arguments.log.as_deref()).map_err(ServeError::Logging)?;
    let Prepared { configuration, addresses, directories } = block_on(prepare(arguments))?;
    if let Err(error) = process::raise_open_file_limit() {
        tracing::warn!(%error, "cannot raise the limit of open files, keeping it; see ulimit -n");
    }
    describe(&configuration);
    let database = SharedStorage::new();
    database.set_settings(shown(&configuration));
    let shards = configuration.shards;
    let shared = SharedNode {
        storage: Arc::new(configuration.storage),
        database,
        statements: Arc::new(PreparedCache::default()),
        auth: Auth::new(configuration.auth),
        server: SharedState::new(configuration.server, shards.count),
    };
    let leadership = Leadership {
        began,
        cluster_name: configuration.cluster_name,
        broadcast_address: configuration.broadcast_address,
        ring: configuration.ring,
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

/// The state of a node before its shards start.
struct Prepared {
    configuration: NodeConfiguration,
    addresses: Addresses,
    directories: Directories,
}

/// Reads the settings, claims the directories, takes the files of a replaced node, reads the
/// certificates, and checks the addresses.
async fn prepare(arguments: &ServeArguments) -> Result<Prepared, ServeError> {
    let content = match &arguments.config {
        Some(path) => {
            let content = FileSystem::real().read(path).await;
            Some((path.as_path(), content.map_err(ConfigurationError::from)?))
        }
        None => None,
    };
    let file = content.as_ref().map(|(path, content)| (*path, content.as_slice()));
    let rack_file = rack_file(arguments).await?;
    let mut configuration = NodeConfiguration::load(arguments, file, rack_file, Machine::here())?;
    let mut directories = Directories::claim_working(&configuration).await?;
    // `take_files` creates the data directory, so the node locks this directory afterwards.
    if let Some(replaced) = &configuration.replaced {
        let into = &configuration.storage.data_directory;
        let taken = take_files(&FileSystem::real(), replaced, into).await;
        taken.map_err(|error| ServeError::Replace(Box::new(error)))?;
    }
    directories.claim_storage(&configuration).await?;
    configuration.server.encryption = encryption(&configuration).await?;
    if let Some(options) = &configuration.api_encryption {
        let acceptor = load("api_encryption_options", options).await?;
        configuration.server.admin_access.acceptor = Some(acceptor);
    }
    let addresses = Addresses::claim(&mut configuration.server).await?;
    Ok(Prepared { configuration, addresses, directories })
}

/// Reads the file of the snitch, if there is one beside the file of `--config`.
async fn rack_file(arguments: &ServeArguments) -> Result<Option<Vec<u8>>, ConfigurationError> {
    let Some(path) = &arguments.config else { return Ok(None) };
    match FileSystem::real().read(path.with_file_name(RACK_FILE_NAME)).await {
        Err(error) if error.is_not_found() => Ok(None),
        content => Ok(Some(content?)),
    }
}

/// Reads the certificates for clients' connections.
async fn encryption(
    configuration: &NodeConfiguration,
) -> Result<Option<ClientEncryption>, ServeError> {
    let Some(settings) = &configuration.encryption else { return Ok(None) };
    let acceptor = load("client_encryption_options", &settings.options).await?;
    let address = |port| SocketAddr::new(configuration.server.listen.ip(), port);
    Ok(Some(ClientEncryption {
        acceptor,
        handshake: settings.handshake,
        listen: settings.port.map(address),
        shard_aware_listen: settings.shard_aware_port.map(address),
    }))
}

/// Reads the certificates of a setting.
async fn load(name: &'static str, options: &TlsOptions) -> Result<Arc<TlsAcceptor>, ServeError> {
    TlsAcceptor::load(options.clone()).await.map_err(|error| ServeError::Tls(name, error))
}

/// Runs one shard until the node stops.
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
        version = env!("CARGO_PKG_VERSION"),
        shards = shards.count,
        pinned = shards.pin_to.is_some(),
        memory = display_size(memory.total),
        memtables = display_size(storage.memtables.bytes as u64),
        page_cache = display_size(storage.caches.page_cache_bytes as u64),
        commitlog_sync = ?storage.commit_log.sync,
        "starting espalier"
    );
    for (key, reason) in &configuration.ignored {
        tracing::info!(%key, %reason, "setting has no effect");
    }
}

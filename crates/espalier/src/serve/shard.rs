//! One shard of a running node. A task that shard 0 sends to another shard finds the parts of that
//! shard with [`ShardNode::here`].

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use espalier_cql::auth::Auth;
use espalier_cql::{PreparedCache, QueryProcessor};
use espalier_runtime::ShardContext;
use espalier_runtime::file::FileSystem;
use espalier_runtime::sync::Event;
use espalier_server::{ShardServer, SharedState};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

use super::ServeError;

/// The state that all shards of a node share.
#[derive(Clone)]
pub struct SharedNode {
    /// The settings of storage.
    pub storage: Arc<StorageConfiguration>,
    /// The shared state of storage.
    pub database: Arc<SharedStorage>,
    /// Prepared statements.
    pub statements: Arc<PreparedCache>,
    /// Authentication and authorization.
    pub auth: Arc<Auth>,
    /// The shared state of the servers.
    pub server: SharedState,
}

/// The parts of one shard.
pub struct ShardNode {
    /// The shard's part of the data.
    pub database: Node,
    /// Authentication and authorization.
    pub auth: Arc<Auth>,
    /// The shard's connections.
    pub server: Rc<ShardServer>,
    /// Set by [`ShardNode::release`] when the shard may end.
    pub finished: Event,
}

thread_local! {
    static OPENED: Event = Event::new();
    static NODE: RefCell<Option<Rc<ShardNode>>> = const { RefCell::new(None) };
}

impl ShardNode {
    /// Opens the calling shard's data and creates its server, which does not listen yet.
    ///
    /// # Errors
    /// Fails if storage cannot open the data.
    pub async fn open(context: ShardContext, shared: &SharedNode) -> Result<Rc<Self>, ServeError> {
        let (settings, common) = (Arc::clone(&shared.storage), Arc::clone(&shared.database));
        let database = Node::open(context, FileSystem::real(), settings, common);
        let database = database.await.map_err(|error| ServeError::Open(Box::new(error)))?;
        let (statements, auth) = (Arc::clone(&shared.statements), Arc::clone(&shared.auth));
        let processor = QueryProcessor::with_auth(database.clone(), statements, Arc::clone(&auth));
        let server = ShardServer::new(&shared.server, context, processor);
        let node = Rc::new(Self { database, auth, server, finished: Event::new() });
        NODE.set(Some(Rc::clone(&node)));
        OPENED.with(Event::set);
        Ok(node)
    }

    /// Waits until the node of the calling shard is open, and returns it.
    pub async fn here() -> Rc<Self> {
        loop {
            if let Some(node) = NODE.with_borrow(Clone::clone) {
                return node;
            }
            let opened = OPENED.with(Event::clone);
            opened.wait().await;
        }
    }

    /// Drops the node of the calling shard and lets the shard end.
    pub fn release() {
        if let Some(node) = NODE.take() {
            node.finished.set();
        }
    }
}

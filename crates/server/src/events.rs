//! The registry of events holds the connections of one shard that sent REGISTER.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use espalier_cql::SchemaChange;
use espalier_runtime::{current_shard, spawn_local, submit_to};

use crate::connection::Connection;
use crate::protocol::EventType;
use crate::shard::ShardServer;

/// The connections of one shard that registered for events.
#[derive(Default)]
pub(crate) struct EventRegistry {
    connections: RefCell<Vec<Weak<Connection>>>,
}

impl EventRegistry {
    /// Adds a connection. The caller adds each connection once.
    pub fn add(&self, connection: &Rc<Connection>) {
        let mut connections = self.connections.borrow_mut();
        // An event removes closed connections, too. Without events, they would fill the registry.
        if connections.len() == connections.capacity() {
            connections.retain(|connection| connection.strong_count() > 0);
            // The next such pass comes after as many additions as connections are open now.
            let open = connections.len();
            connections.reserve(open);
        }
        connections.push(Rc::downgrade(connection));
    }

    /// Sends the event of a change to the connections of this shard that registered for such
    /// events, and removes closed connections from the registry.
    fn send(&self, change: &SchemaChange) {
        self.connections.borrow_mut().retain(|connection| {
            let Some(connection) = connection.upgrade() else { return false };
            if connection.registered.get().contains(EventType::SchemaChange) {
                connection.notify(change);
            }
            true
        });
    }
}

/// Sends the events of a change of the schema to all connections of the node that registered for
/// them. Drivers would otherwise not know of the change. The caller is on a shard; the call does
/// not wait.
pub(crate) fn broadcast_schema_change(change: SchemaChange) {
    let Some(context) = current_shard() else { return };
    for change in change.into_events() {
        for shard in 0..context.count {
            let change = change.clone();
            let call = submit_to(shard, move || async move {
                if let Some(server) = ShardServer::current() {
                    server.events.send(&change);
                }
            });
            spawn_local(call).detach();
        }
    }
}

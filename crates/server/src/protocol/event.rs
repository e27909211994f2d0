//! Events, which the server sends without a request (stream -1) to the connections that registered
//! for them. A schema change is also the result of the statement that made it.

use std::net::SocketAddr;

use super::error::DecodeError;
use super::version::ProtocolVersion;
use super::writer::WireWrite;

/// A kind of event that a client can register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum EventType {
    TopologyChange = 1,
    StatusChange = 2,
    SchemaChange = 4,
}

impl EventType {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::TopologyChange => "TOPOLOGY_CHANGE",
            Self::StatusChange => "STATUS_CHANGE",
            Self::SchemaChange => "SCHEMA_CHANGE",
        }
    }

    /// Returns the event type of a name.
    ///
    /// # Errors
    ///
    /// Fails if no event type has this name.
    pub fn from_name(name: &str) -> Result<Self, DecodeError> {
        [Self::TopologyChange, Self::StatusChange, Self::SchemaChange]
            .into_iter()
            .find(|event| event.name() == name)
            .ok_or_else(|| DecodeError::UnknownEventType { name: name.chars().take(64).collect() })
    }
}

/// A set of [`EventType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EventTypes(u8);

impl EventTypes {
    /// Adds an event type.
    pub fn insert(&mut self, event: EventType) {
        self.0 |= event as u8;
    }

    /// Returns whether `event` is in the set.
    pub fn contains(self, event: EventType) -> bool {
        self.0 & event as u8 != 0
    }

    /// Returns the types that are in either set.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A change of the set of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TopologyChange {
    NewNode,
    RemovedNode,
    MovedNode,
}

/// A change of a node's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StatusChange {
    Up,
    Down,
}

/// The kind of a schema change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum SchemaChangeKind {
    Created,
    Updated,
    Dropped,
}

/// The part of the schema that changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SchemaTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table or view, by name.
    Table(String),
    /// A user-defined type, by name.
    Type(String),
    /// A function: its name and the CQL types of its arguments.
    Function(String, Vec<String>),
    /// An aggregate: its name and the CQL types of its arguments.
    Aggregate(String, Vec<String>),
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchemaChange {
    /// The kind of the change.
    pub kind: SchemaChangeKind,
    /// The keyspace of the changed part.
    pub keyspace: String,
    /// The part of the schema that changed.
    pub target: SchemaTarget,
}

impl SchemaChange {
    /// Appends the change. It follows the kind in the body of RESULT, and the type in the body of
    /// EVENT. Version 3 has neither functions nor aggregates; in their place it reports a change of
    /// their keyspace.
    pub(super) fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        let is_function =
            matches!(self.target, SchemaTarget::Function(..) | SchemaTarget::Aggregate(..));
        if is_function && version < ProtocolVersion::V4 {
            out.put_string("UPDATED");
            out.put_string("KEYSPACE");
            return out.put_string(&self.keyspace);
        }
        out.put_string(match self.kind {
            SchemaChangeKind::Created => "CREATED",
            SchemaChangeKind::Updated => "UPDATED",
            SchemaChangeKind::Dropped => "DROPPED",
        });
        let (target, name, arguments) = match &self.target {
            SchemaTarget::Keyspace => ("KEYSPACE", None, None),
            SchemaTarget::Table(name) => ("TABLE", Some(name), None),
            SchemaTarget::Type(name) => ("TYPE", Some(name), None),
            SchemaTarget::Function(name, arguments) => ("FUNCTION", Some(name), Some(arguments)),
            SchemaTarget::Aggregate(name, arguments) => ("AGGREGATE", Some(name), Some(arguments)),
        };
        out.put_string(target);
        out.put_string(&self.keyspace);
        if let Some(name) = name {
            out.put_string(name);
        }
        if let Some(arguments) = arguments {
            out.put_string_list(arguments);
        }
    }
}

/// An event for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The set of nodes changed; the address is where the node's clients connect.
    Topology(TopologyChange, SocketAddr),
    /// A node went up or down.
    Status(StatusChange, SocketAddr),
    /// The schema changed.
    Schema(SchemaChange),
}

impl Event {
    /// Returns the type of the event. Clients register for types.
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Topology(..) => EventType::TopologyChange,
            Self::Status(..) => EventType::StatusChange,
            Self::Schema(_) => EventType::SchemaChange,
        }
    }

    pub(super) fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        out.put_string(self.event_type().name());
        let (change, address) = match self {
            Self::Topology(TopologyChange::NewNode, address) => ("NEW_NODE", address),
            Self::Topology(TopologyChange::RemovedNode, address) => ("REMOVED_NODE", address),
            Self::Topology(TopologyChange::MovedNode, address) => ("MOVED_NODE", address),
            Self::Status(StatusChange::Up, address) => ("UP", address),
            Self::Status(StatusChange::Down, address) => ("DOWN", address),
            Self::Schema(change) => return change.encode(version, out),
        };
        out.put_string(change);
        out.put_address(address.ip());
        out.put_i32(address.port().into());
    }
}

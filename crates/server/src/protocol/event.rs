//! Events, which the server sends without a request (stream -1) to the connections that registered
//! for them. A schema change is also the result of the statement that made it.

use super::error::DecodeError;
use super::writer::WireWrite;

/// A kind of event that a client can register for. The node sends only changes of the schema.
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
    /// EVENT.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(match self.kind {
            SchemaChangeKind::Created => "CREATED",
            SchemaChangeKind::Updated => "UPDATED",
            SchemaChangeKind::Dropped => "DROPPED",
        });
        let (target, name) = match &self.target {
            SchemaTarget::Keyspace => ("KEYSPACE", None),
            SchemaTarget::Table(name) => ("TABLE", Some(name)),
            SchemaTarget::Type(name) => ("TYPE", Some(name)),
        };
        out.put_string(target);
        out.put_string(&self.keyspace);
        if let Some(name) = name {
            out.put_string(name);
        }
    }
}

//! Events, which the server sends without a request (stream -1) to the connections that registered
//! for them. A schema change is also the result of the statement that made it.

use espalier_cql::{ChangeKind, ChangeTarget, SchemaChange};

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

/// Appends a change of the schema. It follows the kind in the body of RESULT, and the type in the
/// body of EVENT.
pub(super) fn put_change(change: &SchemaChange, out: &mut Vec<u8>) {
    out.put_string(match change.change {
        ChangeKind::Created => "CREATED",
        ChangeKind::Updated => "UPDATED",
        ChangeKind::Dropped => "DROPPED",
    });
    out.put_string(match change.target {
        ChangeTarget::Keyspace => "KEYSPACE",
        ChangeTarget::Table => "TABLE",
        ChangeTarget::Type => "TYPE",
    });
    out.put_string(&change.keyspace);
    if change.target != ChangeTarget::Keyspace {
        out.put_string(&change.name);
    }
}

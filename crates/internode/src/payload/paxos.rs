//! Conditional writes by Paxos, version 1.

use uuid::Uuid;

use super::{Tables, Update};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::put_boolean,
};

/// A ballot with an update. A replica promises the ballot in PREPARE, accepts the update in
/// PROPOSE, and applies it in COMMIT.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The ballot, a UUID of version 1.
    pub ballot: Uuid,
    /// The update; empty in PREPARE.
    pub update: Update,
}

impl Commit {
    pub(crate) fn decode(input: &mut Input<'_>, tables: &dyn Tables) -> Result<Self> {
        Ok(Self { ballot: input.uuid()?, update: Update::decode(input, tables)? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(self.ballot.as_bytes());
        self.update.encode(out)
    }
}

/// The answer to PREPARE.
#[derive(Clone, Debug, PartialEq)]
pub struct PrepareResponse {
    /// True if the replica promises to accept no older ballot.
    pub is_promised: bool,
    /// The update that the replica has accepted last; if the replica refuses, the newest ballot
    /// that it has seen, with an empty update.
    pub in_progress: Commit,
    /// The update that the replica has committed last.
    pub most_recent: Commit,
}

impl PrepareResponse {
    pub(crate) fn decode(input: &mut Input<'_>, tables: &dyn Tables) -> Result<Self> {
        let is_promised = input.boolean()?;
        let in_progress = Commit::decode(input, tables)?;
        let most_recent = Commit::decode(input, tables)?;
        let (left, right) = (&in_progress.update, &most_recent.update);
        if left.table.id != right.table.id || left.partition.key != right.partition.key {
            return Err(DecodeError::Malformed("a promise about two partitions"));
        }
        Ok(Self { is_promised, in_progress, most_recent })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        put_boolean(self.is_promised, out);
        self.in_progress.encode(out)?;
        self.most_recent.encode(out)
    }
}

//! The decisions of an acceptor, without storage and clock.
//!
//! Ballots are ordered by their time. Cassandra's coordinators draw the time in µs and use the
//! units of 100 ns for a flag, so two ballots of one µs count as equally old. The replica refuses
//! the later request of the two, which is always safe. The rows of `system.paxos` have timestamps
//! in µs, too.

use bytes::Bytes;
use espalier_types::timeuuid;
use uuid::Uuid;

/// Cassandra's ballot of a partition without history: a UUID of version 1 for the year 1970.
pub const NO_BALLOT: Uuid = Uuid::from_u128(0x1381_4000_1DD2_11B2_0000_0000_0000_0000);

/// Returns the time of a ballot in µs since 1970; `None` if it is no UUID of version 1.
pub fn ballot_micros(ballot: Uuid) -> Option<i64> {
    timeuuid::unix_timestamp_micros(ballot.as_bytes())
}

/// The state of an acceptor for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptorState {
    /// The newest ballot that it has promised.
    pub promised: Option<Uuid>,
    /// The update that it has accepted last, unless a commit followed.
    pub accepted: Option<Recorded>,
    /// The update that it has committed last.
    pub committed: Option<Recorded>,
}

/// An update with its ballot, as an acceptor keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The ballot.
    pub ballot: Uuid,
    /// The update, serialised as in messages.
    pub update: Bytes,
    /// The second since 1970 at which the acceptor forgets it; `u32::MAX` for never.
    pub expires_s: u32,
}

impl AcceptorState {
    /// Leaves out the updates that have expired at the time of a request's ballot. The acceptor
    /// does not ask the clock, because replicas with different clocks must forget an update at the
    /// same ballot.
    pub fn as_of(mut self, ballot: Uuid) -> Self {
        let now_s = ballot_micros(ballot).map_or(0, |micros| micros.div_euclid(1_000_000));
        let is_kept = |recorded: &Recorded| {
            recorded.expires_s == u32::MAX || now_s < recorded.expires_s.into()
        };
        self.accepted = self.accepted.filter(is_kept);
        self.committed = self.committed.filter(is_kept);
        self
    }

    /// Returns the newest ballot that the acceptor has seen.
    pub fn newest(&self) -> Option<Uuid> {
        let recorded = self.accepted.iter().chain(&self.committed);
        let ballots = recorded.map(|recorded| recorded.ballot).chain(self.promised);
        // If two times are equal, the ballot of an accepted or committed update counts.
        ballots.reduce(|newest, other| if is_after(other, newest) { other } else { newest })
    }

    /// Returns whether the acceptor may promise a ballot: it must be newer than all it has seen.
    pub fn may_promise(&self, ballot: Uuid) -> bool {
        self.newest().is_none_or(|newest| is_after(ballot, newest))
    }

    /// Returns whether the acceptor may accept an update: it must not have seen another ballot that
    /// is newer or equally old.
    pub fn may_accept(&self, ballot: Uuid) -> bool {
        self.newest().is_none_or(|newest| ballot == newest || is_after(ballot, newest))
    }

    /// Returns whether the last commit has this ballot.
    pub fn has_committed(&self, ballot: Uuid) -> bool {
        self.committed.as_ref().is_some_and(|committed| committed.ballot == ballot)
    }

    /// Drops the accepted update if the last commit is not older.
    pub(super) fn without_settled_proposal(mut self) -> Self {
        if let (Some(accepted), Some(committed)) = (&self.accepted, &self.committed)
            && !is_after(accepted.ballot, committed.ballot)
        {
            self.accepted = None;
        }
        self
    }
}

/// Returns whether two ballots differ and have the same timestamp.
pub(super) fn is_twin(ballot: Uuid, other: Uuid) -> bool {
    ballot != other && ballot_micros(ballot) == ballot_micros(other)
}

/// Returns whether a ballot is later than another by Cassandra's order, which has units of 100 ns.
pub(super) fn is_later(ballot: Uuid, other: Uuid) -> bool {
    let order = |ballot: Uuid| (timeuuid::ticks(ballot.as_bytes()), ballot);
    order(ballot) > order(other)
}

fn is_after(ballot: Uuid, other: Uuid) -> bool {
    ballot_micros(ballot) > ballot_micros(other)
}

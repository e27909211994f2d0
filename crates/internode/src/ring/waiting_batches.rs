//! Records the replicas for which left-over batches wait.
//!
//! A batch is not sent again to replicas that have acknowledged it, and a batch whose remaining
//! replicas are all down is not even decoded. So batches that wait for a dead replica do not delay
//! other batches. The list is only in memory: after a restart, each batch goes to all its replicas.
//!
//! Memory: an entry of some 100 bytes for each batch that waits.

use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
};

use uuid::Uuid;

/// The batches that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingBatches {
    batches: HashMap<Uuid, Waiting>,
    /// The number of the present round over the batch log.
    round: u64,
}

#[derive(Debug)]
struct Waiting {
    /// The replicas that have not acknowledged the batch.
    replicas: BTreeSet<SocketAddr>,
    /// The time at which all writes of the batch are older than their grace period, in µs since
    /// 1970.
    until_us: i64,
    /// The last round that has seen the batch.
    seen: u64,
}

/// The part of a batch to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The writes go to all their replicas.
    All,
    /// The writes go only to these replicas; the others have acknowledged them.
    Only(BTreeSet<SocketAddr>),
    /// There is nothing to do.
    Nothing,
}

/// The standing of a node in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Up,
    Down,
    /// The node is no member of the ring any more, so the batch has other replicas.
    Gone,
}

impl WaitingBatches {
    /// Returns the part of a batch to do at `now_us`.
    pub fn due(&mut self, id: Uuid, now_us: i64, standing: impl Fn(SocketAddr) -> Standing) -> Due {
        let round = self.round;
        let Some(waiting) = self.batches.get_mut(&id) else { return Due::All };
        waiting.seen = round;
        let Waiting { replicas, until_us, .. } = &*waiting;
        let is = |wanted| replicas.iter().any(|replica| standing(*replica) == wanted);
        if is(Standing::Gone) || now_us >= *until_us {
            Due::All
        } else if is(Standing::Up) {
            Due::Only(replicas.clone())
        } else {
            Due::Nothing
        }
    }

    /// Records that a batch waits for replicas.
    pub fn wait(&mut self, id: Uuid, replicas: BTreeSet<SocketAddr>, until_us: i64) {
        self.batches.insert(id, Waiting { replicas, until_us, seen: self.round });
    }

    /// Forgets a batch.
    pub fn end(&mut self, id: Uuid) {
        self.batches.remove(&id);
    }

    /// Ends a round over the batch log, and forgets the batches that the round has not seen: they
    /// were removed while the node sent them.
    pub fn end_round(&mut self) {
        self.batches.retain(|_, waiting| waiting.seen == self.round);
        self.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_the_replicas_that_lack_it() {
        let node = |last: u8| SocketAddr::from(([127, 0, 0, last], 7000));
        let (id, none) = (Uuid::from_u128(1), |_| Standing::Gone);
        let mut waiting = WaitingBatches::default();
        assert_eq!(waiting.due(id, 0, none), Due::All);
        waiting.wait(id, [node(1), node(2)].into(), 100);
        let down = |_| Standing::Down;
        assert_eq!(waiting.due(id, 99, down), Due::Nothing);
        // All writes are too old: the batch ends.
        assert_eq!(waiting.due(id, 100, down), Due::All);
        let one_is = |other| move |address| if address == node(2) { other } else { Standing::Down };
        let both = Due::Only([node(1), node(2)].into());
        assert_eq!(waiting.due(id, 99, one_is(Standing::Up)), both);
        // Its tokens are those of other nodes now.
        assert_eq!(waiting.due(id, 99, one_is(Standing::Gone)), Due::All);
        assert_eq!(waiting.due(Uuid::from_u128(2), 99, down), Due::All);
        waiting.end(id);
        assert_eq!(waiting.due(id, 99, down), Due::All);
    }

    #[test]
    fn a_batch_that_left_the_log_is_forgotten() {
        let (stays, leaves) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let replica = SocketAddr::from(([127, 0, 0, 1], 7000));
        let mut waiting = WaitingBatches::default();
        for id in [stays, leaves] {
            waiting.wait(id, [replica].into(), 100);
        }
        waiting.end_round();
        assert_eq!(waiting.batches.len(), 2);
        assert_eq!(waiting.due(stays, 0, |_| Standing::Down), Due::Nothing);
        waiting.end_round();
        assert_eq!(waiting.batches.keys().collect::<Vec<_>>(), [&stays]);
        waiting.end_round();
        assert!(waiting.batches.is_empty());
    }
}

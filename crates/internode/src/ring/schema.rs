//! Pulls the schema of the ring from a peer, merges it into the node's own, and announces it.
//!
//! 1. A live peer announces another version of its schema by gossip.
//! 2. The member pulls all rows of the schema tables from that peer.
//! 3. The node merges the rows into its schema. If the node then has all keyspaces as the peer has
//!    them, the member announces the version that the peer had announced before the pull. The
//!    pulled rows are of that version or of a later one. The peer announces a later version, too,
//!    which causes a new pull.
//! 4. If the member could announce several versions, it announces the one that most live peers
//!    announce, because peers with another version deliver no hints to the node.
//!
//! One pull is under way at a time. The member asks the peer that has left the fewest pulls without
//! an answer, and waits longer each time. A peer that is a node of Espalier, for example, never
//! answers, and the answer of a large ring may take longer than the first limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use espalier_runtime::spawn_local;
use espalier_storage::SchemaMerge;
use uuid::Uuid;

use super::{RingMember, room::Reservation};
use crate::{
    message::Verb,
    payload::{ApplicationState, Mutation, Payload},
};

/// Time after which the member gives up the first pull from a peer. It doubles with each pull that
/// the peer does not answer, up to [`MAX_DOUBLINGS`] times.
const PULL_LIMIT: Duration = Duration::from_secs(10);
/// Arbitrary: the longest limit is 160 s.
const MAX_DOUBLINGS: u32 = 4;
/// Pause before the next pull after a merge has failed. Arbitrary.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of versions in `different` and in `equal`. When it is reached, the member forgets
/// all of them. Arbitrary: nodes that agree have one version.
const MAX_VERSIONS: usize = 64;

/// The state of the ring's schema at a member.
#[derive(Debug, Default)]
pub(super) struct RingSchema {
    /// The version that the member announces.
    taken: Option<Uuid>,
    /// Versions that the node has pulled and merged, but cannot announce, because a peer lacks a
    /// change that the node has, or because the node cannot read a table or type. The member does
    /// not pull them again until a peer pushes a change or the node's own schema changes.
    different: BTreeSet<Uuid>,
    /// Versions that the node has pulled and could announce. Forgotten together with `different`.
    equal: BTreeSet<Uuid>,
    /// The version of the node's own schema with which these were compared.
    compared: Option<Uuid>,
    /// The time before which the member does not pull.
    paused_until: Duration,
    /// The pull under way.
    pull: Option<Pull>,
    /// The number of pulls that a peer has not answered since its last answer.
    unanswered: BTreeMap<SocketAddr, u32>,
    /// True while the node merges the rows of a pull. A merge waits for imports and other changes
    /// of the schema, which may take long, and the member pulls no other schema meanwhile.
    is_merging: bool,
}

#[derive(Debug)]
struct Pull {
    /// The id of the request. A late answer to an earlier pull has the rows of an earlier version.
    id: u64,
    from: SocketAddr,
    version: Uuid,
    began: Duration,
}

impl RingSchema {
    fn unanswered_of(&self, peer: SocketAddr) -> u32 {
        self.unanswered.get(&peer).copied().unwrap_or(0)
    }

    /// Ends the pull under way if its time is over, and returns its peer.
    fn end_silent_pull(&mut self, now: Duration) -> Option<SocketAddr> {
        let from = self.pull.as_ref()?.from;
        let limit = PULL_LIMIT * (1 << self.unanswered_of(from).min(MAX_DOUBLINGS));
        self.pull.take_if(|pull| now.saturating_sub(pull.began) >= limit)?;
        *self.unanswered.entry(from).or_insert(0) += 1;
        Some(from)
    }

    /// Chooses the next pull: a peer that announces another version than the member, and this
    /// version. Returns `None` while a pull is under way.
    fn choose(&self, announced: &[(SocketAddr, Uuid)]) -> Option<(SocketAddr, Uuid)> {
        if self.pull.is_some() {
            return None;
        }
        let is_new = |version: &Uuid| {
            self.taken.as_ref() != Some(version)
                && !self.different.contains(version)
                && !self.equal.contains(version)
        };
        let new = announced.iter().filter(|(_, version)| is_new(version)).copied();
        new.min_by_key(|(peer, _)| self.unanswered_of(*peer))
    }

    /// Forgets the versions that were compared with an earlier schema of the node.
    fn compare_with(&mut self, own: Uuid) {
        if self.compared.replace(own) != Some(own) {
            self.forget_compared();
        }
    }

    fn forget_compared(&mut self) {
        self.different.clear();
        self.equal.clear();
    }

    /// Takes a version that the node has pulled and merged.
    fn take(&mut self, version: Uuid) {
        self.taken = Some(version);
        remember(&mut self.equal, version);
    }

    /// Takes another version without a pull, if the node could announce it and more live peers
    /// announce it than the present one. Returns the new version.
    fn take_known(&mut self, announced: &[(SocketAddr, Uuid)]) -> Option<Uuid> {
        let peers_with =
            |version: &Uuid| announced.iter().filter(|(_, other)| other == version).count();
        let taken = self.taken?;
        let known = self.equal.iter().copied().max_by_key(peers_with)?;
        if peers_with(&known) <= peers_with(&taken) {
            return None;
        }
        self.taken = Some(known);
        Some(known)
    }

    /// Ends the pull that this message answers, and returns its version. Returns `None` if the
    /// message answers no pull, or a pull that has ended.
    fn take_answered(&mut self, from: SocketAddr, id: u64) -> Option<Uuid> {
        let pull = self.pull.take_if(|pull| (pull.from, pull.id) == (from, id))?;
        self.unanswered.remove(&from);
        Some(pull.version)
    }
}

fn remember(versions: &mut BTreeSet<Uuid>, version: Uuid) {
    if versions.len() >= MAX_VERSIONS {
        versions.clear();
    }
    versions.insert(version);
}

impl RingMember {
    /// Returns the version of the schema that the member has.
    pub(super) fn schema_version(&self) -> Uuid {
        let taken = self.schema.borrow().taken;
        taken.unwrap_or_else(|| self.backend.own_schema_version())
    }

    /// Returns whether the member has the schema that a peer announces.
    pub(super) fn agrees_with(&self, peer: SocketAddr) -> bool {
        let gossiper = self.gossiper.borrow();
        let announced = gossiper.endpoints().get(&peer);
        let announced = announced.and_then(|endpoint| endpoint.value(ApplicationState::Schema));
        let announced: Option<Uuid> = announced.and_then(|version| version.parse().ok());
        announced.is_some() && announced == self.schema.borrow().taken
    }

    /// Returns whether a peer is live, and all live peers announce the schema of the member.
    pub(super) fn agrees_with_all_live(&self) -> bool {
        let live: Vec<_> = self.gossiper.borrow().live_peers().map(|(peer, _)| peer).collect();
        !live.is_empty() && live.into_iter().all(|peer| self.agrees_with(peer))
    }

    /// Announces the version that most live peers announce, if the node could announce it without a
    /// pull. Then pulls the schema of a live peer whose version is unknown.
    pub(super) fn pull_schema(self: &Rc<Self>) {
        let now = self.now();
        if self.schema.borrow().is_merging || now < self.schema.borrow().paused_until {
            return;
        }
        let announced: Vec<_> = {
            let gossiper = self.gossiper.borrow();
            let announced = gossiper.live_peers().filter_map(|(peer, endpoint)| {
                Some((peer, endpoint.value(ApplicationState::Schema)?.parse().ok()?))
            });
            announced.collect()
        };
        let own = self.backend.own_schema_version();
        self.schema.borrow_mut().compare_with(own);
        let known = self.schema.borrow_mut().take_known(&announced);
        if let Some(version) = known {
            tracing::info!(%version, "took another version of the ring's schema, without a pull");
            self.announce_schema(version);
        }
        let silent = self.schema.borrow_mut().end_silent_pull(now);
        if let Some(peer) = silent
            && self.log_limit.is_due("schema without an answer")
        {
            tracing::warn!(
                %peer,
                "a peer did not answer the request for its schema; the node asks other peers first"
            );
        }
        let chosen = self.schema.borrow().choose(&announced);
        let Some((from, version)) = chosen else { return };
        let message = self.queued(Verb::SCHEMA_PULL_REQ, Payload::None);
        let pull = Pull { id: message.id(), from, version, began: now };
        self.schema.borrow_mut().pull = Some(pull);
        self.send(from, message);
    }

    /// Lets the member pull every version again, because a pushed change means that the peer has
    /// another schema.
    pub(super) fn on_schema_push(&self) {
        self.schema.borrow_mut().forget_compared();
    }

    /// Returns whether a pull from this peer is under way.
    pub(super) fn pulls_from(&self, peer: SocketAddr) -> bool {
        self.schema.borrow().pull.as_ref().is_some_and(|pull| pull.from == peer)
    }

    /// Returns whether a message with this id from this peer answers the pull under way.
    pub(super) fn is_pulled(&self, peer: SocketAddr, id: u64) -> bool {
        let schema = self.schema.borrow();
        schema.pull.as_ref().is_some_and(|pull| (pull.from, pull.id) == (peer, id))
    }

    /// Merges the rows of a pull into the node's schema.
    pub(super) fn on_schema(
        self: &Rc<Self>,
        (from, id): (SocketAddr, u64),
        rows: Vec<Mutation>,
        room: Reservation,
    ) {
        let answered = self.schema.borrow_mut().take_answered(from, id);
        let Some(version) = answered else { return };
        self.schema.borrow_mut().is_merging = true;
        // Other messages of the peer do not wait for the merge. At most one merge keeps its rows.
        drop(room);
        let member = Rc::clone(self);
        let taking = self.backend.take_schema(rows);
        spawn_local(async move {
            let outcome = taking.await;
            member.end_pull(from, version, outcome);
        })
        .detach();
    }

    fn announce_schema(&self, version: Uuid) {
        self.gossiper.borrow_mut().set(ApplicationState::Schema, version.to_string());
    }

    fn end_pull(&self, peer: SocketAddr, version: Uuid, outcome: Result<SchemaMerge, String>) {
        let own = self.backend.own_schema_version();
        let mut schema = self.schema.borrow_mut();
        schema.is_merging = false;
        schema.compare_with(own);
        match outcome {
            Ok(SchemaMerge::Equal) => {
                tracing::info!(%peer, %version, "took the schema of the ring");
                schema.take(version);
                self.announce_schema(version);
                return;
            }
            Ok(SchemaMerge::Newer) => {
                tracing::info!(
                    %peer,
                    %version,
                    "kept the schema, because a peer lacks a change in it; the nodes agree when \
                     the peer has taken the change"
                );
            }
            Ok(SchemaMerge::Unreadable(count)) => {
                tracing::warn!(
                    %peer,
                    count,
                    "took the ring's schema except tables or types that the node cannot read or \
                     opens at its next start; peers deliver no hints until the versions of \
                     nodetool describecluster agree"
                );
            }
            Err(error) => {
                tracing::error!(
                    %peer,
                    %error,
                    "could not merge the ring's schema; the node pulls it again"
                );
                schema.paused_until = self.now() + RETRY_PAUSE;
                return;
            }
        }
        remember(&mut schema.different, version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_does_not_answer_does_not_keep_others_from_being_asked() {
        let [first, second] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let version = Uuid::from_u128(7);
        let mut schema = RingSchema::default();
        let mut now = Duration::ZERO;
        let mut asked = Vec::new();
        for id in 0..4 {
            let announced = [(first, version), (second, version)];
            let (from, version) = schema.choose(&announced).unwrap();
            schema.pull = Some(Pull { id, from, version, began: now });
            asked.push(from);
            assert_eq!(schema.choose(&announced), None, "a pull is under way");
            // The second pull from each peer may take twice as long.
            let limit = PULL_LIMIT * if id < 2 { 1 } else { 2 };
            assert_eq!(schema.end_silent_pull(now + limit / 2), None);
            now += limit;
            assert_eq!(schema.end_silent_pull(now), Some(from));
            // The answer comes too late.
            assert_eq!(schema.take_answered(from, id), None);
        }
        assert_eq!(asked, [first, second, first, second]);
        // Only the silent peer announces the version.
        assert_eq!(schema.choose(&[(second, version)]), Some((second, version)));
        schema.pull = Some(Pull { id: 9, from: second, version, began: now });
        assert_eq!(schema.take_answered(second, 8), None);
        assert_eq!(schema.take_answered(second, 9), Some(version));
        schema.taken = Some(version);
        assert_eq!(schema.choose(&[(first, version)]), None);
    }

    #[test]
    fn a_member_announces_the_known_version_of_most_peers() {
        let [first, second, third] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let [one, two, own] = [1, 2, 3].map(Uuid::from_u128);
        let mut schema = RingSchema::default();
        schema.compare_with(own);
        let announced = [(first, one), (second, two)];
        for (at, version) in announced.into_iter().enumerate() {
            assert_eq!(schema.choose(&announced[at..]), Some(announced[at]));
            schema.take(version.1);
        }
        schema.compare_with(own);
        assert_eq!((schema.choose(&announced), schema.take_known(&announced)), (None, None));
        assert_eq!(schema.taken, Some(two));
        // A third peer starts with the schema of the first.
        let more = [(first, one), (second, two), (third, one)];
        assert_eq!((schema.choose(&more), schema.take_known(&more)), (None, Some(one)));
        // The member stays if the versions have equally many peers.
        assert_eq!((schema.take_known(&more), schema.take_known(&announced)), (None, None));
        assert_eq!(schema.take_known(&[(second, two)]), Some(two));
        // The second peer takes the schema of the first.
        let announced = [(first, one), (second, one)];
        assert_eq!(schema.take_known(&announced), Some(one));
        assert_eq!((schema.choose(&announced), schema.take_known(&announced)), (None, None));
        // The comparisons do not hold for another schema of the node.
        schema.compare_with(Uuid::from_u128(4));
        assert_eq!(schema.take_known(&[(second, two)]), None);
        assert_eq!(schema.choose(&[(second, two)]), Some((second, two)));
    }
}

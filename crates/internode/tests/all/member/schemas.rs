//! A member pulls the schema of a peer until the node has merged it.

use super::*;
use crate::sent_by_cassandra::decode;

/// Announces a version of the peer's schema, and answers the probe that follows.
async fn announce(peer: &Peer, member: SocketAddr, version: u128) {
    let value = Uuid::from_u128(version).to_string();
    let at = 10 + i32::try_from(version).unwrap();
    let states = vec![(ApplicationState::Schema, VersionedValue { value, version: at })];
    let state = EndpointState { generation: 1_700_000_000, heartbeat: at, states };
    let ack = Payload::GossipAck2(GossipAck2 { states: vec![(peer.address, state)] });
    peer.send(member, 1, Verb::GOSSIP_DIGEST_ACK2, ack).await;
    until("a probe", || peer.count(Verb::ECHO_REQ) > 0).await;
    peer.send(member, 2, Verb::ECHO_RSP, Payload::None).await;
}

/// Returns the version of the schema in the member's last answer.
fn last_version(peer: &Peer) -> Option<Payload> {
    let arrived = peer.arrived.borrow();
    let is_version = |message: &Message| message.header.verb == Verb::SCHEMA_VERSION_RSP;
    let last = arrived.iter().rev().find(|(_, message)| is_version(message));
    last.map(|(_, message)| decode(Verb::SCHEMA_VERSION_RSP, &message.payload))
}

/// Waits until the member announces this version.
async fn until_announced(peer: &Peer, member: SocketAddr, version: u128) {
    let expected = Payload::SchemaVersion(Uuid::from_u128(version));
    for _ in 0..600 {
        let answers = peer.count(Verb::SCHEMA_VERSION_RSP);
        peer.send(member, 3, Verb::SCHEMA_VERSION_REQ, Payload::None).await;
        until("an answer", || peer.count(Verb::SCHEMA_VERSION_RSP) > answers).await;
        if last_version(peer).as_ref() == Some(&expected) {
            return;
        }
        time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the member does not announce version {version}");
}

async fn with_merges(
    merges: impl Into<VecDeque<Result<SchemaMerge, String>>>,
) -> (TestNode, Rc<Peer>, SocketAddr, Rc<RingMember>) {
    let node = TestNode::default();
    *node.0.schema.borrow_mut() = Some(of_two_replicas());
    *node.0.merges.borrow_mut() = merges.into();
    let (peer, own, member) = ring(&node, false).await;
    (node, peer, own, member)
}

#[test]
fn a_schema_that_could_not_be_stored_is_pulled_again() {
    block_on(async {
        let merges = [Err("the disk fails".to_owned()), Ok(SchemaMerge::Equal)];
        let (node, peer, own, member) = with_merges(merges).await;
        announce(&peer, own, 7).await;
        until("the second pull", || node.0.merges.borrow().is_empty()).await;
        until_announced(&peer, own, 7).await;
        assert_eq!(peer.count(Verb::SCHEMA_PULL_REQ), 2);
        member.stop().await;
    });
}

/// A merge waits for imports and other changes of the schema.
#[test]
fn a_member_pulls_no_schema_while_it_merges_one() {
    block_on(async {
        let (node, peer, own, member) = with_merges([Ok(SchemaMerge::Equal)]).await;
        node.0.merge_time.set(Duration::from_secs(4));
        announce(&peer, own, 7).await;
        until("the pull", || node.0.merges.borrow().is_empty()).await;
        time::sleep(Duration::from_secs(3)).await;
        assert_eq!(peer.count(Verb::SCHEMA_PULL_REQ), 1);
        until_announced(&peer, own, 7).await;
        member.stop().await;
    });
}

#[test]
fn the_version_of_a_peer_that_lacks_a_change_is_not_announced() {
    block_on(async {
        let merges = [Ok(SchemaMerge::Equal), Ok(SchemaMerge::Newer), Ok(SchemaMerge::Equal)];
        let (node, peer, own, member) = with_merges(merges).await;
        announce(&peer, own, 7).await;
        until_announced(&peer, own, 7).await;
        announce(&peer, own, 8).await;
        until("the second pull", || node.0.merges.borrow().len() == 1).await;
        time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(peer.count(Verb::SCHEMA_PULL_REQ), 2);
        until_announced(&peer, own, 7).await;
        announce(&peer, own, 9).await;
        until_announced(&peer, own, 9).await;
        member.stop().await;
    });
}

/// The rows of a late answer may lack what the peer has announced since.
#[test]
fn an_answer_to_an_earlier_pull_is_not_merged() {
    block_on(async {
        let (node, peer, own, member) = with_merges([Ok(SchemaMerge::Equal)]).await;
        peer.answers_earlier_pulls.set(true);
        announce(&peer, own, 7).await;
        until("the pull", || peer.count(Verb::SCHEMA_PULL_REQ) == 1).await;
        // The member handles the messages of a connection in their order.
        peer.send(own, 3, Verb::SCHEMA_VERSION_REQ, Payload::None).await;
        until("an answer", || peer.count(Verb::SCHEMA_VERSION_RSP) == 1).await;
        assert_eq!(node.0.merges.borrow().len(), 1, "the member merged the rows");
        let id = {
            let arrived = peer.arrived.borrow();
            let is_pull = |message: &Message| message.header.verb == Verb::SCHEMA_PULL_REQ;
            arrived.iter().find(|(_, message)| is_pull(message)).unwrap().1.header.id
        };
        peer.send(own, id, Verb::SCHEMA_PULL_RSP, Payload::Schema(Vec::new())).await;
        until_announced(&peer, own, 7).await;
        member.stop().await;
    });
}

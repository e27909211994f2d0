//! A member closes its connections to a peer that is down.

use super::*;

#[test]
fn the_connections_to_a_peer_that_is_down_are_new() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let is_urgent = |(kind, _): &(ConnectionKind, Message)| *kind == ConnectionKind::Urgent;
        let gossip = || peer.arrived.borrow().iter().filter(|sent| is_urgent(sent)).count();
        until("gossip", || gossip() > 2).await;
        assert_eq!(peer.ended.get(), 0);
        let state = peer.state(2, i64::MAX / 2);
        peer.send(own, 1, Verb::GOSSIP_SHUTDOWN, Payload::GossipShutdown(Some(state))).await;
        until("the end of the connections", || peer.ended.get() > 0).await;
        let before = gossip();
        until("gossip over a new connection", || gossip() > before).await;
        member.stop().await;
    });
}

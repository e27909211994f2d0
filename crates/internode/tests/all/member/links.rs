//! Tests the connections of a member: their kinds, and those to a peer that is down.

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

#[test]
fn urgent_connections_carry_gossip_alone() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        peer.out.take();
        peer.sends.set(ConnectionKind::Urgent);
        peer.send(own, 5, Verb::BATCH_STORE_REQ, Payload::BatchStore(recorded_batch())).await;
        peer.send(own, 6, Verb::ECHO_REQ, Payload::None).await;
        until("the answers", || {
            peer.count(Verb::FAILURE_RSP) == 1 && peer.count(Verb::ECHO_RSP) > 0
        })
        .await;
        assert!(node.0.batches.borrow().is_empty());
        peer.out.take();
        peer.sends.set(ConnectionKind::Small);
        peer.send(own, 7, Verb::BATCH_STORE_REQ, Payload::BatchStore(recorded_batch())).await;
        until("the batch", || peer.count(Verb::BATCH_STORE_RSP) == 1).await;
        member.stop().await;
    });
}

#[test]
fn a_large_answer_has_a_connection_of_its_own() {
    block_on(async {
        let node = TestNode::default();
        let (database, read) = (database().await, whole_partition());
        write(&database, &read, 5000, 0).await;
        *node.0.schema.borrow_mut() = Some(database.store().schema());
        *node.0.database.borrow_mut() = Some(database);
        let (peer, own, member) = ring(&node, false).await;
        let command = Payload::Read(Box::new(read.clone()));
        peer.send(own, 77, Verb::READ_REQ, command).await;
        until("the answer", || peer.count(Verb::READ_RSP) == 1).await;
        let of_verb = |(_, message): &&(_, Message)| message.header.verb == Verb::READ_RSP;
        let (kind, message) = peer.arrived.borrow().iter().find(of_verb).unwrap().clone();
        assert_eq!((kind, message.header.id), (ConnectionKind::Large, 77));
        assert!(message.payload.len() > 64 << 10, "{}", message.payload.len());
        let answer = decode(Verb::READ_RSP, &message.payload);
        let Payload::ReadResponse(answer) = answer else { panic!() };
        let partitions = answer.partitions(&read).unwrap();
        assert_eq!(partitions[0].content.as_ref().unwrap().unfiltered.len(), 5000);
        member.stop().await;
    });
}

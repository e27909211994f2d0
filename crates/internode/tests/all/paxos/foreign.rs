//! Tests requests about a partition of which the member is no replica.

use super::*;

/// If a former replica still promised ballots, there could be two quorums without a common node.
#[test]
fn a_partition_of_another_node_is_refused() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_replicas("1"));
        *node.0.database.borrow_mut() = Some(database().await);
        let (peer, own, member) = ring(&node, false).await;
        let sent = sent_update();
        for (id, is_own, verb) in
            [(200, true, Verb::PAXOS_PREPARE_RSP), (201, false, Verb::FAILURE_RSP)]
        {
            let mut keys = (0..=u8::MAX).map(|last| {
                let mut key = sent.partition.key.to_vec();
                *key.last_mut().unwrap() = last;
                Bytes::from(key)
            });
            // The peer has the tokens above that of the member, up to its own.
            let of_peer = |key: &Bytes| {
                let token = DecoratedKey::new(key.clone()).token.0;
                0 < token && token <= i64::MAX / 2
            };
            let key = keys.find(|key| of_peer(key) != is_own).unwrap();
            let partition = Partition { key, is_reversed: false, content: None };
            let update = Update { table: Arc::clone(&sent.table), partition };
            let commit = Payload::Paxos(Box::new(Commit { ballot: ballot(5), update }));
            peer.send(own, id, Verb::PAXOS_PREPARE_REQ, commit).await;
            let answered = || {
                let arrived = peer.arrived.borrow();
                arrived
                    .iter()
                    .any(|(_, message)| message.header.id == id && message.header.verb == verb)
            };
            until("the answer", answered).await;
        }
        member.stop().await;
    });
}

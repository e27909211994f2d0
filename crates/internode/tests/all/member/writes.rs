//! Tests writes that a member passes on: batches of other coordinators, hints for other replicas,
//! and writes that name further replicas.

use espalier_internode::payload::Update;
use espalier_mutation::{ColumnData, Unfiltered};
use espalier_types::CqlType;

use super::*;

pub(super) fn recorded_batch() -> Batch {
    let batch = bodies().into_iter().find_map(|(verb, body)| match decode(verb, &body) {
        Payload::BatchStore(batch) => Some(batch),
        _ => None,
    });
    let created_us = time::now_micros() - 10_000_000;
    Batch { created_us, ..batch.unwrap() }
}

#[test]
fn a_left_over_batch_goes_to_all_replicas() {
    block_on(async {
        for refuses in [false, true] {
            let node = TestNode::default();
            *node.0.schema.borrow_mut() = Some(of_two_replicas());
            let batch = recorded_batch();
            node.0.batches.borrow_mut().push(batch.clone());
            let (peer, _, member) = ring(&node, refuses).await;
            until("the writes of the batch", || {
                peer.count(Verb::MUTATION_REQ) == 2 && node.0.stored.borrow().len() == 2
            })
            .await;
            let expected = if refuses { Vec::new() } else { vec![batch.id] };
            until("the end of the batch", || node.0.removed.borrow().len() == expected.len()).await;
            time::sleep(Duration::from_millis(100)).await;
            assert_eq!(*node.0.removed.borrow(), expected);
            member.stop().await;
        }
    });
}

/// Until the delay has passed, the member may not know all replicas.
#[test]
fn left_over_batches_wait_for_the_delay_of_the_ring() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        node.0.batches.borrow_mut().push(recorded_batch());
        let delay = Duration::from_secs(2);
        node.0.ring_delay.set(delay);
        let began = time::Instant::now();
        let (peer, _, member) = ring(&node, false).await;
        time::sleep(Duration::from_millis(1500)).await;
        let written = (peer.count(Verb::MUTATION_REQ), node.0.stored.borrow().len());
        // If other processes had the core until the delay was over, this shows nothing.
        assert!(written == (0, 0) || began.elapsed() >= delay, "{written:?}");
        until("the end of the batch", || node.0.removed.borrow().len() == 1).await;
        assert_eq!((peer.count(Verb::MUTATION_REQ), node.0.stored.borrow().len()), (2, 2));
        member.stop().await;
    });
}

#[test]
fn a_truncation_begins_in_the_time_of_its_coordinator_or_never() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let table = of_two_replicas().tables().next().unwrap().clone();
        let truncate = || {
            let (keyspace, table) = (table.keyspace.clone(), table.name.clone());
            Payload::Truncate { keyspace, table }
        };
        peer.expires_in_ms.set(9000);
        peer.send(own, 5, Verb::TRUNCATE_REQ, truncate()).await;
        until("the refusal", || peer.count(Verb::FAILURE_RSP) == 1).await;
        peer.expires_in_ms.set(0);
        peer.send(own, 6, Verb::TRUNCATE_REQ, truncate()).await;
        peer.send(own, 7, Verb::SCHEMA_VERSION_REQ, Payload::None).await;
        until("the answer", || peer.count(Verb::SCHEMA_VERSION_RSP) == 1).await;
        let waits = node.0.truncations.borrow().clone();
        assert!(matches!(waits[..], [wait] if wait <= Duration::from_secs(9)), "{waits:?}");
        member.stop().await;
    });
}

/// Other batches come first: one of a table that does not exist, which is removed, and many that
/// wait for a node that is down. The member finishes the batch behind them nevertheless.
#[test]
fn a_batch_that_cannot_be_finished_does_not_stop_others() {
    const STUCK: usize = 20;
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_replicas("3"));
        let dead = SocketAddr::from(([127, 0, 0, 1], 1));
        let unknown = Batch::of_parts(
            Uuid::from_u128(1),
            time::now_micros() - 11 * 86_400_000_000,
            &[Bytes::copy_from_slice(&[[1].as_slice(), &[7; 16]].concat())],
        );
        let last = Batch::of_parts(Uuid::from_u128(2), time::now_micros() - 10_000_000, &[]);
        let recorded = recorded_batch();
        let stuck =
            |number: usize| Batch { id: Uuid::from_u128(number as u128), ..recorded.clone() };
        let mut batches = vec![unknown.clone()];
        batches.extend((3..3 + STUCK).map(stuck));
        batches.push(last.clone());
        *node.0.batches.borrow_mut() = batches;
        let began = time::Instant::now();
        let (peer, own, member) = ring_with(&node, false, Some(dead)).await;
        until("the batches", || node.0.removed.borrow().len() == 2).await;
        // The member waits 2 s for the dead node once, and not for each of the batches.
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!(*node.0.removed.borrow(), [unknown.id, last.id]);
        // The live replicas have the writes of the batches that stay.
        until("the writes", || peer.count(Verb::MUTATION_REQ) == 2 * STUCK).await;
        assert_eq!(node.0.stored.borrow().len(), 2 * STUCK);
        let ahead = Batch { created_us: time::now_micros() + 7_200_000_000, ..recorded_batch() };
        peer.send(own, 9, Verb::BATCH_STORE_REQ, Payload::BatchStore(ahead)).await;
        until("the refusal", || peer.count(Verb::FAILURE_RSP) == 1).await;
        member.stop().await;
    });
}

#[test]
fn a_hint_of_another_replica_goes_to_it() {
    block_on(async {
        for refuses in [false, true] {
            let node = TestNode::default();
            *node.0.schema.borrow_mut() = Some(of_replicas("1"));
            let (peer, own, member) = ring(&node, refuses).await;
            let mutations = recorded_batch().mutations(&*of_replicas("1")).unwrap();
            let mut mutation = mutations.into_iter().next().unwrap();
            mutation.updates.truncate(1);
            // The peer has the tokens above the member's token, up to its own; the member has the
            // rest.
            let mut keys = (1000..9999).map(|number: i32| Bytes::from(number.to_string()));
            let mut key = |is_peers: bool| {
                let is_there = |key: &Bytes| {
                    let token = DecoratedKey::new(key.clone()).token.0;
                    (1..=i64::MAX / 2).contains(&token) == is_peers
                };
                keys.find(is_there).unwrap()
            };
            for (id, is_peers) in [(5, true), (6, false)] {
                let mut mutation = mutation.clone();
                mutation.updates[0].partition.key = key(is_peers);
                let (host, created_ms) = (Uuid::from_u128(1), time::now_millis());
                let hint = Hint { host, created_ms, gc_grace_seconds: 864_000, mutation };
                peer.send(own, id, Verb::HINT_REQ, Payload::Hint(hint)).await;
            }
            until("the answers", || {
                peer.count(Verb::HINT_RSP) + peer.count(Verb::FAILURE_RSP) == 2
            })
            .await;
            assert_eq!(peer.count(Verb::FAILURE_RSP), usize::from(refuses));
            assert_eq!(peer.count(Verb::MUTATION_REQ), 1);
            assert_eq!(node.0.stored.borrow().len(), 1);
            member.stop().await;
        }
    });
}

#[test]
fn a_write_is_forwarded_to_the_replicas_that_it_names() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let write = recorded_batch().mutations(&*of_two_replicas()).unwrap().remove(0);
        let targets = [(peer.address, 99), (SocketAddr::from(([127, 0, 0, 9], 1)), 100)];
        let parameters = vec![Parameter::forward_to(&targets)];
        let payload = Payload::Mutation(write.clone());
        peer.send_with(own, (5, Verb::MUTATION_REQ), payload, parameters).await;
        until("the answer and the forwarded write", || {
            peer.count(Verb::MUTATION_RSP) == 1 && peer.count(Verb::MUTATION_REQ) == 1
        })
        .await;
        let forwarded = |(_, message): &&(_, Message)| message.header.verb == Verb::MUTATION_REQ;
        let (_, message) = peer.arrived.borrow().iter().find(forwarded).unwrap().clone();
        assert_eq!((message.header.id, message.header.respond_to()), (99, Ok(Some(peer.address))));
        assert!(message.header.forward_to().unwrap().is_empty());
        assert!(message.header.flags.contains(MessageFlags::CALL_BACK_ON_FAILURE));
        assert_eq!(message.header.expires_in_ms, peer.expires_in_ms.get());
        let schema = of_two_replicas();
        let found = Payload::decode(Verb::MUTATION_REQ, VERSION, &message.payload, &*schema);
        let Ok(Payload::Mutation(found)) = found else { panic!() };
        assert_eq!(found.updates[0].partition.key, write.updates[0].partition.key);
        assert_eq!(node.0.stored.borrow().len(), 1);
        // A write that names a replica twice is refused.
        let parameters = vec![Parameter::forward_to(&[targets[0], (peer.address, 101)])];
        let payload = Payload::Mutation(write);
        peer.send_with(own, (6, Verb::MUTATION_REQ), payload, parameters).await;
        until("the refusal", || peer.count(Verb::FAILURE_RSP) == 1).await;
        assert_eq!((peer.count(Verb::MUTATION_REQ), node.0.stored.borrow().len()), (1, 1));
        member.stop().await;
    });
}

/// The coordinator has a hint of such a write, and the table may have been truncated.
#[test]
fn expired_writes_are_not_stored() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let write = recorded_batch().mutations(&*of_two_replicas()).unwrap().remove(0);
        peer.expires_in_ms.set(0);
        for verb in [Verb::MUTATION_REQ, Verb::READ_REPAIR_REQ] {
            peer.send(own, 5, verb, Payload::Mutation(write.clone())).await;
        }
        peer.send(own, 6, Verb::BATCH_STORE_REQ, Payload::BatchStore(recorded_batch())).await;
        peer.expires_in_ms.set(9000);
        peer.send(own, 7, Verb::MUTATION_REQ, Payload::Mutation(write)).await;
        until("the answer", || peer.count(Verb::MUTATION_RSP) == 1).await;
        assert_eq!(node.0.stored.borrow().len(), 1);
        assert_eq!((peer.count(Verb::BATCH_STORE_RSP), peer.count(Verb::READ_REPAIR_RSP)), (0, 0));
        member.stop().await;
    });
}

/// The node asks for the schema after its first check of the time, and before it decodes the write.
#[test]
fn writes_that_expire_while_they_are_decoded_are_not_stored() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let write = recorded_batch().mutations(&*of_two_replicas()).unwrap().remove(0);
        let sent = [
            (Verb::MUTATION_REQ, Payload::Mutation(write.clone())),
            (Verb::READ_REPAIR_REQ, Payload::Mutation(write)),
            (Verb::BATCH_STORE_REQ, Payload::BatchStore(recorded_batch())),
        ];
        peer.expires_in_ms.set(200);
        node.0.schema_ms.set(250);
        for (count, (verb, payload)) in (1..).zip(sent) {
            peer.send(own, count, verb, payload).await;
            until("the end of the request", || {
                let expired = expired_requests(&member);
                let stored = node.0.stored.borrow().len() + node.0.batches.borrow().len();
                expired + stored as u64 == count
            })
            .await;
            assert_eq!(expired_requests(&member), count, "{verb}");
        }
        member.stop().await;
    });
}

/// Cassandra takes `c0 80` as text. It sends a refused hint again until the hint expires, and until
/// then no later hint.
#[test]
fn a_hint_with_a_value_that_the_node_refuses_does_not_stop_later_hints() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        for (id, text) in [(5, &b"\xc0\x80"[..]), (6, b"text")] {
            let (host, created_ms) = (Uuid::from_u128(1), time::now_millis());
            let mutation = write_of_text(text);
            let hint = Hint { host, created_ms, gc_grace_seconds: 864_000, mutation };
            peer.send(own, id, Verb::HINT_REQ, Payload::Hint(hint)).await;
        }
        let mutation = Payload::Mutation(write_of_text(b"\xc0\x80"));
        peer.send(own, 7, Verb::MUTATION_REQ, mutation).await;
        until("the answers", || {
            (peer.count(Verb::HINT_RSP), peer.count(Verb::FAILURE_RSP)) == (2, 1)
        })
        .await;
        assert_eq!(node.0.stored.borrow().len(), 1);
        member.stop().await;
    });
}

/// Returns a write that has a few bytes more than `bytes`.
fn large_write(bytes: usize) -> RingMutation {
    write_of_text(&vec![b'x'; bytes])
}

/// Returns a write of this text.
fn write_of_text(text: &[u8]) -> RingMutation {
    let mut write = recorded_batch().mutations(&*of_two_replicas()).unwrap().remove(0);
    write.updates.truncate(1);
    let Update { table, partition } = &mut write.updates[0];
    let is_text =
        |id| table.column_by_id(id).is_some_and(|column| column.column_type == CqlType::Text);
    for item in &mut partition.content.as_mut().unwrap().unfiltered {
        let Unfiltered::Row(row) = item else { continue };
        for (id, data) in &mut row.columns {
            if let ColumnData::Simple(cell) = data
                && is_text(*id)
            {
                cell.value = Bytes::copy_from_slice(text);
                return write;
            }
        }
    }
    panic!("no text in {write:?}");
}

/// Forwards five large writes to a replica that does not answer. Returns the time until the member
/// has answered their coordinator.
async fn time_of_forwarded_writes() -> Duration {
    let node = TestNode::default();
    *node.0.schema.borrow_mut() = Some(of_two_replicas());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    // The kernel accepts connections to this replica, and no program answers on them.
    let silent = TcpListener::bind(any, ListenOptions::default()).unwrap();
    let target = silent.local_address().unwrap();
    let (peer, own, member) = ring_with(&node, false, Some(target)).await;
    peer.sends.set(ConnectionKind::Large);
    let began = time::Instant::now();
    for id in 1..=5 {
        let parameters = vec![Parameter::forward_to(&[(target, id)])];
        let payload = Payload::Mutation(large_write(1 << 20));
        peer.send_with(own, (id, Verb::MUTATION_REQ), payload, parameters).await;
    }
    until("the answers", || peer.count(Verb::MUTATION_RSP) == 5).await;
    let passed = began.elapsed();
    member.stop().await;
    passed
}

#[test]
fn a_replica_that_takes_no_forwarded_writes_does_not_stop_the_coordinator() {
    block_on(async {
        // Other processes may have the core, so one ring of several counts.
        let mut least = Duration::MAX;
        for _ in 0..5 {
            least = least.min(time_of_forwarded_writes().await);
            // The member gives up a connection after 2 s, and drops the writes that wait for it.
            if least < Duration::from_millis(1900) {
                return;
            }
        }
        panic!("{least:?}");
    });
}

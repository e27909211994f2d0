//! A hostile peer sends messages of each kind over a socket: cut at each byte, or with one byte
//! flipped or repeated. The member does not panic, answers each request once, acknowledges no
//! mutation or batch that it has not stored as decoded, and keeps no large memory. Hints and steps
//! of Paxos are not compared with the writes that are stored.

use std::collections::{BTreeMap, BTreeSet};

use espalier_internode::{
    DecodeError,
    payload::{Commit, Partition, Update},
};
use espalier_runtime::{memory::resident_bytes, shard::loop_report};

use super::*;

/// Limit of the growth of the process while the peer sends, in bytes.
const MAX_GROWTH: u64 = 512 << 20;

/// Returns a body of each kind of message. The gate leaves out bodies of 400 bytes or more; a full
/// run adds all recorded bodies.
fn kinds() -> Vec<(Verb, Vec<u8>)> {
    let mut kinds: BTreeMap<u32, (Verb, Vec<u8>)> = BTreeMap::new();
    let mut sent = bodies();
    // The bodies that the member's schema can decode come first, and short ones before long ones.
    let schema = of_two_replicas();
    sent.sort_by_key(|(verb, body)| {
        (Payload::decode(*verb, VERSION, body, &*schema).is_err(), body.len())
    });
    let mut update = None;
    for (verb, body) in &sent {
        if *verb == Verb::MUTATION_REQ
            && let Payload::Mutation(mutation) = decode(*verb, body)
            && mutation.updates[0].table.keyspace == "ks"
        {
            update.get_or_insert(mutation.updates[0].clone());
        }
        kinds.entry(verb.0).or_insert_with(|| (*verb, body.to_vec()));
    }
    let update: Update = update.unwrap();
    let key = update.partition.key.clone();
    let nothing = Partition { key, is_reversed: false, content: None };
    let nothing = Update { table: Arc::clone(&update.table), partition: nothing };
    let ballot =
        Uuid::from_bytes(espalier_types::timeuuid::from_unix_micros(time::now_micros(), 1 << 63));
    let paxos =
        |update: &Update| Payload::Paxos(Box::new(Commit { ballot, update: update.clone() }));
    let truncate = Payload::Truncate { keyspace: "ks".into(), table: "t".into() };
    let made = [
        (Verb::PAXOS_PREPARE_REQ, paxos(&nothing)),
        (Verb::PAXOS_PROPOSE_REQ, paxos(&update)),
        (Verb::PAXOS_COMMIT_REQ, paxos(&update)),
        (Verb::TRUNCATE_REQ, truncate),
        (Verb::ECHO_REQ, Payload::None),
        (Verb::MUTATION_RSP, Payload::None),
        (Verb::FAILURE_RSP, Payload::Failure(FailureReason::Timeout)),
    ];
    for (verb, payload) in made {
        let mut body = Vec::new();
        payload.encode(VERSION, &mut body).unwrap();
        kinds.insert(verb.0, (verb, body));
    }
    if espalier_testing::runs_all() {
        kinds
            .into_values()
            .chain(sent.into_iter().map(|(verb, body)| (verb, body.to_vec())))
            .collect()
    } else {
        kinds.into_values().filter(|(_, body)| body.len() < 400).collect()
    }
}

/// Returns copies of `bytes`: cut at each byte, and with each byte flipped or repeated.
fn changes(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut changes = Vec::new();
    for place in 0..bytes.len() {
        changes.push(bytes[..place].to_vec());
        for bits in [0x01, 0x80, 0xFF] {
            let mut flipped = bytes.to_vec();
            flipped[place] ^= bits;
            changes.push(flipped);
        }
        let mut repeated = bytes.to_vec();
        repeated.insert(place, bytes[place]);
        changes.push(repeated);
    }
    changes
}

fn message(id: u64, verb: Verb, body: Vec<u8>) -> Vec<u8> {
    let header = Header {
        id,
        created_ms: time::now_millis() as u32,
        expires_in_ms: 60_000,
        verb,
        flags: MessageFlags::CALL_BACK_ON_FAILURE,
        parameters: Vec::new(),
    };
    let mut bytes = Vec::new();
    Message { header, payload: body.into() }.encode(&mut bytes);
    bytes
}

/// Returns the bytes of a message in a frame.
fn framed(message: &[u8]) -> Vec<u8> {
    let (mut scratch, mut frames) = (Vec::new(), Vec::new());
    put_message(false, &mut scratch, &mut frames, |out| {
        out.extend_from_slice(message);
        Ok::<_, String>(())
    })
    .unwrap();
    frames
}

/// Opens a connection to the member. Tries again, because the member may refuse connections while
/// it still closes earlier ones.
async fn connect(peer: &Peer, member: SocketAddr) -> TcpStream {
    for _ in 0..30_000 {
        let stream = TcpStream::connect(member).await.unwrap();
        let mut bytes = Vec::new();
        let (kind, framing, from) = (ConnectionKind::Small, Framing::Crc, peer.address);
        Initiate { min_version: 12, max_version: 13, kind, framing, from }.encode(&mut bytes);
        let mut buffer = BytesMut::new();
        if stream.write_all(bytes).await.0.is_ok() && read_some(&stream, &mut buffer).await > 0 {
            return stream;
        }
        time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the member takes no connection");
}

/// The requests that have one answer each, of success or of failure.
const ANSWERED: [Verb; 10] = [
    Verb::MUTATION_REQ,
    Verb::READ_REPAIR_REQ,
    Verb::HINT_REQ,
    Verb::BATCH_STORE_REQ,
    Verb::READ_REQ,
    Verb::RANGE_REQ,
    Verb::PAXOS_PREPARE_REQ,
    Verb::PAXOS_PROPOSE_REQ,
    Verb::PAXOS_COMMIT_REQ,
    Verb::TRUNCATE_REQ,
];

/// The answers that say that a write is stored.
const ACKNOWLEDGED: [Verb; 4] =
    [Verb::MUTATION_RSP, Verb::READ_REPAIR_RSP, Verb::HINT_RSP, Verb::BATCH_STORE_RSP];

#[test]
fn a_hostile_peer_gets_no_false_acknowledgement() {
    block_on(async {
        let node = TestNode::default();
        let database = database().await;
        let schema = of_two_replicas();
        *node.0.schema.borrow_mut() = Some(Arc::clone(&schema));
        *node.0.database.borrow_mut() = Some(database);
        let (peer, own, member) = ring(&node, false).await;
        let before = resident_bytes();
        let mut next = 1_000_000;
        let mut sent_bodies = 0;
        for (verb, body) in kinds() {
            // Only the body is changed, so the member must answer each request once.
            let stream = connect(&peer, own).await;
            let mut acknowledged = 0;
            let changes = changes(&body);
            sent_bodies += changes.len();
            for some in changes.chunks(500) {
                let mut sent = BTreeMap::new();
                for body in some {
                    next += 1;
                    let frames = framed(&message(next, verb, body.clone()));
                    stream.write_all(frames).await.0.unwrap();
                    sent.insert(next, Bytes::copy_from_slice(body));
                }
                acknowledged += check_answers(&peer, &node, verb, &sent, &schema).await;
            }
            // Some recorded bodies are about tables that the member lacks or refuses.
            let takes = match Payload::decode(verb, VERSION, &body.into(), &*schema) {
                Ok(Payload::Mutation(write)) => {
                    let tables = ["t", "maps"];
                    write.updates.iter().all(|update| tables.contains(&&*update.table.name))
                }
                decoded => decoded.is_ok(),
            };
            let must_be_some = takes && matches!(verb, Verb::MUTATION_REQ | Verb::BATCH_STORE_REQ);
            assert!(acknowledged > 0 || !must_be_some, "no change of a {verb} is a sound one");
        }
        println!("{sent_bodies} changed bodies of {} messages", kinds().len());
        let in_gate = [Verb::MUTATION_REQ, Verb::READ_REQ, Verb::PAXOS_COMMIT_REQ];
        let (all, mut sent_heads) = (espalier_testing::runs_all(), 0);
        for (verb, body) in kinds().into_iter().filter(|(verb, _)| all || in_gate.contains(verb)) {
            // These messages have a changed header or frame, so they need no answer.
            let whole = message(7, verb, body);
            let (head, rest) = whole.split_at(whole.len().min(24));
            let of_headers = changes(head).into_iter().map(|head| framed(&[&head, rest].concat()));
            let frames = framed(&whole);
            let of_frames = changes(&frames[..12]).into_iter();
            let of_frames = of_frames.map(|head| [&head, &frames[12..]].concat());
            for bytes in of_headers.chain(of_frames) {
                sent_heads += 1;
                let stream = connect(&peer, own).await;
                let _ = stream.write_all(bytes).await.0;
            }
        }
        println!("{sent_heads} changed headers and frames");
        time::sleep(Duration::from_millis(100)).await;
        let stored = peer.count(Verb::MUTATION_RSP) + peer.count(Verb::READ_REPAIR_RSP);
        assert!(stored <= node.0.stored.borrow().len());
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < MAX_GROWTH, "{grown} bytes");
        assert_eq!(loop_report().unwrap().panicked_tasks, 0);
        peer.arrived.borrow_mut().clear();
        // The member still works, and the hostile messages have left no limit exhausted.
        let stream = connect(&peer, own).await;
        let (_, sound) = kinds().into_iter().find(|(verb, _)| *verb == Verb::MUTATION_REQ).unwrap();
        for id in 1..=2000 {
            let frames = framed(&message(id, Verb::MUTATION_REQ, sound.clone()));
            stream.write_all(frames).await.0.unwrap();
        }
        until("the answers to sound writes", || peer.count(Verb::MUTATION_RSP) == 2000).await;
        member.stop().await;
    });
}

/// A message that announces many bytes and brings few of them must not keep the room of all peers.
#[test]
fn the_begin_of_a_large_message_does_not_stop_other_writes() {
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let large = framed(&message(7, Verb::MUTATION_REQ, vec![0; 40 << 20]));
        let stream = connect(&peer, own).await;
        stream.write_all(large[..300 << 10].to_vec()).await.0.unwrap();
        let mut buffer = BytesMut::new();
        assert_eq!(read_some(&stream, &mut buffer).await, 0, "the member closes the connection");
        let (_, sound) = kinds().into_iter().find(|(verb, _)| *verb == Verb::MUTATION_REQ).unwrap();
        let stream = connect(&peer, own).await;
        let frames = framed(&message(8, Verb::MUTATION_REQ, sound));
        stream.write_all(frames).await.0.unwrap();
        until("the answer to a sound write", || peer.count(Verb::MUTATION_RSP) == 1).await;
        // The member permits this length, but waits at most 5 s for the next bytes.
        let stream = connect(&peer, own).await;
        let large = framed(&message(9, Verb::MUTATION_REQ, vec![0; 10 << 20]));
        stream.write_all(large[..300 << 10].to_vec()).await.0.unwrap();
        let began = time::Instant::now();
        assert_eq!(read_some(&stream, &mut buffer).await, 0, "the member closes the connection");
        // The whole message may take 30 s.
        assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
        member.stop().await;
    });
}

/// Checks the answers to changed bodies, and removes the answers and the records of the node.
/// Returns the number of acknowledgements.
async fn check_answers(
    peer: &Peer,
    node: &TestNode,
    verb: Verb,
    sent: &BTreeMap<u64, Bytes>,
    schema: &Schema,
) -> usize {
    if ANSWERED.contains(&verb) {
        until(&format!("an answer to each {verb}"), || {
            let arrived = peer.arrived.borrow();
            let ids = arrived.iter().map(|(_, answer)| answer.header.id);
            ids.filter(|id| sent.contains_key(id)).collect::<BTreeSet<_>>().len() == sent.len()
        })
        .await;
        let arrived = peer.arrived.borrow();
        let answers = arrived.iter().filter(|(_, answer)| sent.contains_key(&answer.header.id));
        assert_eq!(answers.count(), sent.len(), "a {verb} has two answers");
    } else {
        time::sleep(Duration::from_millis(50)).await;
    }
    let stored = std::mem::take(&mut *node.0.stored.borrow_mut());
    let batches = std::mem::take(&mut *node.0.batches.borrow_mut());
    let mut acknowledged = 0;
    for (_, answer) in std::mem::take(&mut *peer.arrived.borrow_mut()) {
        let Some(body) = sent.get(&answer.header.id) else { continue };
        assert_ne!(answer.header.verb, Verb::TRUNCATE_RSP, "{verb}");
        if !ACKNOWLEDGED.contains(&answer.header.verb) {
            continue;
        }
        acknowledged += 1;
        match Payload::decode(verb, VERSION, body, schema) {
            Ok(Payload::Mutation(write)) => {
                let write = write.into_mutation().unwrap();
                assert!(stored.contains(&write), "{verb} was acknowledged and not stored");
            }
            Ok(Payload::BatchStore(batch)) => {
                assert!(batches.contains(&batch), "a batch was acknowledged and not kept");
            }
            // The member drops the recorded hint, which is older than gc_grace_seconds, and
            // acknowledges it.
            Ok(Payload::Hint(_)) => {}
            Err(DecodeError::UnknownTable(_)) if verb == Verb::HINT_REQ => {}
            other => panic!("{verb} was acknowledged: {other:?}"),
        }
    }
    if verb == Verb::MUTATION_REQ {
        assert_eq!(acknowledged, stored.len());
    }
    acknowledged
}

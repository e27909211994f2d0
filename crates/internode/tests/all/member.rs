//! Tests a member of a ring with a peer that the test plays over sockets. This file tests which
//! connections carry which messages; its modules test writes, the schema, TLS and a hostile
//! peer.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use espalier_internode::{
    MessagingVersion,
    frame::{DEFAULT_MAX_MESSAGE_BYTES, MessageReader, put_message},
    handshake::{Accept, ConnectionKind, Framing, Initiate},
    message::{Header, Message, MessageFlags, Parameter, Verb},
    paxos::{self, PaxosAnswer, PaxosRequest},
    payload::{
        ApplicationState, Batch, EndpointState, FailureReason, GossipAck, GossipAck2, Hint,
        Mutation as RingMutation, Payload, ReadCommand, VersionedValue, gossip::tokens_value,
    },
    replica::{self, ReadAnswer, ReadFailure, ReadTerms, TombstoneLimits},
    ring::{
        Backend, BatchPage, Compression, LocalFuture, LocalView, RingEncryption, RingMember,
        RingSettings,
    },
};
use espalier_mutation::{
    DecoratedKey, Mutation, Token,
    schema::{KeyspaceMetadata, Schema, TableId},
};
use espalier_runtime::{
    block_on,
    net::{
        ListenOptions, TcpListener, TcpStream,
        tls::{Handshake, TlsAcceptor, TlsConnector},
    },
    spawn_local,
    sync::Event,
    time,
};
use espalier_storage::{Node, ReadPosition, SchemaMerge};
use uuid::Uuid;

mod encrypted;
mod expired;
mod hostile;
mod links;
mod schemas;
mod writes;

use writes::recorded_batch;

use crate::{
    replica_limits::{database, whole_partition, write},
    sent_by_cassandra::{bodies, decode, schema},
};

pub const VERSION: MessagingVersion = MessagingVersion::V13;

/// The node behind the member. It records the writes and batches that it gets from the member.
#[derive(Clone, Default)]
pub struct TestNode(pub Rc<Records>);

#[derive(Default)]
pub struct Records {
    pub schema: RefCell<Option<Arc<Schema>>>,
    /// The time in ms that the node takes to return its schema.
    schema_ms: Cell<i64>,
    pub database: RefCell<Option<Node>>,
    batches: RefCell<Vec<Batch>>,
    stored: RefCell<Vec<Mutation>>,
    /// The outcomes of the next merges of a schema.
    merges: RefCell<VecDeque<Result<SchemaMerge, String>>>,
    /// The time that a merge takes.
    merge_time: Cell<Duration>,
    removed: RefCell<Vec<Uuid>>,
    /// The times within which truncations had to begin. The node refuses them.
    truncations: RefCell<Vec<Duration>>,
    /// The settings' `ring_delay`.
    ring_delay: Cell<Duration>,
}

fn ready<T: 'static>(value: T) -> LocalFuture<T> {
    Box::pin(async move { value })
}

impl Backend for TestNode {
    fn schema(&self) -> Arc<Schema> {
        let returns_at_ms = time::now_millis() + self.0.schema_ms.get();
        while time::now_millis() < returns_at_ms {
            std::thread::yield_now();
        }
        self.0.schema.borrow().clone().unwrap()
    }

    fn take_schema(&self, _: Vec<RingMutation>) -> LocalFuture<Result<SchemaMerge, String>> {
        let outcome = self.0.merges.borrow_mut().pop_front();
        let time = self.0.merge_time.get();
        Box::pin(async move {
            time::sleep(time).await;
            outcome.unwrap_or_else(|| Err("not in this test".into()))
        })
    }

    fn store(&self, write: Mutation) -> LocalFuture<Result<(), String>> {
        self.0.stored.borrow_mut().push(write);
        ready(Ok(()))
    }

    fn store_unless_truncated(&self, write: Mutation, _: i64) -> LocalFuture<Result<(), String>> {
        self.store(write)
    }

    fn truncated_at_us(&self, _: TableId) -> LocalFuture<Result<Option<i64>, String>> {
        ready(Ok(None))
    }

    fn store_batch(&self, batch: Batch) -> LocalFuture<Result<(), String>> {
        self.0.batches.borrow_mut().push(batch);
        ready(Ok(()))
    }

    fn remove_batch(&self, id: Uuid) -> LocalFuture<Result<(), String>> {
        self.0.removed.borrow_mut().push(id);
        ready(Ok(()))
    }

    /// Returns pages of one batch each.
    fn batches(&self, after: Option<ReadPosition>) -> LocalFuture<Result<BatchPage, String>> {
        let batches = self.0.batches.borrow();
        let index = after.map_or(0, |position| position.rows_of_partition);
        let key = DecoratedKey::new(Bytes::from_static(b"batch"));
        let position =
            |rows_of_partition| ReadPosition { key, clustering: None, rows_of_partition };
        let next = (index + 1 < batches.len()).then(|| position(index + 1));
        ready(Ok((batches.iter().skip(index).take(1).cloned().collect(), next)))
    }

    fn truncate(&self, _: TableId, wait: Duration) -> LocalFuture<Result<(), String>> {
        self.0.truncations.borrow_mut().push(wait);
        ready(Err("not in this test".into()))
    }

    fn paxos(&self, request: PaxosRequest) -> LocalFuture<Result<PaxosAnswer, String>> {
        let database = self.0.database.borrow().clone().unwrap();
        Box::pin(async move { paxos::answer(&database, request).await })
    }

    fn read(
        &self,
        command: ReadCommand,
        terms: ReadTerms,
    ) -> LocalFuture<Result<ReadAnswer, ReadFailure>> {
        let database = self.0.database.borrow().clone().unwrap();
        Box::pin(async move { replica::answer(&database, command, terms).await })
    }

    fn tombstone_limits(&self) -> TombstoneLimits {
        TombstoneLimits::default()
    }
}

fn of_two_replicas() -> Arc<Schema> {
    of_replicas("2")
}

/// Returns a schema whose keyspace `ks` has the tables of the recorded messages and `count`
/// replicas.
pub fn of_replicas(count: &str) -> Arc<Schema> {
    let tables = schema().0.into_values().filter(|table| table.keyspace == "ks");
    let tables: BTreeMap<_, _> = tables.map(|table| (table.name.clone(), table)).collect();
    let options = [("class", "SimpleStrategy"), ("replication_factor", count)];
    let keyspace = KeyspaceMetadata {
        replication: options.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        tables,
        ..KeyspaceMetadata::new("ks")
    };
    let keyspaces = [("ks".to_owned(), Arc::new(keyspace))].into();
    Arc::new(Schema::new(keyspaces, Uuid::from_u128(1)))
}

/// The other node of the ring.
pub struct Peer {
    address: SocketAddr,
    /// The messages that have arrived, with the kind of their connection.
    pub arrived: RefCell<Vec<(ConnectionKind, Message)>>,
    out: RefCell<Option<Rc<TcpStream>>>,
    /// The number of connections of the member that have ended.
    ended: Cell<usize>,
    /// The kind of the connection that `send` opens.
    sends: Cell<ConnectionKind>,
    /// The time in ms after which the messages that `send` sends expire.
    pub expires_in_ms: Cell<u64>,
    /// The flags of the messages that `send` sends.
    pub flags: Cell<MessageFlags>,
    /// The address of a further member of the ring, which does not run.
    dead: Option<SocketAddr>,
    /// True if the peer answers each write with a failure.
    refuses: bool,
    /// True if the peer answers each pull of the schema with the id of an earlier message.
    answers_earlier_pulls: Cell<bool>,
    /// The TLS of the peer's connections; `None` for plain ones.
    tls: Option<Tls>,
}

/// Both sides of encrypted connections.
#[derive(Clone)]
struct Tls(Arc<TlsAcceptor>, Arc<TlsConnector>);

async fn read_some(stream: &TcpStream, buffer: &mut BytesMut) -> usize {
    buffer.reserve(1 << 16);
    let (read, back) = stream.read(std::mem::take(buffer)).await;
    *buffer = back;
    read.unwrap_or(0)
}

impl Peer {
    /// Creates a peer and begins to listen. The peer connects to the member when it sends its first
    /// message.
    fn start(
        member: SocketAddr,
        refuses: bool,
        dead: Option<SocketAddr>,
        tls: Option<Tls>,
    ) -> Rc<Self> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(any, ListenOptions::default()).unwrap();
        let address = listener.local_address().unwrap();
        let (arrived, out, ended) = (RefCell::default(), RefCell::default(), Cell::default());
        let sends = Cell::new(ConnectionKind::Small);
        let flags = Cell::new(MessageFlags::CALL_BACK_ON_FAILURE);
        let expires_in_ms = Cell::new(60_000);
        let peer = Rc::new(Self {
            address,
            arrived,
            out,
            ended,
            sends,
            expires_in_ms,
            flags,
            dead,
            refuses,
            answers_earlier_pulls: Cell::default(),
            tls,
        });
        let accepting = Rc::clone(&peer);
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                spawn_local(Rc::clone(&accepting).serve(stream, member)).detach();
            }
        })
        .detach();
        peer
    }

    async fn serve(self: Rc<Self>, stream: TcpStream, member: SocketAddr) {
        let stream = match &self.tls {
            None => stream,
            Some(Tls(acceptor, _)) => {
                let accepted = acceptor.accept(stream, Handshake::Required).await;
                accepted.expect("a TLS handshake of the member")
            }
        };
        let mut buffer = BytesMut::new();
        let initiate = loop {
            if let Some((initiate, length)) =
                Initiate::decode(&Bytes::copy_from_slice(&buffer)).unwrap()
            {
                let _ = buffer.split_to(length);
                break initiate;
            }
            if read_some(&stream, &mut buffer).await == 0 {
                return;
            }
        };
        let mut answer = Vec::new();
        Accept { max_version: 13, use_version: 13 }.encode(&mut answer);
        stream.write_all(answer).await.0.unwrap();
        let mut reader = MessageReader::new(false, DEFAULT_MAX_MESSAGE_BYTES);
        loop {
            while let Some(bytes) = reader.next(&mut buffer).unwrap() {
                let message = Message::decode(&bytes).unwrap();
                self.answer(&message, member).await;
                self.arrived.borrow_mut().push((initiate.kind, message));
            }
            if read_some(&stream, &mut buffer).await == 0 {
                self.ended.set(self.ended.get() + 1);
                return;
            }
        }
    }

    async fn answer(&self, message: &Message, member: SocketAddr) {
        let id = message.header.id;
        match message.header.verb {
            Verb::GOSSIP_DIGEST_SYN => {
                let digests = Payload::decode(
                    Verb::GOSSIP_DIGEST_SYN,
                    VERSION,
                    &message.payload,
                    &*of_two_replicas(),
                );
                let Ok(Payload::GossipSyn(syn)) = digests else { panic!() };
                // The member's first SYN has no digests. The answer has the states with which the
                // member joins.
                if syn.digests.is_empty() {
                    let mut states = vec![(self.address, self.state(2, i64::MAX / 2))];
                    let of_dead = |dead| (dead, self.state(3, i64::MIN / 2));
                    states.extend(self.dead.map(of_dead));
                    let ack = GossipAck { digests: Vec::new(), states };
                    let ack = Payload::GossipAck(ack);
                    self.send(member, id, Verb::GOSSIP_DIGEST_ACK, ack).await;
                }
            }
            Verb::SCHEMA_PULL_REQ => {
                let rows = Payload::Schema(Vec::new());
                let id = if self.answers_earlier_pulls.get() { id - 1 } else { id };
                self.send(member, id, Verb::SCHEMA_PULL_RSP, rows).await;
            }
            Verb::MUTATION_REQ if self.refuses => {
                let failure = Payload::Failure(FailureReason::Unknown);
                self.send(member, id, Verb::FAILURE_RSP, failure).await;
            }
            Verb::MUTATION_REQ => {
                self.send(member, id, Verb::MUTATION_RSP, Payload::None).await;
            }
            _ => {}
        }
    }

    fn state(&self, host_id: u128, token: i64) -> EndpointState {
        use ApplicationState::{Dc, HostId, Rack, StatusWithPort, Tokens};
        let values = [
            (HostId, Uuid::from_u128(host_id).to_string()),
            (Tokens, tokens_value(&[Token(token)])),
            (Dc, "datacenter1".to_owned()),
            (Rack, "rack1".to_owned()),
            (StatusWithPort, format!("NORMAL,{token}")),
        ];
        let states = values.map(|(kind, value)| (kind, VersionedValue { value, version: 3 }));
        EndpointState { generation: 1_700_000_000, heartbeat: 5, states: states.into() }
    }

    pub async fn send(&self, member: SocketAddr, id: u64, verb: Verb, payload: Payload) {
        self.send_with(member, (id, verb), payload, Vec::new()).await;
    }

    async fn send_with(
        &self,
        member: SocketAddr,
        (id, verb): (u64, Verb),
        payload: Payload,
        parameters: Vec<Parameter>,
    ) {
        let open = self.out.borrow().clone();
        let stream = match open {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(member).await.unwrap();
                let stream = Rc::new(match &self.tls {
                    None => stream,
                    Some(Tls(_, connector)) => {
                        connector.connect(stream, member.ip()).await.unwrap()
                    }
                });
                let mut bytes = Vec::new();
                let (kind, framing) = (self.sends.get(), Framing::Crc);
                let from = self.address;
                Initiate { min_version: 12, max_version: 13, kind, framing, from }
                    .encode(&mut bytes);
                stream.write_all(bytes).await.0.unwrap();
                let mut buffer = BytesMut::new();
                while Accept::decode(&Bytes::copy_from_slice(&buffer)).unwrap().is_none() {
                    assert!(read_some(&stream, &mut buffer).await > 0);
                }
                *self.out.borrow_mut() = Some(Rc::clone(&stream));
                stream
            }
        };
        let mut encoded = Vec::new();
        payload.encode(VERSION, &mut encoded).unwrap();
        let header = Header {
            id,
            created_ms: time::now_millis() as u32,
            expires_in_ms: self.expires_in_ms.get(),
            verb,
            flags: self.flags.get(),
            parameters,
        };
        let (mut scratch, mut frames) = (Vec::new(), Vec::new());
        put_message(false, &mut scratch, &mut frames, |out| {
            Message { header, payload: encoded.into() }.encode(out);
            Ok::<_, String>(())
        })
        .unwrap();
        stream.write_all(frames).await.0.unwrap();
    }

    fn count(&self, verb: Verb) -> usize {
        self.arrived.borrow().iter().filter(|(_, message)| message.header.verb == verb).count()
    }
}

/// Waits for a condition, for at most 60 s. After the first failure it waits for at most 20 s
/// (arbitrary), so that the tests end soon even if a fault stops all members.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    static HAS_WAITED_IN_VAIN: AtomicBool = AtomicBool::new(false);
    let seconds = if HAS_WAITED_IN_VAIN.load(Ordering::Relaxed) { 20 } else { 60 };
    let deadline = time::Instant::now() + Duration::from_secs(seconds);
    while !condition() {
        if time::Instant::now() >= deadline {
            HAS_WAITED_IN_VAIN.store(true, Ordering::Relaxed);
            panic!("{what} did not happen within {seconds} s");
        }
        time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the number of requests that the member has dropped because they had expired.
fn expired_requests(member: &RingMember) -> u64 {
    let counts = member.metrics().counts();
    let expired = counts.iter().find(|(name, ..)| *name == "espalier_ring_reads_expired");
    expired.unwrap().2
}

/// Starts a peer, and a member whose seed is the peer.
pub async fn ring(node: &TestNode, refuses: bool) -> (Rc<Peer>, SocketAddr, Rc<RingMember>) {
    ring_with(node, refuses, None).await
}

async fn ring_with(
    node: &TestNode,
    refuses: bool,
    dead: Option<SocketAddr>,
) -> (Rc<Peer>, SocketAddr, Rc<RingMember>) {
    ring_over(node, refuses, dead, (None, None)).await
}

/// Starts both as [`ring_with`] does, with the TLS of the peer and of the member.
async fn ring_over(
    node: &TestNode,
    refuses: bool,
    dead: Option<SocketAddr>,
    (of_peer, of_member): (Option<Tls>, Option<RingEncryption>),
) -> (Rc<Peer>, SocketAddr, Rc<RingMember>) {
    let [own] = espalier_testing::free_addresses();
    let peer = Peer::start(own, refuses, dead, of_peer);
    let settings = RingSettings {
        cluster_name: "ring".into(),
        listen: own,
        broadcast: own,
        seeds: vec![peer.address],
        tokens: vec![Token(0)],
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        compression: Compression::default(),
        encryption: of_member,
        version: VERSION,
        ring_delay: node.0.ring_delay.get(),
    };
    let local = LocalView {
        host_id: Uuid::from_u128(1),
        saved_tokens: Vec::new(),
        generation: 1_795_000_000,
        release_version: "5.0.9".into(),
        native: own,
        sstable_versions: "big-nb".into(),
    };
    let started = RingMember::start(settings, local, Box::new(node.clone()), &Event::new()).await;
    (peer, own, started.unwrap().unwrap())
}

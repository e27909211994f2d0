//! The tasks of a member of a ring.
//!
//! A member lives on one shard. It listens for its peers, gossips each second, and connects to a
//! peer when it has something to send.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, hash_map::Entry},
    io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use espalier_runtime::{
    JoinHandle,
    log_limit::LogLimit,
    net::{ListenOptions, TcpListener, tls::TlsError},
    random, spawn_local,
    sync::Event,
    time::{self, Instant},
};
use uuid::Uuid;

use super::{
    Backend, GossipEvent, Gossiper, LocalView, RingMetrics, RingSettings,
    batches::BatchLog,
    encryption::Encryption,
    gossiper::{MAX_ENDPOINTS, Outgoing},
    inbound::{self, InboundConnections},
    outbound::{Peer, Queued},
    reads::Reads,
    replicas::TokenRing,
    requests::Requests,
    room::Room,
    schema::RingSchema,
    shadow::{self, JoinError, Joining},
};
use crate::{
    message::Verb,
    payload::{ApplicationState, Payload},
};

/// The period of gossip. Peers expect this period.
const GOSSIP_PERIOD: Duration = Duration::from_secs(1);
/// Time for which a stopping member waits, so that its queues can send the shutdown messages.
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of peers with queues. Arbitrary: the endpoints of gossip, and as many others.
const MAX_PEERS: usize = 2 * MAX_ENDPOINTS;

/// The reason why a node is no member of the ring.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The node cannot listen for its peers.
    #[error(transparent)]
    Listen(#[from] io::Error),
    /// Its certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The node cannot join the ring.
    #[error(transparent)]
    Join(JoinError),
}

/// A member of a ring.
pub struct RingMember {
    pub(super) settings: RingSettings,
    /// The TLS of connections; `None` if they are plain.
    pub(super) encryption: Option<Encryption>,
    pub(super) host_id: Uuid,
    pub(super) gossiper: RefCell<Gossiper>,
    pub(super) metrics: Arc<RingMetrics>,
    pub(super) stopped: Event,
    pub(super) backend: Box<dyn Backend>,
    pub(super) schema: RefCell<RingSchema>,
    /// The state of the join, until the node has taken its place.
    pub(super) joining: RefCell<Option<Joining>>,
    /// The log lines that peers can cause: one a minute of each kind.
    pub(super) log_limit: LogLimit,
    pub(super) room: Room,
    pub(super) reads: Reads,
    pub(super) requests: Requests,
    pub(super) batch_log: BatchLog,
    pub(super) inbound: InboundConnections,
    /// The cached tokens of all nodes; `None` once gossip may have changed them.
    pub(super) token_ring: RefCell<Option<Rc<TokenRing>>>,
    peers: RefCell<HashMap<SocketAddr, Peer>>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    began: Instant,
    next_id: Cell<u64>,
}

impl RingMember {
    /// Listens for peers, asks the seeds whether the node's place is free, and begins to gossip.
    /// Returns `None` if `stop` is set before.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses to listen on the address, if the certificates cannot be used, or
    /// if the node cannot join the ring (see [`JoinError`]).
    pub async fn start(
        settings: RingSettings,
        local: LocalView,
        backend: Box<dyn Backend>,
        stop: &Event,
    ) -> Result<Option<Rc<Self>>, StartError> {
        let encryption = match &settings.encryption {
            Some(encryption) => Some(Encryption::load(encryption).await?),
            None => None,
        };
        let listener = TcpListener::bind(settings.listen, ListenOptions::default())?;
        let member = Rc::new(Self {
            gossiper: RefCell::new(settings.gossiper(&local)),
            settings,
            encryption,
            host_id: local.host_id,
            metrics: Arc::default(),
            stopped: Event::new(),
            backend,
            schema: RefCell::default(),
            joining: RefCell::new(Some(Joining::default())),
            log_limit: LogLimit::at_most(1),
            room: Room::default(),
            reads: Reads::default(),
            requests: Requests::default(),
            batch_log: BatchLog::default(),
            inbound: InboundConnections::default(),
            token_ring: RefCell::default(),
            peers: RefCell::default(),
            tasks: RefCell::default(),
            began: Instant::now(),
            next_id: Cell::new(1),
        });
        let accepting = spawn_local(inbound::accept_all(Rc::clone(&member), listener));
        let joined = member.join(local, stop).await;
        if !matches!(joined, Ok(true)) {
            member.stopped.set();
            accepting.cancel().await;
            member.peers.borrow_mut().clear();
            return joined.map(|_| None).map_err(StartError::Join);
        }
        let gossiping = spawn_local(Rc::clone(&member).gossip());
        let finishing = spawn_local(Rc::clone(&member).finish_batches());
        *member.tasks.borrow_mut() = vec![accepting, gossiping, finishing];
        Ok(Some(member))
    }

    /// Takes the node's place in the ring, if it is free. Returns `false` if the node stops.
    async fn join(self: &Rc<Self>, local: LocalView, stop: &Event) -> Result<bool, JoinError> {
        let Some((seed, ack)) = self.ask_seeds(stop).await? else { return Ok(false) };
        let tokens = self.settings.tokens_of(&local);
        let known = shadow::check(&ack.states, self.settings.broadcast, local.host_id, tokens)?;
        // The ring accepts states of this node only in a greater generation than the known one.
        let next = known.map_or(i32::MIN, |known| known.saturating_add(1));
        let local = LocalView { generation: local.generation.max(next), ..local };
        *self.gossiper.borrow_mut() = self.settings.gossiper(&local);
        *self.joining.borrow_mut() = None;
        let outgoing = self.gossiper.borrow_mut().on_ack(seed, ack, self.now());
        self.send_all(outgoing);
        Ok(true)
    }

    /// Returns the counts.
    pub fn metrics(&self) -> Arc<RingMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Announces the shutdown to live peers, and ends the tasks.
    pub async fn stop(self: &Rc<Self>) {
        self.stopped.set();
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        for task in tasks {
            task.cancel().await;
        }
        let state = {
            let mut gossiper = self.gossiper.borrow_mut();
            gossiper.set(ApplicationState::StatusWithPort, "shutdown,true");
            gossiper.set(ApplicationState::Status, "shutdown,true");
            gossiper.own_state()
        };
        let live: Vec<_> = self.gossiper.borrow().live_peers().map(|(peer, _)| peer).collect();
        for peer in live {
            let payload = Payload::GossipShutdown(Some(state.clone()));
            self.send(peer, self.queued(Verb::GOSSIP_SHUTDOWN, payload));
        }
        time::sleep(SHUTDOWN_PAUSE).await;
        // Dropping the queues ends their tasks.
        self.peers.borrow_mut().clear();
    }

    async fn gossip(self: Rc<Self>) {
        let mut seconds = time::interval(GOSSIP_PERIOD);
        loop {
            seconds.tick().await;
            let mut below = |bound: usize| random::below(bound as u64) as usize;
            let now = self.now();
            let outgoing = self.gossiper.borrow_mut().tick(now, &mut below);
            self.send_all(outgoing);
            self.token_ring.take();
            self.report_events();
            self.pull_schema();
            self.peers.borrow_mut().retain(|_, peer| !peer.is_idle());
        }
    }

    /// Returns the time of gossip's clock.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn queued(&self, verb: Verb, payload: Payload) -> Queued {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        Queued::new(id, verb, payload)
    }

    pub(super) fn send_all(self: &Rc<Self>, outgoing: impl IntoIterator<Item = Outgoing>) {
        for Outgoing { to, verb, payload } in outgoing {
            let message = self.queued(verb, payload);
            self.send(to, message);
        }
    }

    /// Queues a message. Drops it if the receiver is unknown, if the queue is full, or if too many
    /// forwarded writes wait; the network may drop messages, too.
    pub(super) fn send(self: &Rc<Self>, to: SocketAddr, message: Queued) {
        let verb = message.verb;
        let outcome = if self.is_peer(to) { self.queue(to, message) } else { Err("no peer") };
        if let Err(reason) = outcome {
            self.metrics.dropped.add(1);
            if self.log_limit.is_due("dropped a message") {
                tracing::warn!(peer = %to, %verb, reason, "dropped a message to a peer");
            }
        }
    }

    /// Returns whether the node sends to an address: that of a seed, an endpoint of gossip, or a
    /// node with an open connection. A hostile peer could invent other addresses.
    fn is_peer(&self, address: SocketAddr) -> bool {
        self.settings.seeds.contains(&address)
            || self.gossiper.borrow().endpoints().contains_key(&address)
            || self.inbound.is_open(address)
    }

    fn queue(self: &Rc<Self>, to: SocketAddr, message: Queued) -> Result<(), &'static str> {
        let mut peers = self.peers.borrow_mut();
        let is_full = peers.len() >= MAX_PEERS;
        let peer = match peers.entry(to) {
            Entry::Occupied(peer) => peer.into_mut(),
            Entry::Vacant(_) if is_full => return Err("too many peers"),
            Entry::Vacant(place) => place.insert(Peer::default()),
        };
        peer.send(self, to, message).map_err(|_| "too many messages wait")
    }

    pub(super) fn report_events(&self) {
        let events = self.gossiper.borrow_mut().take_events();
        if !events.is_empty() {
            self.token_ring.take();
        }
        for event in events {
            match event {
                GossipEvent::Up(peer) => tracing::info!(%peer, "a node of the ring is up"),
                GossipEvent::Down(peer) => {
                    tracing::info!(%peer, "a node of the ring is down");
                    // When the network works again, the kernel may wait up to 2 min before it sends
                    // on an open connection. A new connection carries messages at once.
                    self.peers.borrow_mut().remove(&peer);
                }
                GossipEvent::Changed(peer) => tracing::debug!(%peer, "a node changed its states"),
            }
        }
    }
}

//! The tasks of a member of a ring.
//!
//! A member lives on one shard. It listens for its peers, gossips each second, and connects to a
//! peer when it has something to send.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use espalier_runtime::{
    JoinHandle,
    net::{ListenOptions, TcpListener},
    random, spawn_local,
    sync::Event,
    time::{self, Instant},
};

use super::{
    Backend, GossipEvent, Gossiper, LocalView, RingMetrics, RingSettings,
    gossiper::Outgoing,
    inbound,
    outbound::{Peer, Queued},
    schema::RingSchema,
};
use crate::{
    message::Verb,
    payload::{ApplicationState, Payload},
};

/// The period of gossip, which peers expect.
const GOSSIP_PERIOD: Duration = Duration::from_secs(1);
/// How long a member that stops waits for its shutdown messages to leave.
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(500);

/// A member of a ring.
pub struct RingMember {
    pub(super) settings: RingSettings,
    pub(super) gossiper: RefCell<Gossiper>,
    pub(super) metrics: Arc<RingMetrics>,
    pub(super) stopped: Event,
    pub(super) backend: Box<dyn Backend>,
    pub(super) schema: RefCell<RingSchema>,
    /// When the last refused request of a verb was logged.
    pub(super) warned: RefCell<HashMap<Verb, Instant>>,
    peers: RefCell<HashMap<SocketAddr, Peer>>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    began: Instant,
    next_id: Cell<u64>,
}

impl RingMember {
    /// Listens for peers and begins to gossip.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses to listen on the address.
    pub fn start(
        settings: RingSettings,
        local: &LocalView,
        backend: Box<dyn Backend>,
    ) -> io::Result<Rc<Self>> {
        let listener = TcpListener::bind(settings.listen, ListenOptions::default())?;
        let member = Rc::new(Self {
            gossiper: RefCell::new(settings.gossiper(local)),
            settings,
            metrics: Arc::default(),
            stopped: Event::new(),
            backend,
            schema: RefCell::default(),
            warned: RefCell::default(),
            peers: RefCell::default(),
            tasks: RefCell::default(),
            began: Instant::now(),
            next_id: Cell::new(1),
        });
        let accepting = spawn_local(inbound::accept_all(Rc::clone(&member), listener));
        let gossiping = spawn_local(Rc::clone(&member).gossip());
        *member.tasks.borrow_mut() = vec![accepting, gossiping];
        Ok(member)
    }

    /// Returns the counts.
    pub fn metrics(&self) -> Arc<RingMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Announces the shutdown to live peers, and ends the tasks.
    pub async fn stop(&self) {
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
        for peer in self.peers.borrow().values() {
            let payload = Payload::GossipShutdown(Some(state.clone()));
            peer.send(self.queued(Verb::GOSSIP_SHUTDOWN, payload));
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
            self.report_events();
            self.pull_schema();
        }
    }

    /// Returns the time of the gossip's clock.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn queued(&self, verb: Verb, payload: Payload) -> Queued {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        Queued { id, verb, payload }
    }

    pub(super) fn send_all(self: &Rc<Self>, outgoing: impl IntoIterator<Item = Outgoing>) {
        for Outgoing { to, verb, payload } in outgoing {
            let message = self.queued(verb, payload);
            self.send(to, message);
        }
    }

    /// Queues a message. A message for which there is no room is dropped, as the network may do.
    pub(super) fn send(self: &Rc<Self>, to: SocketAddr, message: Queued) {
        let verb = message.verb;
        let mut peers = self.peers.borrow_mut();
        let peer = peers.entry(to).or_insert_with(|| Peer::start(self, to));
        if !peer.send(message) {
            self.metrics.count_dropped();
            tracing::warn!(peer = %to, %verb, "dropped a message, because the queue is full");
        }
    }

    pub(super) fn report_events(&self) {
        let events = self.gossiper.borrow_mut().take_events();
        for event in events {
            match event {
                GossipEvent::Up(peer) => tracing::info!(%peer, "a node of the ring is up"),
                GossipEvent::Down(peer) => tracing::info!(%peer, "a node of the ring is down"),
                GossipEvent::Changed(peer) => tracing::debug!(%peer, "a node changed its states"),
            }
        }
    }
}

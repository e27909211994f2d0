//! The server of one shard: its parts, its start and stop, and the way in which other shards find
//! it.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use espalier_cql::QueryProcessor;
use espalier_runtime::log_limit::LogLimit;
use espalier_runtime::net::{ListenOptions, TcpListener};
use espalier_runtime::shard::loop_report;
use espalier_runtime::sync::{Gate, Semaphore};
use espalier_runtime::time::{self, Instant};
use espalier_runtime::{JoinHandle, ShardContext, preempt, spawn_local};
use espalier_storage::ConnectedClient;
use futures_util::FutureExt;

use crate::admin;
use crate::admission::{ConnectionCounter, RequestAdmission};
use crate::answers::AnswerMemory;
use crate::audit::AuditLog;
use crate::certificates::{Certificates, ReloadCertificates};
use crate::columns::ColumnCache;
use crate::config::ServerConfig;
use crate::connection::Connection;
use crate::events::EventRegistry;
use crate::listener::{Placement, Port, accept_all};
use crate::metrics::{Sample, ShardSamples, TransportMetrics, scheduling_samples, storage_samples};
use crate::options::ShardInfo;
use crate::planning::PlanMemory;
use crate::traces::Traces;

/// Limit of concurrent requests of one shard that read pages of rows, because each holds up to a
/// page. It equals the default number of threads with which Cassandra serves requests
/// (`native_transport_max_threads`).
const MAX_ROW_READERS: usize = 128;

/// Limit of concurrent requests of one shard that read the node's own tables. Arbitrary: eight
/// connections that read all the time fill it.
const MAX_OWN_TABLE_READERS: usize = 16;

/// Lower bound of a shard's limits of unsent bytes and of answers, for a node with little memory:
/// some pages.
const MIN_UNSENT_LIMIT: usize = 32 << 20;

/// Lower bound of the limit of answers for the clients of one address: some pages.
const MIN_ANSWERS_OF_ADDRESS: usize = 16 << 20;

/// Options of the listeners for clients: every shard listens on the same addresses.
const SHARED: ListenOptions = ListenOptions { shared: true, backlog: 1024 };

/// Lines of one kind that the clients of a shard can cause in the log in a minute. Arbitrary.
const MAX_LOG_LINES: u32 = 10;

/// Time for which a stop waits for requests under way.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    /// The server of the calling shard, for calls that come from other shards.
    static CURRENT: RefCell<Weak<ShardServer>> = const { RefCell::new(Weak::new()) };
}

/// The moment of the node's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    /// The moment by the monotonic clock, for the uptime.
    pub at: Instant,
    /// The second since 1970, which distinguishes this start from earlier ones, as in Cassandra.
    pub second: i64,
}

/// State that the servers of all shards share.
#[derive(Clone, Debug)]
pub struct SharedState {
    config: Arc<ServerConfig>,
    connections: Arc<ConnectionCounter>,
    audit: Arc<AuditLog>,
    started: Started,
}

impl SharedState {
    /// Creates the state of a node with `shards` shards; the node's uptime begins here.
    pub fn new(config: ServerConfig, shards: usize) -> Self {
        let connections = ConnectionCounter::new(config.connection_limits, shards);
        let audit = AuditLog::new(config.audit.clone());
        let started = Started { at: Instant::now(), second: time::now_seconds() };
        Self { config: Arc::new(config), connections, audit, started }
    }
}

/// A function that returns counters of another part of the node: name, help text and value of each.
pub type Counters = Box<dyn Fn() -> Vec<(&'static str, &'static str, u64)>>;

/// One shard's server.
pub struct ShardServer {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) started: Started,
    pub(crate) shard: ShardInfo,
    pub(crate) processor: QueryProcessor,
    pub(crate) columns: ColumnCache,
    pub(crate) connections: Arc<ConnectionCounter>,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) admission: RequestAdmission,
    pub(crate) events: EventRegistry,
    pub(crate) metrics: TransportMetrics,
    pub(crate) gate: Gate,
    pub(crate) traces: Traces,
    /// The log lines that clients can cause.
    pub(crate) log_limit: LogLimit,
    /// Bytes of responses that this shard's clients have not read yet. Past the limit a client must
    /// read all its answers before it gets more rows.
    pub(crate) unsent_bytes: Cell<usize>,
    pub(crate) max_unsent_bytes: usize,
    /// Requests that wait as tasks. While their memory exceeds the limit, the shard reads fewer
    /// requests of each connection at the same time.
    pub(crate) tasks: Cell<usize>,
    pub(crate) max_task_bytes: usize,
    /// Memory of answers that are being read or wait to be sent.
    pub(crate) answers: Rc<AnswerMemory>,
    /// Permits of requests that read pages of rows.
    pub(crate) row_readers: Semaphore,
    /// Permits of requests that read the node's own tables. Separate, so that reads of users'
    /// tables do not delay the drivers that connect.
    pub(crate) own_table_readers: Semaphore,
    pub(crate) plans: PlanMemory,
    /// Buffer for the row of an EXECUTE that is answered without a future.
    pub(crate) row: RefCell<Vec<u8>>,
    /// Counters of other parts of the node.
    more_counters: RefCell<Vec<Counters>>,
    open: RefCell<Vec<Weak<Connection>>>,
    acceptors: RefCell<Vec<JoinHandle<()>>>,
    /// The certificates that this shard reads again.
    pub(crate) certificates: RefCell<Vec<Rc<Certificates>>>,
}

impl ShardServer {
    /// Creates a server on the calling shard that does not listen yet.
    pub fn new(shared: &SharedState, context: ShardContext, processor: QueryProcessor) -> Rc<Self> {
        let config = Arc::clone(&shared.config);
        let share = |limit: usize| limit / context.count.max(1);
        let max_unsent_bytes = share(config.max_request_data_in_flight).max(MIN_UNSENT_LIMIT);
        let server = Rc::new(Self {
            shard: ShardInfo {
                index: context.index,
                count: context.count,
                shard_aware_port: config.shard_aware_listen.map(|address| address.port()),
            },
            processor,
            columns: ColumnCache::default(),
            connections: Arc::clone(&shared.connections),
            audit: Arc::clone(&shared.audit),
            started: shared.started,
            admission: RequestAdmission::new(
                share(config.max_request_data_in_flight),
                share(config.max_request_data_in_flight_per_ip),
            ),
            events: EventRegistry::default(),
            metrics: TransportMetrics::default(),
            gate: Gate::new(),
            traces: Traces::default(),
            log_limit: LogLimit::at_most(MAX_LOG_LINES),
            unsent_bytes: Cell::new(0),
            tasks: Cell::new(0),
            max_task_bytes: share(config.max_request_data_in_flight),
            max_unsent_bytes,
            answers: AnswerMemory::new(
                max_unsent_bytes,
                share(config.max_request_data_in_flight_per_ip).max(MIN_ANSWERS_OF_ADDRESS),
            ),
            row_readers: Semaphore::new(MAX_ROW_READERS),
            own_table_readers: Semaphore::new(MAX_OWN_TABLE_READERS),
            plans: PlanMemory::default(),
            row: RefCell::default(),
            more_counters: RefCell::default(),
            open: RefCell::default(),
            acceptors: RefCell::default(),
            certificates: RefCell::default(),
            config,
        });
        CURRENT.set(Rc::downgrade(&server));
        let found = Rc::downgrade(&server);
        let clients = move || found.upgrade().map(|server| server.clients()).unwrap_or_default();
        server.processor.database().set_clients(clients);
        server
    }

    /// Returns the server of the calling shard, if it has one.
    pub(crate) fn current() -> Option<Rc<Self>> {
        CURRENT.with_borrow(Weak::upgrade)
    }

    /// Begins to accept connections and returns the address of the usual port. All shards may
    /// listen on the same address.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot bind one of the addresses.
    pub fn listen(self: &Rc<Self>) -> io::Result<SocketAddr> {
        let encryption = self.config.encryption.as_ref();
        let plain = TcpListener::bind(self.config.listen, SHARED)?;
        let address = plain.local_address()?;
        let tls = encryption.and_then(|encryption| encryption.listen);
        self.accept_plain_and_tls(Some(plain), tls, Placement::FewestConnections)?;
        let plain = self.config.shard_aware_listen;
        let plain = plain.map(|address| TcpListener::bind(address, SHARED)).transpose()?;
        let tls = encryption.and_then(|encryption| encryption.shard_aware_listen);
        self.accept_plain_and_tls(plain, tls, Placement::ClientPort)?;
        Ok(address)
    }

    /// Begins to write the audit log and to watch the certificates. If the configuration has an
    /// address for the admin API and the metrics, begins to serve them, and returns that address.
    /// The caller does this on one shard of the node.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot bind the address.
    pub fn listen_admin(self: &Rc<Self>) -> io::Result<Option<SocketAddr>> {
        self.audit.start(self);
        self.watch_own_certificates();
        let Some(address) = self.config.admin_listen else { return Ok(None) };
        let (address, acceptor) = admin::listen(self, address)?;
        self.acceptors.borrow_mut().push(acceptor);
        Ok(Some(address))
    }

    /// Reads certificates again from now on, at intervals and when an operator asks for it. The
    /// caller does this on the shard that serves the admin API.
    pub fn watch_certificates(&self, connections: &'static str, reload: ReloadCertificates) {
        let certificates = Certificates::new(connections, reload);
        self.certificates.borrow_mut().push(Rc::clone(&certificates));
        self.acceptors.borrow_mut().push(certificates.watch());
    }

    fn watch_own_certificates(&self) {
        let clients = self.config.encryption.as_ref().map(|encryption| &encryption.acceptor);
        let of_clients = clients.map(|acceptor| ("CQL", acceptor));
        let of_admin = self.config.admin_access.acceptor.as_ref().map(|it| ("admin API", it));
        for (connections, acceptor) in of_clients.into_iter().chain(of_admin) {
            let acceptor = Arc::clone(acceptor);
            let reload = move || {
                let acceptor = Arc::clone(&acceptor);
                async move { acceptor.reload().await }.boxed_local()
            };
            self.watch_certificates(connections, Box::new(reload));
        }
    }

    /// Adds counters of another part of the node to the metrics of this shard.
    pub fn add_counters(&self, counters: Counters) {
        self.more_counters.borrow_mut().push(counters);
    }

    /// Returns the metrics of this shard.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let shard = self.shard.index;
        let mut samples = Vec::new();
        self.metrics.samples(shard, &mut samples);
        storage_samples(&self.processor.database().store().metrics(), shard, &mut samples);
        scheduling_samples(shard, &mut samples);
        let mut of_shard = ShardSamples::new(shard, &mut samples);
        of_shard.gauge(
            "espalier_transport_in_flight_bytes",
            self.admission.in_flight() as u64,
            "Bytes of requests in flight.",
        );
        for counters in &*self.more_counters.borrow() {
            counters().into_iter().for_each(|(name, help, value)| {
                of_shard.counter(name, value, help);
            });
        }
        of_shard.gauge(
            "espalier_transport_unsent_bytes",
            self.unsent_bytes.get() as u64,
            "Bytes of responses that wait for clients to read them.",
        );
        of_shard.gauge(
            "espalier_transport_answer_bytes",
            self.answers.used() as u64,
            "Bytes reserved for answers that are being read or wait to be sent.",
        );
        let stalls = preempt::stall_report();
        of_shard.counter(
            "scylla_stall_detector_reported",
            stalls.stalls,
            "Times that a task held the core for longer than the stall threshold.",
        );
        of_shard.gauge(
            "espalier_reactor_longest_task_us",
            stalls.longest_us,
            "The longest time that a task held the core, in microseconds.",
        );
        of_shard.counter(
            "scylla_reactor_tasks_processed",
            stalls.tasks_polled,
            "Task polls since the start.",
        );
        if let Some(report) = loop_report() {
            of_shard.counter(
                "scylla_reactor_polls",
                report.kernel_looks,
                "Polls of the kernel for completions.",
            );
            of_shard.counter(
                "espalier_reactor_asleep_us",
                report.asleep_us,
                "Time in which the shard slept without work, in microseconds.",
            );
        }
        if shard == 0 {
            of_shard.gauge(
                "process_resident_memory_bytes",
                espalier_runtime::memory::resident_bytes(),
                "Resident memory of the process, in bytes.",
            );
        }
        samples
    }

    /// Accepts the connections of one placement. The plain port offers TLS only if `tls` has no
    /// port of its own.
    fn accept_plain_and_tls(
        self: &Rc<Self>,
        plain: Option<TcpListener>,
        tls: Option<SocketAddr>,
        placement: Placement,
    ) -> io::Result<()> {
        let handshake = self.config.encryption.as_ref().map(|encryption| encryption.handshake);
        if let Some(listener) = plain {
            let handshake = handshake.filter(|_| tls.is_none());
            self.accept(listener, Port { placement, handshake });
        }
        if let Some(address) = tls {
            self.accept(TcpListener::bind(address, SHARED)?, Port { placement, handshake });
        }
        Ok(())
    }

    fn accept(self: &Rc<Self>, listener: TcpListener, port: Port) {
        let acceptor = spawn_local(accept_all(Rc::clone(self), listener, port));
        self.acceptors.borrow_mut().push(acceptor);
    }

    /// Returns the clients that are connected to this shard.
    fn clients(&self) -> Vec<ConnectedClient> {
        let open = self.open.borrow();
        open.iter().filter_map(Weak::upgrade).filter_map(|client| client.describe()).collect()
    }

    /// Adds a connection to the list of connections that a stop closes.
    pub(crate) fn remember(&self, connection: &Rc<Connection>) {
        let mut open = self.open.borrow_mut();
        if open.len() == open.capacity() {
            open.retain(|connection| connection.strong_count() > 0);
        }
        open.push(Rc::downgrade(connection));
    }

    /// Stops accepting, closes all connections, and waits at most 5 s for the requests under way.
    pub async fn stop(&self) {
        let acceptors = std::mem::take(&mut *self.acceptors.borrow_mut());
        for acceptor in acceptors {
            acceptor.cancel().await;
        }
        let closed = self.gate.close();
        let open = std::mem::take(&mut *self.open.borrow_mut());
        for connection in open.iter().filter_map(Weak::upgrade) {
            connection.close();
        }
        if time::timeout(STOP_PATIENCE, closed).await.is_err() {
            tracing::warn!("requests were still under way after 5 s, the stop goes on");
        }
        self.audit.finish(self).await;
    }
}

//! A connection reads all bytes that have arrived, decodes the whole frames, runs each request, and
//! writes all answers at once.
//!
//! A request that finishes without waiting is answered inline: a batch of requests costs one read,
//! one write and no task switch. Other requests become tasks, which share one slice of the event
//! loop and answer out of order by their stream id. A task that has an answer writes it if the
//! socket is free, together with the answers of the other tasks ([`Connection::flush`]); so there
//! is no writer task.
//!
//! Memory of a connection, besides requests in flight (see [`crate::admission`]):
//!
//! - A receive buffer. It grows only with bytes that have arrived, to at most one frame. The reader
//!   takes up to sixteen requests out of it before it serves them.
//! - A send buffer. Once it holds more than [`MAX_UNSENT`] bytes, the reader neither reads nor
//!   starts requests until the buffer drains, and the requests read no rows (see [`room`]).
//! - At most [`MAX_TASKS`] tasks, and about [`MAX_WAITING_REQUESTS`] tasks and acknowledgements
//!   together.

mod inline;
mod large;
mod log_in;
mod reader;
mod receive_buffer;
mod room;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use espalier_cql::{ClientState, SchemaChange};
use espalier_runtime::net::{Shutdown, TcpStream};
use espalier_runtime::sync::{self, GatePass, Notify, Semaphore};
use espalier_runtime::{TaskGroup, maybe_yield, spawn_local, trace, trace_event, yield_now};
use espalier_storage::{ClientEncryption, ClientSession, ConnectedClient};

use crate::admission::{AddressAccount, ConnectionSlot};
use crate::answers::Reservation;
use crate::dispatch;
use crate::dispatch::acknowledge::AcknowledgementQueue;
use crate::protocol::response::ErrorResponse;
use crate::protocol::{EventTypes, Response, ResponseExtras, SendBuffer, StreamId};
use crate::shard::ShardServer;

use reader::{Next, Reader};

/// Limit of unsent bytes at which the reader waits: a client that does not read its answers gets no
/// more of them. Bytes that a write has taken out of the send buffer do not count for the reader.
const MAX_UNSENT: usize = 1024 * 1024;

/// The connection splits longer writes into pieces of this size in bytes, so that other connections
/// run between the kernel's copies. Arbitrary: a copy takes a tenth of a millisecond.
const MAX_WRITE: usize = 256 * 1024;

/// Limit of requests of one connection that wait at the same time. At the limit the reader reads no
/// more until a request is done.
const MAX_WAITING_REQUESTS: usize = 8192;

/// Memory of a request that waits as a task, in bytes: its future, of which a test checks the size,
/// and its place in the task group.
pub(crate) const WAITING_TASK_BYTES: usize = 9 * 1024 + 512;

/// Tasks of one connection at which its reader waits until half of them are done. Usually
/// [`MAX_TASKS`], so that the disk and other shards have enough to do; [`MIN_TASKS`] while the
/// tasks of all connections of the shard take more memory than their limit. Both are arbitrary.
const MAX_TASKS: usize = 1024;
const MIN_TASKS: usize = 16;

/// Tasks of a shard above which a reader yields after each request that became a task, so that a
/// client with one request waits for one request of each other client, and not for 500 µs of each.
/// Arbitrary.
const MANY_TASKS: usize = 1024;

/// Limit of requests of one connection that read rows at the same time.
const MAX_ROW_READERS: usize = 32;

/// Limit of requests of one connection that read the node's own tables at the same time. Arbitrary:
/// an answer with the columns of many tables takes megabytes.
const MAX_OWN_TABLE_READERS: usize = 2;

/// One client's connection, shared by its reader and its waiting requests.
pub(crate) struct Connection {
    pub server: Rc<ShardServer>,
    pub send: RefCell<SendBuffer>,
    /// The client's session state; replaced as a whole when it changes.
    pub client: RefCell<Rc<ClientState>>,
    pub registered: Cell<EventTypes>,
    pub request_account: AddressAccount,
    pub acknowledgements: AcknowledgementQueue,
    pub peer: SocketAddr,
    /// True if the client has to log in before it may send requests.
    awaits_login: Cell<bool>,
    failed_logins: Cell<u32>,
    messages_before_login: Cell<u32>,
    /// The options of the client; set by STARTUP.
    session: OnceCell<ClientSession>,
    stream: TcpStream,
    writing: Cell<bool>,
    /// Bytes that the write under way has taken out of `send`.
    written_bytes: Cell<usize>,
    /// Bytes of events in `send`.
    event_bytes: Cell<usize>,
    /// Bytes of this connection in the shard's account of unsent bytes.
    unsent_recorded: Cell<usize>,
    /// Set when the connection closes. Reads of rows that are under way then end.
    closed: sync::Event,
    waiting_requests: Cell<usize>,
    /// Waiting requests that are tasks.
    tasks: Cell<usize>,
    /// Notified when a condition for which the reader may wait has changed.
    eased: Notify,
    /// Notified after each write, and when the connection closes.
    sent: Notify,
    row_readers: Semaphore,
    own_table_readers: Semaphore,
    /// Permits for planned QUERY statements that may read rows.
    planned_queries: Semaphore,
    answer_account: AddressAccount,
    /// Expected size of the next answer with rows, in bytes, from recent answers; 0 before the
    /// first.
    expected_answer: Cell<usize>,
    /// True if the last answer exceeded its reservation, or was too large to be kept without one.
    probe_failed: Cell<bool>,
    /// Reserved memory of the answers in `send`.
    held: RefCell<Option<Reservation>>,
    /// Requests that have to wait. Together they get one slice of the event loop, as the requests
    /// of each other connection do.
    requests: TaskGroup,
    slot: ConnectionSlot,
    _pass: GatePass,
}

impl Connection {
    pub fn new(
        server: Rc<ShardServer>,
        stream: TcpStream,
        peer: SocketAddr,
        slot: ConnectionSlot,
        pass: GatePass,
    ) -> Rc<Self> {
        server.metrics.connections_opened.increment();
        server.metrics.connections_open.increment();
        let answer_account = server.answers.account(peer.ip());
        Rc::new(Self {
            request_account: server.admission.account(peer.ip()),
            acknowledgements: AcknowledgementQueue::default(),
            server,
            send: RefCell::default(),
            client: RefCell::default(),
            registered: Cell::default(),
            peer,
            awaits_login: Cell::new(false),
            failed_logins: Cell::default(),
            messages_before_login: Cell::default(),
            session: OnceCell::new(),
            stream,
            writing: Cell::new(false),
            written_bytes: Cell::new(0),
            event_bytes: Cell::new(0),
            unsent_recorded: Cell::new(0),
            closed: sync::Event::new(),
            waiting_requests: Cell::new(0),
            tasks: Cell::new(0),
            eased: Notify::new(),
            sent: Notify::new(),
            row_readers: Semaphore::new(MAX_ROW_READERS),
            own_table_readers: Semaphore::new(MAX_OWN_TABLE_READERS),
            planned_queries: Semaphore::new(MAX_ROW_READERS),
            answer_account,
            expected_answer: Cell::new(0),
            probe_failed: Cell::new(false),
            held: RefCell::default(),
            requests: TaskGroup::new(),
            slot,
            _pass: pass,
        })
    }

    /// Serves the connection until either end closes it.
    pub async fn serve(self: Rc<Self>) {
        let mut serving = pin!(self.serve_requests());
        if !self.must_log_in() || self.in_login_time(serving.as_mut()).await {
            serving.await;
        }
        self.close();
    }

    async fn serve_requests(self: &Rc<Self>) {
        let mut reader = Reader::new(Rc::clone(self), dispatch::serve_request);
        loop {
            match reader.fill().await {
                Ok(0) => break,
                Ok(count) => self.server.metrics.bytes_received.add(count as u64),
                Err(error) => {
                    tracing::debug!(peer = %self.peer, %error, "reading from a client failed");
                    break;
                }
            }
            match reader.serve_frames().await {
                Ok(Next::Continue) => {}
                Ok(Next::Close) => {
                    self.flush().await;
                    if !self.closed.is_set() {
                        reader.part().await;
                    }
                    break;
                }
                Err(error) => {
                    let peer = self.peer;
                    tracing::debug!(%peer, %error, "a request arrives too slowly, closing");
                    break;
                }
            }
            if self.closed.is_set() {
                break;
            }
        }
    }

    /// Describes the client for `system_views.clients`; `None` when the connection has ended.
    pub fn describe(&self) -> Option<ConnectedClient> {
        (!self.closed.is_set()).then(|| ConnectedClient {
            address: self.peer.ip(),
            port: self.peer.port(),
            keyspace: self.client.borrow().keyspace.clone(),
            role: self.client.borrow().login.as_ref().map(|login| login.name().to_owned()),
            awaits_login: self.awaits_login.get(),
            session: self.session.get().cloned(),
            encryption: self.stream.tls().map(|tls| ClientEncryption {
                protocol: tls.protocol,
                cipher_suite: tls.cipher_suite,
            }),
        })
    }

    /// Returns the client's session state.
    pub fn client(&self) -> Rc<ClientState> {
        Rc::clone(&self.client.borrow())
    }

    /// Closes the connection: reads under way end, and unsent bytes are dropped.
    pub fn close(&self) {
        self.closed.set();
        // Requests under way must not keep answers that no client will read.
        let mut send = self.send.borrow_mut();
        drop((send.take(), send.take_large()));
        drop(send);
        self.held.take();
        self.record_unsent();
        let _ = self.stream.shutdown(Shutdown::Both);
        self.eased.notify_one();
        self.sent.notify_all();
    }

    /// Adds a response to the send buffer.
    pub fn respond(&self, stream: StreamId, extras: &ResponseExtras<'_>, response: &Response<'_>) {
        if matches!(response, Response::Error(_)) && !self.closed.is_set() {
            self.server.metrics.responses_error.increment();
        }
        self.write_response(extras, |extras| {
            self.send.borrow_mut().write(stream, extras, response);
        });
    }

    /// Calls `write`, which adds a response to the send buffer, unless the connection is closed.
    fn write_response(&self, extras: &ResponseExtras<'_>, write: impl FnOnce(&ResponseExtras<'_>)) {
        if self.closed.is_set() {
            self.held.take();
            return;
        }
        if trace::is_on() {
            write(&ResponseExtras { tracing_id: trace::client_trace_id(), ..*extras });
        } else {
            write(extras);
        }
        self.record_unsent();
    }

    /// Updates this connection's bytes in the shard's account of unsent bytes.
    fn record_unsent(&self) {
        let unsent = self.send.borrow().len() + self.written_bytes.get();
        let others = self.server.unsent_bytes.get() - self.unsent_recorded.replace(unsent);
        self.server.unsent_bytes.set(others + unsent);
    }

    /// Returns whether the client must read its unsent answers before it gets more rows. The client
    /// must if these answers have more than [`MAX_UNSENT`] bytes, or any bytes while the unsent
    /// answers of all clients together exceed the shard's limit.
    pub fn is_behind(&self) -> bool {
        let is_strained = self.server.unsent_bytes.get() > self.server.max_unsent_bytes;
        let allowed = if is_strained { 0 } else { MAX_UNSENT };
        self.send.borrow().len() + self.written_bytes.get() > allowed && !self.closed.is_set()
    }

    /// Sends the event of a change of the schema. Closes the connection instead if too many bytes
    /// of events are unsent, because its client does not read. Unsent answers do not count: the
    /// client may still be reading them.
    pub fn notify(self: &Rc<Self>, change: &SchemaChange) {
        if self.event_bytes.get() > MAX_UNSENT {
            if let Some(left_out) = self.server.log_limit.due("events are not read") {
                tracing::warn!(
                    peer = %self.peer,
                    left_out,
                    "closing a connection: its client does not read its events"
                );
            }
            return self.close();
        }
        let before = self.send.borrow().len();
        self.send.borrow_mut().write_event(change);
        let bytes = self.send.borrow().len() - before;
        self.event_bytes.set(self.event_bytes.get() + bytes);
        self.record_unsent();
        self.flush_in_background();
    }

    /// Starts a task that writes the send buffer.
    fn flush_in_background(self: &Rc<Self>) {
        let connection = Rc::clone(self);
        spawn_local(async move { connection.flush().await }).detach();
    }

    /// Adds an error response to the send buffer.
    pub fn refuse(&self, stream: StreamId, error: &ErrorResponse) {
        trace_event!("Answering with an error: {}", error.message);
        let extras = ResponseExtras { warnings: &error.warnings, ..ResponseExtras::default() };
        self.respond(stream, &extras, &Response::Error(error));
    }

    /// Writes the send buffer to the socket. If a write is under way, the task that writes sends
    /// these bytes too.
    pub async fn flush(&self) {
        if self.writing.replace(true) {
            return;
        }
        while !self.send.borrow().is_empty() && !self.closed.is_set() {
            self.written_bytes.set(self.send.borrow().len());
            let bytes = self.send.borrow_mut().take();
            let large = self.send.borrow_mut().take_large();
            self.event_bytes.set(0);
            let held = self.held.take();
            self.server.metrics.writes.increment();
            self.server.metrics.bytes_sent.add(bytes.len() as u64);
            let (mut result, bytes) = self.write(bytes).await;
            if result.is_ok() && !large.is_empty() {
                // Boxed, so that the futures of requests, which flush their answers, stay small.
                result = Box::pin(self.write_large(large)).await;
            }
            self.written_bytes.set(0);
            drop(held);
            if let Err(error) = result {
                tracing::debug!(peer = %self.peer, %error, "writing to a client failed");
                self.close();
            }
            self.send.borrow_mut().recycle(bytes);
            self.record_unsent();
            self.sent.notify_all();
        }
        self.writing.set(false);
        self.eased.notify_one();
    }

    /// Writes all of `bytes`; returns the buffer for reuse unless it was large.
    async fn write(&self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        if bytes.is_empty() {
            return (Ok(()), bytes);
        }
        if bytes.len() <= MAX_WRITE {
            return self.stream.write_all(bytes).await;
        }
        let mut rest = Bytes::from(bytes);
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(MAX_WRITE));
            if let (Err(error), _) = self.stream.write_all(piece).await {
                return (Err(error), Vec::new());
            }
            maybe_yield().await;
        }
        (Ok(()), Vec::new())
    }

    /// Waits until the write under way is done.
    async fn written(&self) {
        while self.writing.get() && !self.closed.is_set() {
            self.eased.notified().await;
        }
    }

    /// Returns whether more than [`MAX_UNSENT`] bytes wait until the write under way is done.
    fn is_backed_up(&self) -> bool {
        self.writing.get() && self.send.borrow().len() > MAX_UNSENT
    }

    /// Makes the reader wait while the client does not read its answers or too many of its requests
    /// wait.
    async fn wait_until_eased(&self) {
        let strained =
            || self.is_backed_up() || self.waiting_requests.get() >= MAX_WAITING_REQUESTS;
        while strained() && !self.closed.is_set() {
            self.eased.notified().await;
        }
    }

    /// Returns the number of tasks at which the reader of this connection waits.
    fn max_tasks(&self) -> usize {
        let bytes = self.server.tasks.get() * WAITING_TASK_BYTES;
        if bytes > self.server.max_task_bytes { MIN_TASKS } else { MAX_TASKS }
    }

    /// Makes the reader wait while too many of its requests wait as tasks.
    async fn wait_for_tasks(&self) {
        if self.tasks.get() < self.max_tasks() {
            return;
        }
        self.flush().await;
        while self.tasks.get() > self.max_tasks() / 2 && !self.closed.is_set() {
            self.eased.notified().await;
        }
    }

    /// Spawns a task that continues a request that has to wait.
    async fn spawn(self: &Rc<Self>, request: impl Future<Output = ()> + 'static) {
        self.begin_waiting();
        let task = CountedTask::new(self);
        self.requests.spawn(async move {
            request.await;
            let connection = task.end();
            connection.end_waiting();
            connection.flush().await;
        });
        if self.server.tasks.get() > MANY_TASKS {
            yield_now().await;
        }
    }

    /// Counts a request that cannot be answered at once.
    pub fn begin_waiting(&self) {
        self.server.metrics.requests_waited.increment();
        self.server.metrics.requests_serving.increment();
        self.waiting_requests.set(self.waiting_requests.get() + 1);
    }

    /// Ends the count of a request that had to wait, once it is answered.
    pub fn end_waiting(&self) {
        self.server.metrics.requests_serving.decrement();
        let waiting = self.waiting_requests.get();
        self.waiting_requests.set(waiting - 1);
        if waiting == MAX_WAITING_REQUESTS {
            self.eased.notify_one();
        }
    }
}

/// Counts a task of a connection until it ends or is dropped.
struct CountedTask(Rc<Connection>);

impl CountedTask {
    fn new(connection: &Rc<Connection>) -> Self {
        connection.tasks.set(connection.tasks.get() + 1);
        connection.server.tasks.set(connection.server.tasks.get() + 1);
        Self(Rc::clone(connection))
    }

    fn end(self) -> Rc<Connection> {
        Rc::clone(&self.0)
    }
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        let Self(connection) = self;
        connection.server.tasks.set(connection.server.tasks.get() - 1);
        let tasks = connection.tasks.get() - 1;
        connection.tasks.set(tasks);
        if tasks == MAX_TASKS / 2 || tasks <= MIN_TASKS / 2 {
            connection.eased.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.metrics.connections_open.decrement();
        let others = self.server.unsent_bytes.get() - self.unsent_recorded.get();
        self.server.unsent_bytes.set(others);
    }
}

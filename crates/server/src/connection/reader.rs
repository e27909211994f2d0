//! The reader is the receiving side of a connection: it decodes frames and starts requests.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use espalier_runtime::net::Shutdown;
use espalier_runtime::time::Instant;
use espalier_runtime::{should_yield, time, yield_now};

use super::Connection;
use super::inline::InlineRunner;
use super::log_in::MAX_LOGIN_BYTES;
use super::receive_buffer::{MIN_READ_BYTES, ReceiveBuffer};
use crate::admission::InFlight;
use crate::dispatch;
use crate::options;
use crate::protocol::response::{ErrorDetail, ErrorResponse};
use crate::protocol::{
    DecodeError, DecodeFailure, Decoder, Envelope, Opcode, Request, Response, ResponseExtras,
};
use crate::traces::TraceChoice;

/// Maximum space for a read, in bytes. Above it, fewer system calls bring no gain. Arbitrary.
const MAX_READ_BYTES: usize = 64 * 1024;

/// Bytes of an unfinished envelope that are not counted as in flight. Arbitrary: a thousand
/// connections hold 64 MiB.
const FREE_UNFINISHED_BYTES: usize = 64 * 1024;

/// Time for which the reader waits for memory for an unfinished envelope before it refuses the
/// request: the same 5 s as `PATIENCE` in `room.rs`. The reader retries after each pause.
const PATIENCE_FOR_MEMORY: Duration = Duration::from_secs(5);
const PAUSE_FOR_MEMORY: Duration = Duration::from_millis(20);

/// Slowest pace of an envelope that is counted as in flight: the node closes the connection unless
/// it receives this many bytes in this time. Arbitrary: at 26 KB/s an envelope holds 16 MiB for at
/// most 11 minutes, not counting the waits for memory.
const STEP_BYTES: usize = 256 * 1024;
const STEP_TIME: Duration = Duration::from_secs(10);

/// Limits of a batch of requests, whose memory is prefetched together: the number of requests, and
/// the bytes after which the batch takes no more.
const MAX_AHEAD: usize = 16;
const MAX_AHEAD_BYTES: usize = 64 * 1024;

/// Limits of the time and of the bytes for which the reader still reads after the last answer of a
/// connection.
const PARTING_TIME: Duration = Duration::from_secs(1);
const PARTING_BYTES: usize = 1024 * 1024;

/// The bytes of a request in flight, or the name of the setting that forbids it.
type Admitted = Result<InFlight, &'static str>;

/// A large envelope that has arrived in part.
struct Unfinished {
    in_flight: InFlight,
    /// Size of the envelope, in bytes, at which the client gets another [`STEP_TIME`].
    next_step: usize,
    /// Time that the client has left to reach `next_step`.
    time_left: Duration,
}

impl Unfinished {
    /// Waits for `waiting` in the time that the client has left, or fails with `TimedOut`.
    async fn in_time<T>(&mut self, waiting: impl Future<Output = T>) -> io::Result<T> {
        let began = Instant::now();
        let result = time::timeout(self.time_left, waiting).await;
        self.time_left = self.time_left.saturating_sub(began.elapsed());
        result.map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

/// The next step of the connection after the frames are served.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Close,
}

/// Reads frames and starts the request of each. A request that is not served at once becomes a
/// future, which `serve` creates.
pub(super) struct Reader<S, F> {
    connection: Rc<Connection>,
    serve: S,
    decoder: Decoder,
    buffer: ReceiveBuffer,
    /// Requests that the reader took out of the buffer and has not served yet, each with the result
    /// of its admission.
    arrived: VecDeque<(Envelope, Admitted)>,
    unfinished: Option<Unfinished>,
    runner: InlineRunner<F>,
    started: bool,
    read_bytes: usize,
}

impl<S, F> Reader<S, F>
where
    S: Fn(Rc<Connection>, Envelope, InFlight, TraceChoice) -> F,
    F: Future<Output = ()> + 'static,
{
    pub fn new(connection: Rc<Connection>, serve: S) -> Self {
        let decoder = Decoder::new(connection.max_frame_size());
        Self {
            connection,
            serve,
            decoder,
            buffer: ReceiveBuffer::default(),
            arrived: VecDeque::new(),
            unfinished: None,
            runner: InlineRunner::new(),
            started: false,
            read_bytes: MIN_READ_BYTES,
        }
    }

    /// Reads once and returns the number of bytes, 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// Fails if the socket fails, or with `TimedOut` if the client does not send the rest of a
    /// large envelope in time.
    pub async fn fill(&mut self) -> io::Result<usize> {
        let missing = self.decoder.bytes_wanted(&self.buffer.bytes);
        let missing = missing.saturating_sub(self.buffer.bytes.len());
        let buffer = self.buffer.take_for_read(missing, self.read_bytes);
        let space = buffer.capacity() - buffer.len();
        let (result, buffer) = match &mut self.unfinished {
            None => self.connection.stream.read(buffer).await,
            Some(unfinished) => unfinished.in_time(self.connection.stream.read(buffer)).await?,
        };
        self.buffer.bytes = buffer;
        if let Ok(count) = result {
            if count == space {
                let must_log_in = self.connection.must_log_in();
                let max = if must_log_in { MAX_LOGIN_BYTES } else { MAX_READ_BYTES };
                self.read_bytes = (self.read_bytes * 4).min(max);
            } else if count < self.read_bytes / 8 {
                self.read_bytes = (self.read_bytes / 2).max(MIN_READ_BYTES);
            }
        }
        result
    }

    /// Writes the answers, and waits while the client does not read them or too many of its
    /// requests wait.
    ///
    /// # Errors
    ///
    /// Fails with `TimedOut` if the client does not send the rest of a large envelope in its time.
    /// The limit exists because the envelope holds memory.
    async fn ease(&mut self) -> io::Result<()> {
        self.flush().await;
        match &mut self.unfinished {
            None => self.connection.wait_until_eased().await,
            Some(unfinished) => unfinished.in_time(self.connection.wait_until_eased()).await?,
        }
        Ok(())
    }

    /// Writes the answers. While an envelope is unfinished, the reader does not wait for the write,
    /// which has no bound if the client does not read.
    async fn flush(&self) {
        if self.unfinished.is_none() {
            return self.connection.flush().await;
        }
        if !self.connection.send.borrow().is_empty() {
            self.connection.flush_in_background();
        }
    }

    /// Ends the connection after the last answer: waits, for a bounded time, until the client has
    /// closed its side too. A close at once, with bytes unread, would reset the connection, and the
    /// client might never read the answer.
    pub async fn part(&mut self) {
        self.connection.written().await;
        let _ = self.connection.stream.shutdown(Shutdown::Write);
        let _ = time::timeout(PARTING_TIME, self.discard(PARTING_BYTES)).await;
    }

    /// Reads and discards up to `limit` bytes, until the end of the stream.
    async fn discard(&mut self, mut limit: usize) {
        while limit > 0 {
            self.buffer.bytes.clear();
            match self.fill().await {
                Ok(0) | Err(_) => return,
                Ok(count) => limit = limit.saturating_sub(count),
            }
        }
    }

    /// Serves all whole frames that have arrived, and writes the answers.
    ///
    /// # Errors
    ///
    /// As [`Self::ease`].
    pub async fn serve_frames(&mut self) -> io::Result<Next> {
        loop {
            let behind = self.take_arrived();
            if self.arrived.len() > 1 && !self.connection.awaits_login.get() {
                let arrived = self.arrived.iter().map(|(envelope, _)| envelope);
                dispatch::look_ahead(&self.connection, arrived);
            }
            while let Some((envelope, admitted)) = self.arrived.pop_front() {
                self.connection.wait_for_tasks().await;
                self.start(envelope, admitted).await;
                if self.connection.has_failed_to_log_in() {
                    return Ok(Next::Close);
                }
                if self.yield_or_ease().await? == Next::Close {
                    return Ok(Next::Close);
                }
            }
            match behind {
                None => {}
                Some(Ok(None)) => {
                    self.count_unfinished().await;
                    if !self.decoder.is_paused() {
                        self.ease().await?;
                        return Ok(Next::Continue);
                    }
                }
                Some(Ok(Some(envelope))) => {
                    self.connection.count_message_before_login();
                    self.negotiate(&envelope);
                }
                Some(Err(failure)) => {
                    self.connection.count_message_before_login();
                    self.connection.server.metrics.responses_error.increment();
                    self.connection.send.borrow_mut().write_failure(&failure);
                    if failure.fatal {
                        tracing::debug!(peer = %self.connection.peer, %failure, "closing");
                        return Ok(Next::Close);
                    }
                }
            }
            if self.connection.has_failed_to_log_in() {
                return Ok(Next::Close);
            }
            if self.yield_or_ease().await? == Next::Close {
                return Ok(Next::Close);
            }
        }
    }

    /// Counts the bytes of an envelope that has arrived in part. While there is no memory for them,
    /// the reader waits. After [`PATIENCE_FOR_MEMORY`] the node refuses the request and frees
    /// its bytes, so that unfinished requests do not block each other.
    async fn count_unfinished(&mut self) {
        let held = self.decoder.unfinished_bytes(&self.buffer.bytes);
        if held <= FREE_UNFINISHED_BYTES {
            self.unfinished = None; // a refused envelope holds no memory, so the client may be slow
            return;
        }
        let connection = &self.connection;
        let admission = &connection.server.admission;
        let unfinished = self.unfinished.get_or_insert_with(|| Unfinished {
            in_flight: admission.begin(&connection.request_account),
            next_step: 0,
            time_left: STEP_TIME,
        });
        if held >= unfinished.next_step {
            (unfinished.next_step, unfinished.time_left) = (held + STEP_BYTES, STEP_TIME);
        }
        let began = Instant::now();
        while let Err(limit) = admission.grow(&mut unfinished.in_flight, held) {
            if began.elapsed() >= PATIENCE_FOR_MEMORY || connection.closed.is_set() {
                self.unfinished = None;
                let error = DecodeError::Overloaded { limit };
                let refused = self.decoder.refuse_unfinished(&mut self.buffer.bytes, error);
                if refused && !connection.closed.is_set() {
                    connection.server.metrics.requests_shed.increment();
                }
                return;
            }
            if !connection.send.borrow().is_empty() {
                // The reader does not wait for a write: see `Self::flush`.
                connection.flush_in_background();
            }
            time::sleep(PAUSE_FOR_MEMORY).await;
        }
    }

    /// Takes a batch of requests out of the buffer, if the connection has started. Returns the
    /// decoder's result that ended the batch; `None` if the batch ended at its limits.
    fn take_arrived(&mut self) -> Option<Result<Option<Envelope>, DecodeFailure>> {
        let (mut bytes, mut taken_at) = (0, None);
        while self.arrived.len() < MAX_AHEAD && bytes < MAX_AHEAD_BYTES {
            let next = self.decoder.next(&mut self.buffer.bytes);
            let unfinished = if matches!(next, Ok(None)) { None } else { self.unfinished.take() };
            match next {
                Ok(Some(mut envelope)) if self.started => {
                    let connection = &self.connection;
                    let length = envelope.body.len();
                    if self.arrived.is_empty() {
                        taken_at = connection.server.metrics.latencies.begin();
                    }
                    let admission = &connection.server.admission;
                    let mut admitted = match unfinished {
                        None => admission.admit(&connection.request_account, length),
                        Some(Unfinished { mut in_flight, .. }) => {
                            admission.finish(&mut in_flight, length).map(|()| in_flight)
                        }
                    };
                    match &mut admitted {
                        Ok(in_flight) => in_flight.taken_at = taken_at,
                        Err(_) => envelope.body = Bytes::new(),
                    }
                    bytes += length;
                    self.arrived.push_back((envelope, admitted));
                }
                other => return Some(other),
            }
        }
        None
    }

    /// Yields the core if it is time. Waits while a task writes and too many answers wait behind
    /// it: one read may bring requests whose answers are a thousand times larger. If the connection
    /// is closed, returns `Close`, so that the node does not execute the requests that follow.
    async fn yield_or_ease(&mut self) -> io::Result<Next> {
        if should_yield() {
            self.flush().await;
            yield_now().await;
        }
        if self.connection.is_backed_up() {
            self.ease().await?;
        }
        Ok(if self.connection.closed.is_set() { Next::Close } else { Next::Continue })
    }

    /// Starts a request of a connection that is past STARTUP.
    async fn start(&mut self, mut envelope: Envelope, admitted: Admitted) {
        let connection = &self.connection;
        let stream = envelope.header.stream;
        if connection.awaits_login.get() {
            connection.count_message_before_login();
            connection.log_in(&envelope).await;
            return self.decoder.set_max_frame_size(connection.max_frame_size());
        }
        if envelope.header.opcode == Opcode::Startup {
            let message = "Unexpected message STARTUP: the connection is already initialized";
            return connection.refuse(stream, &ErrorResponse::new(ErrorDetail::Protocol, message));
        }
        let in_flight = match admitted {
            Ok(in_flight) => in_flight,
            Err(limit) => {
                connection.server.metrics.requests_shed.increment();
                let message = format!("Request breached {limit}: try again later");
                let error = ErrorResponse::new(ErrorDetail::Overloaded, message);
                return connection.refuse(stream, &error);
            }
        };
        let choice = connection.server.traces.choose(envelope.header);
        let in_flight = match choice {
            TraceChoice::No => dispatch::serve_now(connection, &envelope, in_flight),
            TraceChoice::Drawn | TraceChoice::Asked => Some(in_flight),
        };
        let Some(in_flight) = in_flight else { return };
        envelope.body = self.buffer.alone(envelope.body);
        let request = (self.serve)(Rc::clone(connection), envelope, in_flight, choice);
        if let Some(waiting) = self.runner.run(request).await {
            self.connection.spawn(waiting).await;
        }
    }

    /// Serves a request before STARTUP: OPTIONS, or STARTUP itself.
    fn negotiate(&mut self, envelope: &Envelope) {
        let connection = &self.connection;
        let header = envelope.header;
        connection.send.borrow_mut().set_version(header.version);
        let refuse = |error: &ErrorResponse| connection.refuse(header.stream, error);
        let metrics = &connection.server.metrics;
        match Request::decode(envelope) {
            Ok(Request::Options) => {
                metrics.requests_options.increment();
                let options = options::supported(connection.server.shard);
                let response = Response::Supported(&options);
                connection.respond(header.stream, &ResponseExtras::default(), &response);
            }
            Ok(Request::Startup(startup)) => {
                metrics.requests_startup.increment();
                match options::accept_startup(header.version, &startup) {
                    Ok(compression) => {
                        let session = options::session_of(header.version, &startup);
                        let _ = connection.session.set(session);
                        let extras = ResponseExtras::default();
                        let response = connection.begin_login();
                        connection.respond(header.stream, &extras, &response);
                        connection.send.borrow_mut().start(header.version, compression);
                        self.decoder.start(header.version, compression);
                        self.started = true;
                    }
                    Err(error) => refuse(&error),
                }
            }
            Ok(_) => {
                let opcode = header.opcode;
                let message =
                    format!("Unexpected message {opcode:?}, expecting STARTUP or OPTIONS");
                refuse(&ErrorResponse::new(ErrorDetail::Protocol, message));
            }
            Err(error) => refuse(&error.response()),
        }
    }
}

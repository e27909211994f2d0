//! The connections to a peer, one for each kind. A queue's task connects when there is something
//! to send.

use std::{cell::Cell, io, net::SocketAddr, rc::Rc, time::Duration};

use bytes::{Bytes, BytesMut};
use espalier_runtime::{
    net::{Shutdown, TcpStream, WriteHalf},
    spawn_local,
    sync::channel::{Receiver, Sender, bounded},
    time::{self, Instant},
};

use super::{
    RingMember,
    encryption::Encryption,
    reads::time_left,
    room::{ForwardRoom, Reservation},
};
use crate::{
    DecodeError, MessagingVersion,
    frame::put_message,
    handshake::{Accept, ConnectionKind, Framing, Initiate},
    message::{Header, Message, MessageFlags, Parameter, Verb},
    payload::{ApplicationState, Payload, ReadResponse},
    replica::AnswerBytes,
};

/// Maximum number of small messages that wait. Arbitrary; most messages answer writes, and are
/// short.
const QUEUE_LENGTH: usize = 4096;
/// Maximum number of urgent messages that wait. Arbitrary; gossip sends a few each second, of at
/// most 64 KiB.
const URGENT_QUEUE_LENGTH: usize = 256;
/// Time for connecting with its handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Time after which the kernel closes a connection if the peer's kernel does not acknowledge data:
/// Cassandra's default of `internode_tcp_user_timeout`.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Length in bytes above which a message uses the connection for large messages.
const LARGE_BYTES: usize = 64 << 10;
/// Bytes that a payload may take besides its data.
const PAYLOAD_OVERHEAD_BYTES: usize = 64;
/// Maximum number of large messages that wait. Arbitrary; answers also have a budget of bytes.
const LARGE_QUEUE_LENGTH: usize = 256;
/// Length in bytes at which a write to the socket takes no further message. Arbitrary; most
/// messages have less than 100 bytes.
const WRITE_BYTES: usize = 64 << 10;
/// Time for a write to the socket. A peer that takes longer does not read.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Time after which a message of this node expires.
const EXPIRY: Duration = Duration::from_secs(10);
/// Time without a message after which a queue and its connection end. Arbitrary.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// Time after a failed attempt to connect during which the queue drops messages. Arbitrary: gossip
/// sends again each second.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// A message that waits.
#[derive(Debug)]
pub(super) struct Queued {
    id: u64,
    pub verb: Verb,
    payload: Payload,
    parameters: Vec<Parameter>,
    flags: MessageFlags,
    created: Instant,
    /// The time from `created` after which the message is not sent any more.
    lifetime: Duration,
    created_ms: u32,
    expires_in_ms: u64,
    /// The memory that the message holds until it is sent.
    _bytes: Option<AnswerBytes>,
    /// The length of a forwarded write in bytes; 0 for other messages.
    forwarded: usize,
    /// The room of a forwarded write or of large gossip, which the message holds until it is sent.
    _room: Reservation,
}

impl Queued {
    pub fn new(id: u64, verb: Verb, payload: Payload) -> Self {
        let created_ms = time::now_millis() as u32;
        Self {
            id,
            verb,
            payload,
            parameters: Vec::new(),
            flags: MessageFlags::default(),
            created: Instant::now(),
            lifetime: EXPIRY,
            created_ms,
            expires_in_ms: EXPIRY.as_millis() as u64,
            _bytes: None,
            forwarded: 0,
            _room: Reservation::default(),
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// Asks the receiver to answer even if the request fails.
    pub fn wanting_failure(self) -> Self {
        Self { flags: MessageFlags::CALL_BACK_ON_FAILURE, ..self }
    }

    pub fn with_parameters(self, parameters: Vec<Parameter>) -> Self {
        Self { parameters, ..self }
    }

    pub fn with_flags(self, flags: MessageFlags) -> Self {
        Self { flags, ..self }
    }

    /// Marks the message as a forwarded write of this length in bytes. It expires with the message
    /// of its coordinator, which has the header `origin`.
    pub fn forwarding(self, bytes: usize, origin: &Header) -> Self {
        let &Header { created_ms, expires_in_ms, .. } = origin;
        let lifetime = time_left(origin).unwrap_or_default().min(EXPIRY);
        Self { forwarded: bytes, lifetime, created_ms, expires_in_ms, ..self }
    }

    pub fn holding(self, bytes: AnswerBytes) -> Self {
        Self { _bytes: Some(bytes), ..self }
    }

    /// Returns the length in bytes of a message that needs the connection for large messages; 0 for
    /// other messages.
    fn large_bytes(&self) -> usize {
        let length = match &self.payload {
            Payload::ReadResponse(ReadResponse::Data { data, .. }) => data.len(),
            Payload::Encoded(bytes) => bytes.len(),
            Payload::Mutation(_)
            | Payload::GossipSyn(_)
            | Payload::GossipAck(_)
            | Payload::GossipAck2(_) => {
                let mut encoded = Vec::new();
                let outcome = self.payload.encode(MessagingVersion::V13, &mut encoded);
                outcome.map_or(0, |()| encoded.len())
            }
            _ => 0,
        };
        if length + PAYLOAD_OVERHEAD_BYTES > LARGE_BYTES { length } else { 0 }
    }

    /// Returns the bytes of room that the message needs: those of a forwarded write, and those of
    /// large gossip, which a peer can request again and again.
    fn room_bytes(&self, large_bytes: usize) -> usize {
        match self.payload {
            Payload::GossipAck(_) | Payload::GossipAck2(_) => large_bytes,
            _ => self.forwarded,
        }
    }
}

/// The error of a peer whose queue is full, or whose room for forwarded writes and large gossip.
pub(super) struct QueueFull;

/// The queues to a peer. Each begins with its first message, and ends when it is idle.
#[derive(Default)]
pub(super) struct Peer {
    urgent: Option<Sender<Queued>>,
    small: Option<Sender<Queued>>,
    large: Option<Sender<Queued>>,
    forwards: ForwardRoom,
}

impl Peer {
    /// Returns whether the peer has no open queue.
    pub fn is_idle(&self) -> bool {
        let is_over = |queue: &Option<Sender<_>>| queue.as_ref().is_none_or(Sender::is_closed);
        is_over(&self.urgent) && is_over(&self.small) && is_over(&self.large)
    }

    /// Queues a message.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full, or if a forwarded write or large gossip finds no room.
    pub fn send(
        &mut self,
        member: &Rc<RingMember>,
        to: SocketAddr,
        mut message: Queued,
    ) -> Result<(), QueueFull> {
        let large_bytes = message.large_bytes();
        let room_bytes = message.room_bytes(large_bytes);
        if room_bytes > 0 {
            message._room = self.forwards.reserve(room_bytes).ok_or(QueueFull)?;
        }
        // Cassandra sends failures as urgent messages, too. Here they have the queue of the other
        // answers: a peer may have thousands of requests under way, and each has one answer.
        let is_urgent = matches!(
            message.verb,
            Verb::GOSSIP_DIGEST_SYN
                | Verb::GOSSIP_DIGEST_ACK
                | Verb::GOSSIP_DIGEST_ACK2
                | Verb::GOSSIP_SHUTDOWN
                | Verb::ECHO_REQ
                | Verb::ECHO_RSP
        );
        let (queue, kind, length) = if large_bytes > 0 {
            (&mut self.large, ConnectionKind::Large, LARGE_QUEUE_LENGTH)
        } else if is_urgent {
            (&mut self.urgent, ConnectionKind::Urgent, URGENT_QUEUE_LENGTH)
        } else {
            (&mut self.small, ConnectionKind::Small, QUEUE_LENGTH)
        };
        if queue.as_ref().is_none_or(Sender::is_closed) {
            let (sender, receiver) = bounded(length);
            let member = Rc::clone(member);
            let link = Link { member, address: to, kind, open: None, failed: None };
            spawn_local(link.run(receiver)).detach();
            *queue = Some(sender);
        }
        let Some(queue) = queue else { return Err(QueueFull) };
        queue.try_send(message).map_err(|_| QueueFull)
    }
}

/// An open connection. Another task reads from it, and notices its end.
struct Open {
    writer: WriteHalf,
    version: MessagingVersion,
    framing: Framing,
    is_closed: Rc<Cell<bool>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // The other task holds the socket, too. The shutdown ends its read.
        let _ = self.writer.stream().shutdown(Shutdown::Both);
    }
}

struct Link {
    member: Rc<RingMember>,
    address: SocketAddr,
    kind: ConnectionKind,
    open: Option<Open>,
    /// The time at which the last attempt to connect failed.
    failed: Option<Instant>,
}

impl Link {
    async fn run(mut self, mut queue: Receiver<Queued>) {
        while let Ok(Some(first)) = time::timeout(IDLE_LIMIT, queue.receive()).await {
            let outcome = self.send(first, &mut queue).await;
            if let Err(error) = outcome {
                self.open = None;
                let peer = self.address;
                tracing::debug!(%peer, %error, "could not send messages to a peer, dropped them");
            }
        }
    }

    /// Sends a message and the messages that wait behind it with one write to the socket. Once the
    /// write has [`WRITE_BYTES`], it takes no further message.
    async fn send(&mut self, first: Queued, queue: &mut Receiver<Queued>) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.is_closed.get()) {
            self.open = None;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => match self.connect_in_time().await {
                Ok(open) => open,
                Err(error) => {
                    self.member.metrics.dropped.add(1);
                    return Err(error);
                }
            },
        };
        let open = self.open.insert(open);
        // The messages hold their memory until they are sent.
        let (mut sending, mut bytes) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(message) = next {
            match encode(&message, open, self.kind, &mut bytes) {
                Ok(()) => sending.push(message),
                Err(error) => {
                    self.member.metrics.dropped.add(1);
                    let (peer, verb) = (self.address, message.verb);
                    tracing::debug!(%peer, %verb, error, "could not send a message, dropped it");
                }
            }
            next = if bytes.len() < WRITE_BYTES { queue.try_receive() } else { None };
        }
        let writing = time::timeout(WRITE_LIMIT, open.writer.write_all(bytes)).await;
        let written =
            writing.map_or_else(|_| Err(io::ErrorKind::TimedOut.into()), |(done, _)| done);
        match &written {
            Ok(()) => self.member.metrics.sent.add(sending.len() as u64),
            Err(_) => self.member.metrics.dropped.add(sending.len() as u64),
        }
        written
    }

    async fn connect_in_time(&mut self) -> io::Result<Open> {
        if self.failed.is_some_and(|failed| failed.elapsed() < CONNECT_PAUSE) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let connecting = time::timeout(CONNECT_LIMIT, self.connect()).await;
        let open = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        self.failed = open.is_err().then(Instant::now);
        if let (Err(error), Some(joining)) = (&open, &mut *self.member.joining.borrow_mut()) {
            joining.failed = Some(format!("{}: {error}", self.address));
        }
        open
    }

    async fn connect(&self) -> io::Result<Open> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        stream.set_user_timeout(USER_TIMEOUT)?;
        // With TLS 1.3, a peer refuses the certificate of the node after the handshake of TLS, in
        // place of its first answer.
        self.introduce(stream).await.inspect_err(|error| self.report_tls(error))
    }

    async fn introduce(&self, stream: TcpStream) -> io::Result<Open> {
        let stream = match &self.member.encryption {
            Some(encryption) => encryption.connect(stream, self.address).await?,
            None => stream,
        };
        let settings = &self.member.settings;
        let framing = if settings.compresses(self.data_center().as_deref()) {
            Framing::Lz4
        } else {
            Framing::Crc
        };
        let initiate = Initiate {
            min_version: MessagingVersion::V12.number(),
            max_version: settings.version.number(),
            kind: self.kind,
            framing,
            from: settings.broadcast,
        };
        let mut bytes = Vec::new();
        initiate.encode(&mut bytes);
        stream.write_all(bytes).await.0?;
        let version = accepted(&stream).await?;
        let (mut reader, writer) = stream.split();
        let is_closed = Rc::new(Cell::new(false));
        let closed = Rc::clone(&is_closed);
        // The peer sends nothing after the handshake, so the read ends when it closes the
        // connection.
        spawn_local(async move {
            let _ = reader.read(BytesMut::with_capacity(1)).await;
            closed.set(true);
        })
        .detach();
        Ok(Open { writer, version, framing, is_closed })
    }

    fn report_tls(&self, error: &io::Error) {
        let has_tls = self.member.encryption.as_ref().is_some_and(Encryption::is_opened);
        if has_tls && let Some(left_out) = self.member.log_limit.due("TLS to a peer") {
            tracing::warn!(
                peer = %self.address,
                %error,
                left_out,
                "a connection with TLS to a peer failed; see server_encryption_options"
            );
        }
    }

    /// Returns the data centre of the peer; `None` if gossip has not announced it.
    fn data_center(&self) -> Option<String> {
        let gossiper = self.member.gossiper.borrow();
        let peer = gossiper.endpoints().get(&self.address)?;
        peer.value(ApplicationState::Dc).map(str::to_owned)
    }
}

/// Reads the answer to the handshake.
async fn accepted(stream: &TcpStream) -> io::Result<MessagingVersion> {
    let mut buffer = BytesMut::with_capacity(64);
    loop {
        let decoded = Accept::decode(&Bytes::copy_from_slice(&buffer));
        if let Some((accept, _)) = decoded.map_err(io::Error::other)? {
            let version = u8::try_from(accept.use_version).ok();
            let version = version.and_then(MessagingVersion::from_number);
            return version.ok_or_else(|| {
                io::Error::other(DecodeError::Unsupported("the version of messages of the peer"))
            });
        }
        let (read, back) = stream.read(buffer).await;
        buffer = back;
        if read? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Appends a message to `out` as frames. If it fails, it appends nothing.
fn encode(
    message: &Queued,
    open: &Open,
    kind: ConnectionKind,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    if message.created.elapsed() >= message.lifetime {
        return Err("the message has expired".to_owned());
    }
    let mut payload = Vec::new();
    message.payload.encode(open.version, &mut payload)?;
    if payload.len() > LARGE_BYTES && kind != ConnectionKind::Large {
        return Err(format!("a message of {} bytes needs a connection of its own", payload.len()));
    }
    let header = Header {
        id: message.id,
        created_ms: message.created_ms,
        expires_in_ms: message.expires_in_ms,
        verb: message.verb,
        flags: message.flags,
        parameters: message.parameters.clone(),
    };
    put_message(open.framing == Framing::Lz4, &mut Vec::new(), out, |out| {
        Message { header, payload: payload.into() }.encode(out);
        Ok(())
    })
}

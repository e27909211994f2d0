//! The connections to a peer, one for each kind. A queue's task connects when there is something
//! to send.

use std::{cell::Cell, io, net::SocketAddr, rc::Rc, time::Duration};

use bytes::{Bytes, BytesMut};
use espalier_runtime::{
    net::{TcpStream, WriteHalf},
    spawn_local,
    sync::channel::{Receiver, Sender, bounded},
    time,
};

use super::RingMember;
use crate::{
    DecodeError, MessagingVersion,
    frame::put_message,
    handshake::{Accept, ConnectionKind, Framing, Initiate},
    message::{Header, Message, MessageFlags, Verb},
    payload::Payload,
};

/// Messages that may wait for one connection. Arbitrary; gossip has a few each second.
const QUEUE_LENGTH: usize = 4096;
/// Time for connecting with its handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Messages of more bytes go over the connection for large messages.
const LARGE_BYTES: usize = 64 << 10;
/// Time after which a message of this node is of no use, in ms.
const EXPIRY_MS: u64 = 10_000;

/// A message that waits.
#[derive(Debug)]
pub(super) struct Queued {
    pub id: u64,
    pub verb: Verb,
    pub payload: Payload,
}

/// The queues to a peer.
pub(super) struct Peer {
    urgent: Sender<Queued>,
    small: Sender<Queued>,
}

impl Peer {
    /// Starts the tasks of the queues.
    pub fn start(member: &Rc<RingMember>, address: SocketAddr) -> Self {
        let queue = |kind: ConnectionKind| {
            let (sender, receiver) = bounded(QUEUE_LENGTH);
            let link = Link { member: Rc::clone(member), address, kind, open: None };
            spawn_local(link.run(receiver)).detach();
            sender
        };
        Self { urgent: queue(ConnectionKind::Urgent), small: queue(ConnectionKind::Small) }
    }

    /// Queues a message. Returns false if the queue is full.
    pub fn send(&self, message: Queued) -> bool {
        let is_urgent = matches!(
            message.verb,
            Verb::GOSSIP_DIGEST_SYN
                | Verb::GOSSIP_DIGEST_ACK
                | Verb::GOSSIP_DIGEST_ACK2
                | Verb::GOSSIP_SHUTDOWN
                | Verb::ECHO_REQ
                | Verb::ECHO_RSP
                | Verb::FAILURE_RSP
        );
        let queue = if is_urgent { &self.urgent } else { &self.small };
        queue.try_send(message).is_ok()
    }
}

/// A connection, with its end as another task notices it.
struct Open {
    writer: WriteHalf,
    version: MessagingVersion,
    is_closed: Rc<Cell<bool>>,
}

struct Link {
    member: Rc<RingMember>,
    address: SocketAddr,
    kind: ConnectionKind,
    open: Option<Open>,
}

impl Link {
    async fn run(mut self, mut queue: Receiver<Queued>) {
        while let Some(message) = queue.receive().await {
            let verb = message.verb;
            match self.send(message).await {
                Ok(()) => self.member.metrics.count_sent(),
                Err(error) => {
                    self.open = None;
                    self.member.metrics.count_dropped();
                    let peer = self.address;
                    tracing::debug!(%peer, %verb, %error, "a message could not be sent, dropped it");
                }
            }
        }
    }

    async fn send(&mut self, message: Queued) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.is_closed.get()) {
            self.open = None;
        }
        if self.open.is_none() {
            let connecting = time::timeout(CONNECT_LIMIT, self.connect()).await;
            self.open = Some(connecting.map_err(|_| io::ErrorKind::TimedOut)??);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let bytes = encode(message, open.version).map_err(io::Error::other)?;
        open.writer.write_all(bytes).await.0
    }

    async fn connect(&self) -> io::Result<Open> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let settings = &self.member.settings;
        let initiate = Initiate {
            min_version: MessagingVersion::V12.number(),
            max_version: settings.version.number(),
            kind: self.kind,
            framing: Framing::Crc,
            from: settings.broadcast,
        };
        let mut bytes = Vec::new();
        initiate.encode(&mut bytes);
        stream.write_all(bytes).await.0?;
        let version = accepted(&stream).await?;
        let (mut reader, writer) = stream.split();
        let is_closed = Rc::new(Cell::new(false));
        let closed = Rc::clone(&is_closed);
        // The peer sends nothing more; a read ends when it closes the connection.
        spawn_local(async move {
            let _ = reader.read(BytesMut::with_capacity(1)).await;
            closed.set(true);
        })
        .detach();
        Ok(Open { writer, version, is_closed })
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

/// Returns a message as frames.
fn encode(message: Queued, version: MessagingVersion) -> Result<Vec<u8>, String> {
    let mut payload = Vec::new();
    message.payload.encode(version, &mut payload)?;
    if payload.len() > LARGE_BYTES {
        return Err(format!("a message of {} bytes needs a connection of its own", payload.len()));
    }
    let header = Header {
        id: message.id,
        created_ms: time::now_millis() as u32,
        expires_in_ms: EXPIRY_MS,
        verb: message.verb,
        flags: MessageFlags::default(),
        parameters: Vec::new(),
    };
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    put_message(false, &mut scratch, &mut out, |out| {
        Message { header, payload: payload.into() }.encode(out);
        Ok::<_, String>(())
    })?;
    Ok(out)
}

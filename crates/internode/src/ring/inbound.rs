//! Accepts connections from peers. After the handshake, only the peer sends.
//!
//! A connection that has not finished its handshake has one of [`MAX_HANDSHAKES`] places. If all
//! are taken, a new connection replaces the oldest one of the network with the most connections.
//! After the handshake a connection counts as one of a peer. So, if the node requires certificates,
//! machines without one cannot use up the connections of the peers.

use std::{
    cell::RefCell, collections::HashMap, io, net::SocketAddr, rc::Rc, sync::Arc, time::Duration,
};

use bytes::{Bytes, BytesMut};
use espalier_runtime::{
    maybe_yield,
    net::{TcpListener, TcpStream},
    spawn_local,
    time::{self, Instant},
};
use espalier_server::{ConnectionCounter, ConnectionLimits, ConnectionSlot, Places};

use super::{RingMember, dispatch::MAX_WRITE_BYTES, room::Reservation};
use crate::{
    DecodeError, MessagingVersion,
    frame::MessageReader,
    handshake::{Accept, ConnectionKind, Framing, Initiate},
    message::{Message, Verb},
};

/// Time for the handshake, including that of TLS. Arbitrary; both have few round trips.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Time without data after which the kernel checks whether a peer still exists. Otherwise the
/// connections of a peer that lost its network would keep their places for hours, and after some
/// such losses the peer could not connect. Arbitrary; gossip sends each second.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Time after which the kernel closes a connection on which it hears nothing. With this option, it
/// does not count the checks of keepalive. Arbitrary: three checks, 10 s apart.
const USER_TIMEOUT: Duration = Duration::from_secs(90);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for the rest of a message whose first frame has arrived. Arbitrary; the message holds room
/// meanwhile.
const MESSAGE_LIMIT: Duration = Duration::from_secs(30);
/// Maximum time without further bytes of a message whose first frame has arrived. Arbitrary; a peer
/// sends a message in one go.
const PROGRESS_LIMIT: Duration = Duration::from_secs(5);
/// Maximum length of a message, in bytes: the largest write with its header. The answer to a pull
/// of the schema may be longer.
const MAX_REQUEST_BYTES: usize = MAX_WRITE_BYTES + (64 << 10);
/// Maximum length in bytes of a message that the node copies out of its frame. A decoded write
/// shares the bytes of its message; without the copy, it would keep a frame of up to 128 KiB.
const MAX_COPIED_BYTES: usize = 4 << 10;
/// Minimum number of bytes that a read asks for.
const READ_BYTES: usize = 16 << 10;
/// Bytes of the buffer for a handshake.
const HANDSHAKE_BYTES: usize = 256;
/// Limit of the connections that have not finished their handshake. Arbitrary.
const MAX_HANDSHAKES: usize = 128;
/// Limits of the connections from peers. Arbitrary; each peer opens three connections.
const LIMITS: ConnectionLimits = ConnectionLimits { total: Some(1024), per_address: Some(32) };

/// The reason why a connection has ended.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Bytes(#[from] DecodeError),
    #[error("its TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("{0}")]
    Refused(&'static str),
    #[error("there are 1,024 connections from peers, or 32 from its address")]
    TooMany,
}

impl Closed {
    /// Returns the kind of the line in the log, so that a flood of one kind does not hide the
    /// others.
    fn kind(&self) -> &'static str {
        match self {
            Self::Io(_) => "a peer's connection ended",
            Self::Bytes(_) => "bytes of a peer",
            Self::Tls(_) => "TLS of a peer",
            Self::Refused(_) => "refused a peer",
            Self::TooMany => "too many connections",
        }
    }
}

/// The open connections from peers.
pub(super) struct InboundConnections {
    counter: Arc<ConnectionCounter>,
    /// The connections by the address that the peer gave in the handshake.
    by_peer: RefCell<HashMap<SocketAddr, usize>>,
}

impl Default for InboundConnections {
    fn default() -> Self {
        Self { counter: ConnectionCounter::new(LIMITS, 1), by_peer: RefCell::default() }
    }
}

impl InboundConnections {
    /// Returns whether a node with this address has a connection open.
    pub fn is_open(&self, peer: SocketAddr) -> bool {
        self.by_peer.borrow().contains_key(&peer)
    }

    fn open(&self, peer: SocketAddr) -> OpenPeer<'_> {
        *self.by_peer.borrow_mut().entry(peer).or_default() += 1;
        OpenPeer { connections: self, peer }
    }
}

/// A connection that counts as one of a peer until it is dropped.
struct OpenPeer<'c> {
    connections: &'c InboundConnections,
    peer: SocketAddr,
}

impl Drop for OpenPeer<'_> {
    fn drop(&mut self) {
        let mut by_peer = self.connections.by_peer.borrow_mut();
        if let Some(count) = by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by_peer.remove(&self.peer);
            }
        }
    }
}

/// A connection whose peer has introduced itself.
struct Begun {
    stream: TcpStream,
    initiate: Initiate,
    version: MessagingVersion,
    /// Bytes that have arrived after the handshake.
    buffer: BytesMut,
    _slot: ConnectionSlot,
}

/// Accepts connections until the member stops.
pub(super) async fn accept_all(member: Rc<RingMember>, listener: TcpListener) {
    let handshakes = Places::new(MAX_HANDSHAKES);
    while !member.stopped.is_set() {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let member = Rc::clone(&member);
                handshakes.begin(peer.ip(), |_| serve(member, stream, peer)).await;
            }
            Err(error) => {
                if let Some(left_out) = member.log_limit.due("accepting failed") {
                    tracing::warn!(
                        %error,
                        left_out,
                        "accepting a peer failed, trying again in 0.1 s"
                    );
                }
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Performs the handshake, and serves the connection in a task of its own.
async fn serve(member: Rc<RingMember>, stream: TcpStream, peer: SocketAddr) {
    match time::timeout(HANDSHAKE_LIMIT, begin(&member, stream, peer)).await {
        Ok(Ok(begun)) => spawn_local(async move {
            if let Err(reason) = read_messages(&member, begun).await {
                report(&member, peer, reason);
            }
        })
        .detach(),
        Ok(Err(reason)) => report(&member, peer, reason),
        Err(_) => report(&member, peer, Closed::Refused("its handshake took longer than 10 s")),
    }
}

fn report(member: &RingMember, peer: SocketAddr, reason: Closed) {
    if let Closed::Io(error) = reason {
        tracing::debug!(%peer, %error, "a peer's connection ended");
        return;
    }
    member.metrics.broken.add(1);
    if let Some(left_out) = member.log_limit.due(reason.kind()) {
        tracing::warn!(%peer, %reason, left_out, "closed a peer's connection");
    }
}

async fn begin(
    member: &Rc<RingMember>,
    stream: TcpStream,
    peer: SocketAddr,
) -> Result<Begun, Closed> {
    stream.set_keepalive(KEEPALIVE_IDLE)?;
    stream.set_user_timeout(USER_TIMEOUT)?;
    let stream = match &member.encryption {
        Some(encryption) => encryption.accept(stream, peer.ip()).await.map_err(Closed::Tls)?,
        None => stream,
    };
    let (initiate, buffer) = initiated(&stream).await?;
    let slot = member.inbound.counter.enter(peer.ip(), None, false);
    let _slot = slot.map_err(|_| Closed::TooMany)?;
    let version = accept(member, &stream, &initiate).await?;
    Ok(Begun { stream, initiate, version, buffer, _slot })
}

async fn read_messages(member: &Rc<RingMember>, begun: Begun) -> Result<(), Closed> {
    let Begun { stream, initiate, version, mut buffer, _slot } = begun;
    let _open = member.inbound.open(initiate.from);
    tracing::debug!(peer = %initiate.from, kind = ?initiate.kind, ?version, "a peer connected");
    let compressing = initiate.framing == Framing::Lz4;
    let room = member.room.connection(initiate.kind);
    let mut reader = MessageReader::new(compressing, room.max_message_bytes());
    // The room of an incomplete message, and the time at which its last frame must have arrived.
    let mut unfinished: Option<(Reservation, Instant)> = None;
    while !member.stopped.is_set() {
        while let Some(bytes) = reader.next(&mut buffer)? {
            let reserved = match unfinished.take() {
                Some((reserved, _)) => reserved,
                None => room.reserve(bytes.len()).await,
            };
            let message = Message::decode(&alone(bytes))?;
            member.receive(initiate.from, version, message, reserved).await;
            maybe_yield().await;
        }
        if let Some(length) = reader.unfinished()
            && unfinished.is_none()
        {
            let is_schema = reader.unfinished_verb()? == Verb::SCHEMA_PULL_RSP
                && member.pulls_from(initiate.from);
            if length > MAX_REQUEST_BYTES && !is_schema {
                return Err(Closed::Refused("a message exceeds 16 MiB and 64 KiB"));
            }
            let reserved = room.reserve(length).await;
            unfinished = Some((reserved, Instant::now() + MESSAGE_LIMIT));
        }
        buffer.reserve(reader.bytes_wanted().max(READ_BYTES));
        let reading = stream.read(buffer);
        let (read, back) = match &unfinished {
            None => reading.await,
            Some((_, deadline)) => {
                let deadline = (*deadline).min(Instant::now() + PROGRESS_LIMIT);
                match time::timeout_at(deadline, reading).await {
                    Ok(read) => read,
                    Err(_) => return Err(Closed::Refused("the rest of a message came too late")),
                }
            }
        };
        buffer = back;
        if read? == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns a copy of a short message, which does not keep the message's frame in memory. Returns a
/// longer message as it is.
fn alone(message: Bytes) -> Bytes {
    if message.len() > MAX_COPIED_BYTES { message } else { Bytes::copy_from_slice(&message) }
}

/// Reads the first message of a connection.
async fn initiated(stream: &TcpStream) -> Result<(Initiate, BytesMut), Closed> {
    let mut buffer = BytesMut::with_capacity(HANDSHAKE_BYTES);
    loop {
        if let Some((initiate, length)) = Initiate::decode(&Bytes::copy_from_slice(&buffer))? {
            return Ok((initiate, buffer.split_off(length)));
        }
        let (read, back) = stream.read(buffer).await;
        buffer = back;
        if read? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        buffer.reserve(64);
    }
}

/// Answers the handshake with the version to use.
async fn accept(
    member: &RingMember,
    stream: &TcpStream,
    initiate: &Initiate,
) -> Result<MessagingVersion, Closed> {
    let newest = member.settings.version.number();
    let used = initiate.max_version.min(newest).max(MessagingVersion::V12.number());
    let answer = Accept { max_version: newest.into(), use_version: used.into() };
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    stream.write_all(bytes).await.0?;
    if initiate.kind == ConnectionKind::Streaming {
        return Err(Closed::Refused("streaming is not supported"));
    }
    if initiate.framing == Framing::Unprotected {
        return Err(Closed::Refused("frames without checksums are not supported"));
    }
    let is_common = (initiate.min_version..=initiate.max_version).contains(&used);
    MessagingVersion::from_number(used)
        .filter(|_| is_common)
        .ok_or(Closed::Refused("no version of messages is common to both nodes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_does_not_keep_its_frame() {
        let frame = Bytes::from(vec![7; 2 * MAX_COPIED_BYTES]);
        let short = frame.slice(..MAX_COPIED_BYTES);
        assert_ne!(alone(short.clone()).as_ptr(), short.as_ptr());
        assert_eq!(alone(short.clone()), short);
        assert_eq!(alone(frame.clone()).as_ptr(), frame.as_ptr());
    }
}

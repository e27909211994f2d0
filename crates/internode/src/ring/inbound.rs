//! Connections from peers: the handshake, then messages one way.

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use bytes::{Bytes, BytesMut};
use espalier_runtime::{
    maybe_yield,
    net::{TcpListener, TcpStream},
    spawn_local, time,
};

use super::RingMember;
use crate::{
    DecodeError, MessagingVersion,
    frame::{DEFAULT_MAX_MESSAGE_BYTES, MessageReader},
    handshake::{Accept, ConnectionKind, Framing, Initiate},
    message::Message,
};

/// Time for the handshake. Arbitrary; it has one round trip.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that a read asks for at least.
const READ_BYTES: usize = 64 << 10;

/// The end of a connection.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Bytes(#[from] DecodeError),
    #[error("{0}")]
    Refused(&'static str),
}

/// Accepts connections until the member stops.
pub(super) async fn accept_all(member: Rc<RingMember>, listener: TcpListener) {
    while !member.stopped.is_set() {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let member = Rc::clone(&member);
                spawn_local(serve(member, stream, peer)).detach();
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a peer failed, trying again in 0.1 s");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(member: Rc<RingMember>, stream: TcpStream, peer: SocketAddr) {
    match serve_until_closed(&member, &stream).await {
        Ok(()) => {}
        Err(Closed::Io(error)) => tracing::debug!(%peer, %error, "a peer's connection ended"),
        Err(reason) => {
            member.metrics.count_broken();
            tracing::warn!(%peer, %reason, "closed a peer's connection");
        }
    }
}

async fn serve_until_closed(member: &Rc<RingMember>, stream: &TcpStream) -> Result<(), Closed> {
    let (initiate, mut buffer) = match time::timeout(HANDSHAKE_LIMIT, initiated(stream)).await {
        Ok(initiated) => initiated?,
        Err(_) => return Err(Closed::Refused("its handshake took longer than 10 s")),
    };
    let version = accept(member, stream, &initiate).await?;
    tracing::info!(peer = %initiate.from, kind = ?initiate.kind, ?version, "a peer connected");
    let compressing = initiate.framing == Framing::Lz4;
    let mut reader = MessageReader::new(compressing, DEFAULT_MAX_MESSAGE_BYTES);
    while !member.stopped.is_set() {
        while let Some(bytes) = reader.next(&mut buffer)? {
            let message = Message::decode(&bytes)?;
            member.receive(initiate.from, version, message);
            maybe_yield().await;
        }
        buffer.reserve(reader.bytes_wanted().max(READ_BYTES));
        let (read, back) = stream.read(buffer).await;
        buffer = back;
        if read? == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads the first message of a connection.
async fn initiated(stream: &TcpStream) -> Result<(Initiate, BytesMut), Closed> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
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

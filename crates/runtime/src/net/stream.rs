//! A TCP connection, plain or encrypted, whole or split into its halves.

use super::network::canonical;
use super::tls::{ClientCertificate, Session, TlsDescription};
use crate::file::{Filling, IoBytes, Sending, SendingVectored};
use crate::preempt::maybe_yield;
use bytes::BytesMut;
use compio::BufResult;
use compio::buf::IoVectoredBuf as _;
use compio::io::{AsyncRead, AsyncWrite};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// Maximum number of buffers that are sent at once without an operation in the completion queue
/// (arbitrary).
const SLICES_AT_ONCE: usize = 16;

/// The directions of a connection to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing more will be read: a read under way ends as if the peer had closed.
    Read,
    /// Nothing more will be written: the peer sees the end after the bytes written so far.
    Write,
    /// Closes both directions.
    Both,
}

/// A TCP connection of the calling shard.
pub struct TcpStream {
    inner: compio::net::TcpStream,
    /// The session of an encrypted connection.
    tls: Option<Rc<Session>>,
    /// Bytes of a plain connection that were received before its first [`Self::read`].
    received: RefCell<BytesMut>,
}

/// The reading half of a connection; a task of its own may own it.
pub struct ReadHalf {
    stream: TcpStream,
}

/// The writing half of a connection; a task of its own may own it.
pub struct WriteHalf {
    stream: TcpStream,
}

/// A connection on its way to another shard. Dropping it closes the connection.
#[derive(Debug)]
pub struct DetachedStream(OwnedFd);

impl TcpStream {
    /// Connects to `address`.
    ///
    /// # Errors
    /// Fails if the kernel or the peer refuses the connection.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        Ok(TcpStream::wrap(compio::net::TcpStream::connect(address).await?))
    }

    pub(super) fn wrap(inner: compio::net::TcpStream) -> Self {
        TcpStream { inner, tls: None, received: RefCell::default() }
    }

    /// Makes the connection encrypted from now on.
    pub(super) fn encrypted(self, session: Session) -> Self {
        TcpStream { tls: Some(Rc::new(session)), ..self }
    }

    /// Makes the next reads return `bytes`, which were received already.
    pub(super) fn with_received(self, bytes: BytesMut) -> Self {
        TcpStream { received: RefCell::new(bytes), ..self }
    }

    /// Describes the encryption; `None` for a plain connection.
    pub fn tls(&self) -> Option<TlsDescription> {
        self.tls.as_ref().map(|session| session.describe())
    }

    /// Returns the certificate that the client of an encrypted connection has shown. The handshake
    /// has checked that a trusted certificate signed it.
    pub fn client_certificate(&self) -> Option<ClientCertificate> {
        self.tls.as_ref()?.client_certificate()
    }

    /// Reads once into `buffer`, after its present content, up to its capacity; returns the count
    /// (0 at the end of the stream) and the buffer.
    ///
    /// # Errors
    /// Fails if the buffer has no spare capacity or the connection is broken.
    pub async fn read(&self, buffer: BytesMut) -> (io::Result<usize>, BytesMut) {
        let base = buffer.len();
        if buffer.capacity() == base {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "no space in the buffer");
            return (Err(error), buffer);
        }
        if let Some(session) = &self.tls {
            return session.read(self, buffer).await;
        }
        if !self.received.borrow().is_empty() {
            return self.take_received(buffer);
        }
        self.read_plain(buffer).await
    }

    fn take_received(&self, mut buffer: BytesMut) -> (io::Result<usize>, BytesMut) {
        let mut received = self.received.borrow_mut();
        let count = received.len().min(buffer.capacity() - buffer.len());
        buffer.extend_from_slice(&received.split_to(count));
        if received.is_empty() {
            *received = BytesMut::new();
        }
        (Ok(count), buffer)
    }

    /// Reads once from the socket.
    pub(super) async fn read_plain(&self, buffer: BytesMut) -> (io::Result<usize>, BytesMut) {
        let base = buffer.len();
        let mut filling = Filling { buffer, base, limit: usize::MAX };
        loop {
            let BufResult(result, back) = (&self.inner).read(filling).await;
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => filling = back,
                result => return (result, back.buffer),
            }
        }
    }

    /// Writes all of `buffer` and returns it.
    ///
    /// # Errors
    /// Fails if the connection is broken; part of the buffer may have been sent.
    pub async fn write_all<B: IoBytes>(&self, buffer: B) -> (io::Result<()>, B) {
        if let Some(session) = &self.tls {
            let result = session.send(self, buffer.io_bytes()).await;
            return (result, buffer);
        }
        self.write_plain(buffer).await
    }

    /// Writes all of `buffer` to the socket.
    pub(super) async fn write_plain<B: IoBytes>(&self, buffer: B) -> (io::Result<()>, B) {
        let from = match self.send_now(buffer.io_bytes()) {
            Ok(sent) => sent,
            Err(error) => return (Err(error), buffer),
        };
        maybe_yield().await;
        let mut sending = Sending { buffer, from };
        while sending.from < sending.buffer.io_bytes().len() {
            let BufResult(result, back) = (&self.inner).write(sending).await;
            sending = back;
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), sending.buffer),
                Ok(count) => sending.from += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), sending.buffer),
            }
        }
        (Ok(()), sending.buffer)
    }

    /// Sends as many bytes as the socket takes at once, and returns the count.
    ///
    /// Nearly every write fits into the socket's buffer. A system call for it costs about 300 ns
    /// less than an operation in the completion queue, and the peer gets the bytes before the
    /// task's slice is over (examples/socket_cost.rs).
    pub(super) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&self.inner, bytes, flags) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    fn send_now_vectored<B: IoBytes>(&self, buffers: &SendingVectored<B>) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_AT_ONCE];
        let mut count = 0;
        for (slice, bytes) in slices.iter_mut().zip(buffers.iter_slice()) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut nothing_beside = SendAncillaryBuffer::default();
        match rustix::net::sendmsg(&self.inner, &slices[..count], &mut nothing_beside, flags) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes all of several buffers and returns them. A plain connection sends them together, an
    /// encrypted one buffer by buffer.
    ///
    /// # Errors
    /// Fails if the connection is broken; part of the buffers may have been sent.
    pub async fn write_all_vectored<B: IoBytes>(
        &self,
        buffers: Vec<B>,
    ) -> (io::Result<()>, Vec<B>) {
        if let Some(session) = &self.tls {
            for buffer in &buffers {
                if let Err(error) = session.send(self, buffer.io_bytes()).await {
                    return (Err(error), buffers);
                }
            }
            return (Ok(()), buffers);
        }
        let mut sending = SendingVectored::new(buffers);
        let mut done = match self.send_now_vectored(&sending) {
            Ok(sent) => sending.advance(sent),
            Err(error) => return (Err(error), sending.buffers),
        };
        maybe_yield().await;
        while !done {
            let BufResult(result, back) = (&self.inner).write_vectored(sending).await;
            sending = back;
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), sending.buffers),
                Ok(count) => done = sending.advance(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), sending.buffers),
            }
        }
        (Ok(()), sending.buffers)
    }

    /// Sends small writes at once instead of gathering them (TCP_NODELAY).
    ///
    /// # Errors
    /// Fails if the kernel refuses the option.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.inner.set_nodelay(on)
    }

    /// Lets the kernel check whether the peer still exists (SO_KEEPALIVE): after `idle` without
    /// data, and then each 10 s. After three checks without an answer, the kernel closes the
    /// connection. The kernel's own default for `idle` is 2 h.
    ///
    /// # Errors
    /// Fails if the kernel refuses an option.
    pub fn set_keepalive(&self, idle: Duration) -> io::Result<()> {
        use rustix::net::sockopt;
        sockopt::set_socket_keepalive(&self.inner, true)?;
        sockopt::set_tcp_keepidle(&self.inner, idle)?;
        sockopt::set_tcp_keepintvl(&self.inner, Duration::from_secs(10))?;
        Ok(sockopt::set_tcp_keepcnt(&self.inner, 3)?)
    }

    /// Lets the kernel close the connection if the peer does not acknowledge data for this time
    /// (TCP_USER_TIMEOUT). Without this option, the kernel sends the data again for a quarter of an
    /// hour, at intervals of up to 2 min.
    ///
    /// # Errors
    /// Fails if the kernel refuses the option.
    pub fn set_user_timeout(&self, limit: Duration) -> io::Result<()> {
        let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        Ok(rustix::net::sockopt::set_tcp_user_timeout(&self.inner, limit_ms)?)
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        Ok(canonical(self.inner.peer_addr()?))
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// Fails if the kernel does not report the address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Closes directions of the connection at once, also for the other half.
    ///
    /// # Errors
    /// Fails if the kernel refuses. A connection that is already broken is no error.
    pub fn shutdown(&self, which: Shutdown) -> io::Result<()> {
        if let (Some(session), Shutdown::Write | Shutdown::Both) = (&self.tls, which) {
            session.announce_close(self);
        }
        let which = match which {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        match rustix::net::shutdown(&self.inner, which) {
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Splits the connection into two halves for two tasks of the same shard. The connection closes
    /// when both are dropped.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        let reading = TcpStream {
            inner: self.inner.clone(),
            tls: self.tls.clone(),
            received: RefCell::new(self.received.take()),
        };
        (ReadHalf { stream: reading }, WriteHalf { stream: self })
    }

    /// Takes the connection off this shard, to be attached on another one. Call it only before the
    /// connection is split or accepted by a [`super::tls::TlsAcceptor`], and while no read or write
    /// is under way.
    ///
    /// # Errors
    /// Fails if the kernel cannot duplicate the descriptor.
    pub fn detach(self) -> io::Result<DetachedStream> {
        // Duplicates the descriptor, because the runtime may keep the old one for a moment longer.
        Ok(DetachedStream(self.inner.as_fd().try_clone_to_owned()?))
    }

    /// Attaches a detached connection to the calling shard.
    ///
    /// # Errors
    /// Fails if the event loop cannot register the connection.
    pub fn attach(detached: DetachedStream) -> io::Result<Self> {
        let stream = std::net::TcpStream::from(detached.0);
        Ok(TcpStream::wrap(compio::net::TcpStream::from_std(stream)?))
    }
}

impl ReadHalf {
    /// Reads as [`TcpStream::read`].
    ///
    /// # Errors
    /// As [`TcpStream::read`].
    pub async fn read(&mut self, buffer: BytesMut) -> (io::Result<usize>, BytesMut) {
        self.stream.read(buffer).await
    }

    /// Returns the whole connection, for addresses and shutdown.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl WriteHalf {
    /// Writes as [`TcpStream::write_all`].
    ///
    /// # Errors
    /// As [`TcpStream::write_all`].
    pub async fn write_all<B: IoBytes>(&mut self, buffer: B) -> (io::Result<()>, B) {
        self.stream.write_all(buffer).await
    }

    /// Writes as [`TcpStream::write_all_vectored`].
    ///
    /// # Errors
    /// As [`TcpStream::write_all_vectored`].
    pub async fn write_all_vectored<B: IoBytes>(
        &mut self,
        buffers: Vec<B>,
    ) -> (io::Result<()>, Vec<B>) {
        self.stream.write_all_vectored(buffers).await
    }

    /// Returns the whole connection, for addresses and shutdown.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

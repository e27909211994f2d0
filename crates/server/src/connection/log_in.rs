//! The log-in of a connection: AUTHENTICATE, AUTH_RESPONSE with a token of SASL PLAIN,
//! AUTH_SUCCESS.
//!
//! A client that has not logged in holds little: its messages are short ([`MAX_LOGIN_BYTES`]), it
//! has [`LOGIN_TIME`] from the beginning of the connection, and it may fail [`MAX_FAILURES`] times.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use espalier_cql::auth::Login;
use espalier_runtime::time::{self, Instant};

use super::Connection;
use crate::convert::error_response;
use crate::protocol::response::{ErrorDetail, ErrorResponse};
use crate::protocol::{Consistency, Envelope, Request, Response, ResponseExtras};

/// The class of the authenticator, by which drivers choose their way to log in.
const AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// Time that a client has to log in. Arbitrary; Cassandra has no limit.
const LOGIN_TIME: Duration = Duration::from_secs(10);

/// Failed log-ins of one connection after which the node closes it. Arbitrary.
const MAX_FAILURES: u32 = 3;

/// Longest message of a client that has not logged in, in bytes. Arbitrary: names and passwords are
/// short.
pub(super) const MAX_LOGIN_BYTES: usize = 8 * 1024;

impl Connection {
    /// Returns the answer to an accepted STARTUP: READY, or AUTHENTICATE if the client has to log
    /// in.
    pub(super) fn begin_login(&self) -> Response<'static> {
        if !self.server.processor.auth().settings.authenticator.requires_login() {
            return Response::Ready;
        }
        self.awaits_login.set(true);
        Response::Authenticate(AUTHENTICATOR)
    }

    /// Waits for bytes of the client. A client of a node with authentication must have logged in
    /// within [`LOGIN_TIME`].
    ///
    /// # Errors
    ///
    /// Fails with `TimedOut` if the client sends nothing in time, or as `read` fails.
    pub(super) async fn in_login_time(
        &self,
        read: impl Future<Output = io::Result<usize>>,
    ) -> io::Result<usize> {
        let requires_login = self.server.processor.auth().settings.authenticator.requires_login();
        if !requires_login || self.client.borrow().login.is_some() {
            return read.await;
        }
        let deadline = self.login_deadline.get().unwrap_or_else(|| {
            let deadline = Instant::now() + LOGIN_TIME;
            self.login_deadline.set(Some(deadline));
            deadline
        });
        time::timeout_at(deadline, read).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Returns the limit of the client's messages, in bytes.
    pub(super) fn max_frame_size(&self) -> usize {
        let max_frame_size = self.server.config.max_frame_size;
        let requires_login = self.server.processor.auth().settings.authenticator.requires_login();
        if requires_login && self.client.borrow().login.is_none() {
            return max_frame_size.min(MAX_LOGIN_BYTES);
        }
        max_frame_size
    }

    /// Serves a message of a client that has to log in.
    pub(super) async fn log_in(&self, envelope: &Envelope) {
        let stream = envelope.header.stream;
        let token = match Request::decode(envelope) {
            Ok(Request::AuthResponse(token)) => token,
            Ok(_) => {
                let opcode = format!("{:?}", envelope.header.opcode).to_uppercase();
                let message = format!("Unexpected message {opcode}, expecting SASL_RESPONSE");
                let error = ErrorResponse::new(ErrorDetail::Protocol, message);
                return self.refuse_login(stream, &error);
            }
            Err(error) => return self.refuse_login(stream, &error.response()),
        };
        self.server.metrics.requests_auth_response.increment();
        let processor = &self.server.processor;
        let login = processor.auth().log_in(processor.database(), token, self.peer.ip());
        match login.await {
            Ok(login) => {
                tracing::debug!(peer = %self.peer, role = login.name(), "a client logged in");
                self.set_login(login);
                let extras = ResponseExtras::default();
                self.respond(stream, &extras, &Response::AuthSuccess(None));
            }
            Err(error) => {
                tracing::warn!(peer = %self.peer, %error, "a client could not log in");
                self.refuse_login(stream, &error_response(error, Consistency::One));
            }
        }
    }

    /// Answers a log-in with an error. After [`MAX_FAILURES`] the reader closes the connection.
    fn refuse_login(&self, stream: crate::protocol::StreamId, error: &ErrorResponse) {
        self.failed_logins.set(self.failed_logins.get() + 1);
        self.refuse(stream, error);
    }

    /// Returns whether the client has failed too often.
    pub(super) fn has_failed_to_log_in(&self) -> bool {
        self.failed_logins.get() >= MAX_FAILURES
    }

    fn set_login(&self, login: Login) {
        let mut client = self.client.borrow_mut();
        Rc::make_mut(&mut client).login = Some(Rc::new(login));
        self.awaits_login.set(false);
    }

    /// Sets the keyspace of the connection, after USE.
    pub fn set_keyspace(&self, keyspace: String) {
        let mut client = self.client.borrow_mut();
        Rc::make_mut(&mut client).keyspace = Some(keyspace);
    }
}

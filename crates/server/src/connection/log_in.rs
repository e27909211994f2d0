//! The log-in of a connection: AUTHENTICATE, AUTH_RESPONSE with a token of SASL PLAIN,
//! AUTH_SUCCESS.
//!
//! The node limits a client that has not logged in: each message has at most [`MAX_LOGIN_BYTES`],
//! and the client must log in within [`LOGIN_TIME`] from the beginning of the connection, with at
//! most [`MAX_MESSAGES_BEFORE_LOGIN`] messages and fewer than [`MAX_FAILURES`] failures. The node
//! has a limited number of such connections (see [`crate::admission`]).

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use espalier_cql::auth::{Authenticator, Login};
use espalier_runtime::log_limit::Quoted;
use espalier_runtime::time;

use super::Connection;
use crate::audit::log_login;
use crate::convert::{Levels, error_response};
use crate::protocol::response::{ErrorDetail, ErrorResponse};
use crate::protocol::{Envelope, Request, Response, ResponseExtras};

/// Returns the class of the authenticator, by which drivers choose their way to log in. Drivers
/// have no way for a transitional authenticator, so it is reported as PasswordAuthenticator.
fn class_name(authenticator: Authenticator) -> &'static str {
    match authenticator {
        Authenticator::MutualTls => "org.apache.cassandra.auth.MutualTlsAuthenticator",
        Authenticator::MutualTlsOrPassword => {
            "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator"
        }
        _ => "org.apache.cassandra.auth.PasswordAuthenticator",
    }
}

/// Time that a client has to log in. Arbitrary; Cassandra has no limit.
const LOGIN_TIME: Duration = Duration::from_secs(10);

/// Failed log-ins of one connection after which the node closes it. Arbitrary.
const MAX_FAILURES: u32 = 3;

/// Messages of a client before its log-in after which the node closes the connection. Drivers send
/// fewer than five. Arbitrary.
const MAX_MESSAGES_BEFORE_LOGIN: u32 = 16;

/// Longest message of a client that has not logged in, in bytes. Arbitrary: names and passwords are
/// short.
pub(super) const MAX_LOGIN_BYTES: usize = 8 * 1024;

impl Connection {
    /// Returns the answer to an accepted STARTUP: READY, or AUTHENTICATE if the client has to log
    /// in.
    pub(super) fn begin_login(&self) -> Response<'static> {
        let authenticator = self.server.processor.auth().settings.authenticator;
        if !authenticator.requires_login() {
            return Response::Ready;
        }
        self.awaits_login.set(true);
        Response::Authenticate(class_name(authenticator))
    }

    /// Returns whether the client has to log in before its first request.
    pub(super) fn must_log_in(&self) -> bool {
        let requires_login = self.server.processor.auth().settings.authenticator.requires_login();
        requires_login && self.client.borrow().login.is_none()
    }

    /// Serves the connection for [`LOGIN_TIME`]. Returns true if the connection continues, because
    /// the client has logged in and `serving` has not ended.
    pub(super) async fn in_login_time(&self, serving: Pin<&mut impl Future<Output = ()>>) -> bool {
        if time::timeout(LOGIN_TIME, serving).await.is_ok() {
            return false;
        }
        let has_logged_in = self.client.borrow().login.is_some();
        if !has_logged_in {
            tracing::debug!(peer = %self.peer, "a client did not log in in time, closing");
        }
        has_logged_in
    }

    /// Returns the limit of the client's messages, in bytes.
    pub(super) fn max_frame_size(&self) -> usize {
        let max_frame_size = self.server.config.max_frame_size;
        if self.must_log_in() { max_frame_size.min(MAX_LOGIN_BYTES) } else { max_frame_size }
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
        let (auth, database) = (processor.auth(), processor.database());
        let takes_certificates = auth.settings.authenticator.takes_certificates();
        let certificate = if takes_certificates { self.stream.client_certificate() } else { None };
        let login = auth.log_in(database, token, certificate.as_ref(), self.peer.ip());
        match login.await {
            Ok(login) => {
                tracing::debug!(peer = %self.peer, role = login.name(), "a client logged in");
                log_login(self, Ok(login.name())).await;
                self.set_login(login);
                let extras = ResponseExtras::default();
                self.respond(stream, &extras, &Response::AuthSuccess);
            }
            Err(error) => {
                self.server.metrics.logins_failed.increment();
                if let Some(left_out) = self.server.log_limit.due("failed log-in") {
                    // The error may have a name that the client chose.
                    tracing::warn!(
                        peer = %self.peer,
                        error = %Quoted(&error.to_string()),
                        left_out,
                        "a client could not log in"
                    );
                }
                let error = error_response(error, Levels::DEFAULT);
                log_login(self, Err(&error)).await;
                self.refuse_login(stream, &error);
            }
        }
    }

    /// Answers a log-in with an error. After [`MAX_FAILURES`] the reader closes the connection.
    fn refuse_login(&self, stream: crate::protocol::StreamId, error: &ErrorResponse) {
        self.failed_logins.set(self.failed_logins.get() + 1);
        self.refuse(stream, error);
    }

    /// Counts a message of a client that has not logged in.
    pub(super) fn count_message_before_login(&self) {
        self.messages_before_login.set(self.messages_before_login.get().saturating_add(1));
    }

    /// Returns whether the client has failed too often, or has sent too many messages without a
    /// log-in.
    pub(super) fn has_failed_to_log_in(&self) -> bool {
        self.failed_logins.get() >= MAX_FAILURES
            || self.messages_before_login.get() >= MAX_MESSAGES_BEFORE_LOGIN && self.must_log_in()
    }

    fn set_login(&self, login: Login) {
        let mut client = self.client.borrow_mut();
        Rc::make_mut(&mut client).login = Some(Rc::new(login));
        self.awaits_login.set(false);
        self.slot.logged_in();
    }

    /// Sets the keyspace of the connection, after USE.
    pub fn set_keyspace(&self, keyspace: String) {
        let mut client = self.client.borrow_mut();
        Rc::make_mut(&mut client).keyspace = Some(keyspace);
    }
}

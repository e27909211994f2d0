//! Sends answers with rows of at least [`LARGE_CONTENT`] bytes. The connection frames them in
//! pieces and yields after each, so that other clients of the shard do not wait for the whole
//! answer.

use std::borrow::Cow;
use std::io;

use espalier_runtime::sync::Semaphore;
use espalier_runtime::{maybe_yield, spawn_blocking_holding};

use super::Connection;
use crate::protocol::response::Rows;
use crate::protocol::{LARGE_CONTENT, LargeResponse, Response, ResponseExtras, StreamId};

thread_local! {
    /// Permit to compress a body on a helper thread. One at a time for each shard, because the
    /// helper threads serve files too, and the compressed form takes memory that nothing counts.
    static COMPRESSION: Semaphore = Semaphore::new(1);
}

impl Connection {
    /// Adds a response with rows to the send buffer. `content` replaces the content of `rows`.
    pub fn respond_rows(
        &self,
        stream: StreamId,
        extras: &ResponseExtras<'_>,
        rows: Rows<'_>,
        content: Cow<'_, [u8]>,
    ) {
        if content.len() < LARGE_CONTENT {
            let response = Response::Rows(Rows { content: &content, ..rows });
            return self.respond(stream, extras, &response);
        }
        let write = |extras: &ResponseExtras<'_>| {
            self.send.borrow_mut().write_large(stream, extras, rows, content.into_owned());
        };
        self.write_response(extras, write);
    }

    /// Writes large responses to the socket.
    ///
    /// # Errors
    ///
    /// Fails if the socket fails.
    pub(super) async fn write_large(&self, responses: Vec<LargeResponse>) -> io::Result<()> {
        for mut response in responses {
            if response.must_be_compressed() {
                let permit = COMPRESSION.with(Semaphore::clone).acquire(1).await;
                response = spawn_blocking_holding(permit, move || response.compressed()).await;
            }
            for piece in response.into_pieces() {
                self.server.metrics.bytes_sent.add(piece.len() as u64);
                self.stream.write_all(piece).await.0?;
                maybe_yield().await;
            }
        }
        Ok(())
    }
}

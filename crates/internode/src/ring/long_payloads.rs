//! Decodes and checks long payloads on a helper thread, so that other tasks of the shard do not
//! wait for them.
//!
//! The connection of the message waits, so its messages keep their order.
//!
//! Bound: one such payload at a time for each shard, because files need the helper threads, too.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::schema::Schema;
use espalier_runtime::{spawn_blocking_if_long, sync::Semaphore};

use super::dispatch::Refusal;
use crate::{MessagingVersion, error::Result, message::Verb, payload::Payload};

/// Minimum length of a long payload, in bytes. Arbitrary: a shorter payload has at most some
/// thousand small cells.
const LONG_PAYLOAD: usize = 32 << 10;

thread_local! {
    /// The permit to work on a long payload.
    static LONG_PAYLOADS: Semaphore = Semaphore::new(1);
}

/// Does work on a payload of `bytes` bytes: on a helper thread if the payload is long.
pub(super) async fn run_long<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    spawn_blocking_if_long(bytes, LONG_PAYLOAD, &LONG_PAYLOADS, work).await
}

/// Decodes a payload as [`Payload::decode`] does: on a helper thread if the payload is long.
pub(super) async fn decode(
    verb: Verb,
    version: MessagingVersion,
    payload: Bytes,
    schema: Arc<Schema>,
) -> Result<Payload> {
    run_long(payload.len(), move || Payload::decode(verb, version, &payload, &*schema)).await
}

/// Decodes a payload and does `work` on it: on a helper thread if the payload is long. One
/// hand-over does both, because a message may wait for the thread at each hand-over.
pub(super) async fn decode_and<T: Send + 'static>(
    verb: Verb,
    version: MessagingVersion,
    payload: Bytes,
    schema: Arc<Schema>,
    work: impl FnOnce(Payload) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    run_long(payload.len(), move || {
        Payload::decode(verb, version, &payload, &*schema).map_err(Refusal::of).and_then(work)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
        thread,
    };

    use espalier_runtime::block_on;
    use uuid::Uuid;

    use super::*;
    use crate::payload::Batch;

    const VERB: Verb = Verb::BATCH_STORE_REQ;
    const VERSION: MessagingVersion = MessagingVersion::V13;

    /// Returns the payload of a batch whose only part has this length.
    fn batch(part_bytes: usize) -> Bytes {
        let part = Bytes::from(vec![7; part_bytes]);
        let batch = Payload::BatchStore(Batch::of_parts(Uuid::nil(), 1, &[part]));
        let mut bytes = Vec::new();
        batch.encode(VERSION, &mut bytes).unwrap();
        bytes.into()
    }

    #[test]
    fn other_tasks_do_not_wait_for_the_decoding_of_a_long_payload() {
        block_on(async {
            let schema = Arc::new(Schema::new(Default::default(), Uuid::nil()));
            for (part_bytes, is_long) in [(16, false), (LONG_PAYLOAD, true)] {
                let payload = batch(part_bytes);
                let expected = Payload::decode(VERB, VERSION, &payload, &*schema);
                let mut decoding = pin!(decode(VERB, VERSION, payload, Arc::clone(&schema)));
                // The first poll decodes a short payload, and leaves a long one to a helper thread.
                let first = decoding.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert_eq!(first.is_pending(), is_long);
                let decoded = match first {
                    Poll::Ready(decoded) => decoded,
                    Poll::Pending => decoding.await,
                };
                assert!(decoded.is_ok());
                assert_eq!(decoded, expected);
            }
        });
    }

    #[test]
    fn the_work_on_a_long_payload_follows_its_decoding_on_the_helper_thread() {
        block_on(async {
            let schema = Arc::new(Schema::new(Default::default(), Uuid::nil()));
            let shard = thread::current().id();
            for (part_bytes, is_long) in [(16, false), (LONG_PAYLOAD, true)] {
                let work = |payload: Payload| {
                    assert!(matches!(payload, Payload::BatchStore(_)));
                    Ok(thread::current().id())
                };
                let schema = Arc::clone(&schema);
                let worked = decode_and(VERB, VERSION, batch(part_bytes), schema, work).await;
                assert_eq!(worked.ok().map(|thread| thread != shard), Some(is_long));
            }
        });
    }
}

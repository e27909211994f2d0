//! This module makes acknowledgements wait for durability. Writes that one sync of the log covers
//! share a [`SyncBatch`]. Throttled writes share another one, which `storage` resolves at the end
//! of their delay (`shard/write_pace.rs`).
//!
//! Memory: for each log, one batch that gathers and one that is written; the batches of throttled
//! writes; and one waker for each waiting write.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use espalier_runtime::{time, trace, trace_event};

use crate::CommitLogError;

/// A ticket is a future that resolves when an applied write may be acknowledged to its client.
///
/// `storage` returns a ticket for a write that is applied: its record is appended to the commit log
/// and the memtable shows it to readers. A barrier returns one to a statement that writes nothing.
/// The ticket delays the acknowledgement, never the write.
///
/// The ticket resolves once both of these events have happened:
/// 1. The write is durable under `commitlog_sync`: under `group` and `batch` after the fdatasync
///    that covers its record; under `periodic`, and for tables without `durable_writes`, at once.
/// 2. The throttling delay has passed, if flushes cannot keep up with writes at the moment.
///
/// **Errors.** The ticket resolves with [`CommitLogError::Write`] if the write or the sync of its
/// batch failed; it does not wait for its delay then. The write stays visible in the memtable and
/// may or may not survive a crash, so the client must treat its outcome as unknown. All tickets of
/// a failed batch, and of the batch that gathered behind it, receive the same error. A delay never
/// fails.
///
/// **Order.** Batches of one log resolve in the order of their records. Tickets of one batch are
/// woken together. Delays are independent of batches and may delay a ticket behind a later one.
///
/// **Dropping** a ticket, or the future of [`CommitTicket::wait`], is safe at any time. It neither
/// undoes the write nor affects other tickets; only the outcome is lost. The ticket's waker stays
/// in the batch until the batch resolves.
///
/// **Polling** a ticket again after it has resolved does not panic but has no meaning: it does not
/// repeat an error and may wait for the delay. A pending ticket may move to another task of the
/// shard; the last polling task is woken.
///
/// **Lifetime.** A ticket belongs to the shard that made it and is not `Send`. It has no timeout of
/// its own. It resolves as long as the tasks of its shard run: closing the log writes and syncs all
/// pending records first, and the end of throttling ends all delays.
#[must_use = "the write is not acknowledged before this resolves"]
pub struct CommitTicket {
    /// The sync batch that makes the write durable; `None` once a poll has found the batch
    /// resolved, or if the write needs no batch.
    durable: Option<Rc<SyncBatch>>,
    /// The throttling delay; `None` once it has passed, or if writes are not throttled.
    delay: Option<Rc<SyncBatch>>,
    /// Index of this ticket's waker in the batch that it polls at the moment.
    slot: Option<usize>,
}

/// A batch of writes that are acknowledged together, by one sync or at the end of one throttling
/// delay.
#[derive(Default)]
pub struct SyncBatch {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    outcome: Option<Result<(), CommitLogError>>,
    wakers: Vec<Waker>,
}

impl SyncBatch {
    /// Resolves all waiting tickets with `outcome`. Only the first call has an effect.
    pub fn resolve(&self, outcome: Result<(), CommitLogError>) {
        let mut state = self.state.borrow_mut();
        if state.outcome.is_some() {
            return;
        }
        state.outcome = Some(outcome);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl CommitTicket {
    /// Returns the ticket of a write that needs no waiting.
    #[inline]
    pub fn acknowledged() -> Self {
        Self { durable: None, delay: None, slot: None }
    }

    pub(crate) fn of(sync_batch: &Rc<SyncBatch>) -> Self {
        Self { durable: Some(sync_batch.clone()), delay: None, slot: None }
    }

    /// Returns this ticket, which then waits for `delay` as well, if there is one.
    #[inline]
    pub fn with_delay(self, delay: Option<Rc<SyncBatch>>) -> Self {
        Self { delay, ..self }
    }

    /// Returns whether the ticket would resolve at once with success.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        let mut sync_batches = self.durable.iter().chain(&self.delay);
        sync_batches.all(|sync_batch| matches!(sync_batch.state.borrow().outcome, Some(Ok(()))))
    }

    /// Waits for the ticket, and reports the waiting time in µs to the request's trace.
    ///
    /// # Errors
    /// [`CommitLogError::Write`] if the commit log could not write or sync the record.
    pub async fn wait(self) -> Result<(), CommitLogError> {
        if !trace::is_on() {
            return self.await;
        }
        if self.is_acknowledged() {
            trace_event!("Acknowledging the write without waiting for the commitlog's sync");
            return self.await;
        }
        if self.delay.is_some() {
            trace_event!("Waiting: memtables fill up faster than they are flushed");
        }
        let is_durable = self.durable.is_none();
        let began = time::Instant::now();
        if !is_durable {
            trace_event!("Waiting for the commitlog's sync");
        }
        let outcome = self.await;
        let time_us = began.elapsed().as_micros();
        match &outcome {
            Ok(()) if is_durable => trace_event!("Acknowledging the write: waited {time_us} µs"),
            Ok(()) => trace_event!("Commitlog synced: waited {time_us} µs"),
            Err(error) => trace_event!("Commitlog sync failed after {time_us} µs: {error}"),
        }
        outcome
    }

    /// Polls one batch. Clears `sync_batch` once the batch has resolved, so that it is not polled
    /// again.
    fn poll_sync_batch(
        sync_batch: &mut Option<Rc<SyncBatch>>,
        slot: &mut Option<usize>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CommitLogError>> {
        let Some(awaited) = sync_batch.clone() else { return Poll::Ready(Ok(())) };
        let mut state = awaited.state.borrow_mut();
        if let Some(outcome) = &state.outcome {
            (*sync_batch, *slot) = (None, None);
            return Poll::Ready(outcome.clone());
        }
        match slot.and_then(|slot| state.wakers.get_mut(slot)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                *slot = Some(state.wakers.len());
                state.wakers.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}

impl Future for CommitTicket {
    type Output = Result<(), CommitLogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { durable, delay, slot } = &mut *self;
        match Self::poll_sync_batch(durable, slot, context) {
            Poll::Ready(Ok(())) => Self::poll_sync_batch(delay, slot, context),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_resolves_with_its_sync_batch() {
        let sync_batch = Rc::new(SyncBatch::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut ticket = CommitTicket::of(&sync_batch);
        assert!(!ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        assert_eq!(sync_batch.state.borrow().wakers.len(), 1);
        sync_batch.resolve(Ok(()));
        assert!(ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_ready());
        assert!(CommitTicket::acknowledged().is_acknowledged());
    }

    #[test]
    fn a_ticket_waits_for_its_sync_and_its_delay() {
        let (durable, delay) = (Rc::new(SyncBatch::default()), Rc::new(SyncBatch::default()));
        let mut context = Context::from_waker(Waker::noop());
        let mut ticket = CommitTicket::of(&durable).with_delay(Some(delay.clone()));
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        durable.resolve(Ok(()));
        assert!(!ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        assert_eq!(delay.state.borrow().wakers.len(), 1);
        delay.resolve(Ok(()));
        assert!(ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_ready());
    }

    #[test]
    fn a_failed_sync_resolves_a_ticket_before_its_delay() {
        let (durable, delay) = (Rc::new(SyncBatch::default()), Rc::new(SyncBatch::default()));
        let mut context = Context::from_waker(Waker::noop());
        let mut ticket = CommitTicket::of(&durable).with_delay(Some(delay));
        durable.resolve(Err(CommitLogError::ShuttingDown));
        let Poll::Ready(outcome) = Pin::new(&mut ticket).poll(&mut context) else {
            panic!("the ticket waits for its delay after a failed sync")
        };
        assert!(matches!(outcome, Err(CommitLogError::ShuttingDown)));
    }
}

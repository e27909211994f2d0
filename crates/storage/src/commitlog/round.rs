//! Waiting for durability: the writes that go to disk together share one [`Round`].
//!
//! Memory: one round for each write to the disk under way, and a waker for each waiting write.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use espalier_runtime::{time, trace, trace_event};

use crate::StorageError;

/// Resolves when the write is acknowledged by the rules of `commitlog_sync`. Dropping it does not undo the write.
#[must_use = "the write is not acknowledged before this resolves"]
pub struct CommitTicket {
    round: Option<Rc<Round>>,
    slot: Option<usize>,
}

/// Writes that become durable together.
#[derive(Default)]
pub(crate) struct Round {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    outcome: Option<Result<(), StorageError>>,
    wakers: Vec<Waker>,
}

impl Round {
    /// Tells everyone who waits. Only the first call counts.
    pub(crate) fn resolve(&self, outcome: Result<(), StorageError>) {
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
    /// Of a write that needs no waiting.
    pub fn acknowledged() -> Self {
        Self { round: None, slot: None }
    }

    pub(crate) fn of(round: &Rc<Round>) -> Self {
        Self { round: Some(round.clone()), slot: None }
    }

    /// Whether it resolves at once, without an error.
    pub fn is_acknowledged(&self) -> bool {
        match &self.round {
            None => true,
            Some(round) => matches!(round.state.borrow().outcome, Some(Ok(()))),
        }
    }

    /// Waits, and tells those who trace the request for how long.
    pub async fn wait(self) -> Result<(), StorageError> {
        if !trace::is_on() {
            return self.await;
        }
        if self.is_acknowledged() {
            trace_event!("Acknowledging the write without waiting for the commitlog's sync");
            return self.await;
        }
        let began = time::Instant::now();
        trace_event!("Waiting for the commitlog's sync");
        let outcome = self.await;
        let time_us = began.elapsed().as_micros();
        match &outcome {
            Ok(()) => trace_event!("Commitlog synced: waited {time_us} µs"),
            Err(error) => trace_event!("Commitlog sync failed after {time_us} µs: {error}"),
        }
        outcome
    }
}

impl Future for CommitTicket {
    type Output = Result<(), StorageError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(round) = self.round.clone() else { return Poll::Ready(Ok(())) };
        let mut state = round.state.borrow_mut();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        match self.slot.and_then(|slot| state.wakers.get_mut(slot)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                self.slot = Some(state.wakers.len());
                state.wakers.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_waits_for_its_round() {
        let round = Rc::new(Round::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut ticket = CommitTicket::of(&round);
        assert!(!ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        assert_eq!(round.state.borrow().wakers.len(), 1);
        round.resolve(Ok(()));
        assert!(ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_ready());
        assert!(CommitTicket::acknowledged().is_acknowledged());
    }
}

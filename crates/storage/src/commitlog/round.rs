//! Waiting for durability: the writes that go to disk together share one [`Round`]. Those that are slowed down share others, which
//! time resolves.
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
    /// When it is durable.
    durable: Option<Rc<Round>>,
    /// When its turn comes: writers are slowed down.
    turn: Option<Rc<Round>>,
    /// The place of its waker in the one that it waits for.
    slot: Option<usize>,
}

/// Writes that are acknowledged together.
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
        Self { durable: None, turn: None, slot: None }
    }

    pub(crate) fn of(round: &Rc<Round>) -> Self {
        Self { durable: Some(round.clone()), turn: None, slot: None }
    }

    /// The same that waits for its turn, too, if there is one.
    pub(crate) fn with_turn(self, turn: Option<Rc<Round>>) -> Self {
        Self { turn, ..self }
    }

    /// Whether it resolves at once, without an error.
    pub fn is_acknowledged(&self) -> bool {
        let mut rounds = self.durable.iter().chain(&self.turn);
        rounds.all(|round| matches!(round.state.borrow().outcome, Some(Ok(()))))
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
        if self.turn.is_some() {
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

    /// Polls the round that it waits for; once that has resolved, it is not waited for any more.
    fn poll_round(
        round: &mut Option<Rc<Round>>,
        slot: &mut Option<usize>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StorageError>> {
        let Some(awaited) = round.clone() else { return Poll::Ready(Ok(())) };
        let mut state = awaited.state.borrow_mut();
        if let Some(outcome) = &state.outcome {
            (*round, *slot) = (None, None);
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
    type Output = Result<(), StorageError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { durable, turn, slot } = &mut *self;
        match Self::poll_round(durable, slot, context) {
            Poll::Ready(Ok(())) => Self::poll_round(turn, slot, context),
            other => other,
        }
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

    #[test]
    fn a_ticket_waits_for_its_turn_as_well() {
        let (durable, turn) = (Rc::new(Round::default()), Rc::new(Round::default()));
        let mut context = Context::from_waker(Waker::noop());
        let mut ticket = CommitTicket::of(&durable).with_turn(Some(turn.clone()));
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        durable.resolve(Ok(()));
        assert!(!ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        assert_eq!(turn.state.borrow().wakers.len(), 1);
        turn.resolve(Ok(()));
        assert!(ticket.is_acknowledged());
        assert!(Pin::new(&mut ticket).poll(&mut context).is_ready());
    }

    #[test]
    fn what_is_not_durable_is_an_error_before_its_turn() {
        let (durable, turn) = (Rc::new(Round::default()), Rc::new(Round::default()));
        let mut context = Context::from_waker(Waker::noop());
        let mut ticket = CommitTicket::of(&durable).with_turn(Some(turn));
        durable.resolve(Err(StorageError::ShuttingDown));
        let Poll::Ready(outcome) = Pin::new(&mut ticket).poll(&mut context) else {
            panic!("it waits on")
        };
        assert!(matches!(outcome, Err(StorageError::ShuttingDown)));
    }
}

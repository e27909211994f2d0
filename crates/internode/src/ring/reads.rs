//! Answers to reads of the ring.
//!
//! Each read waits for a permit, reads from storage, and sends the complete answer. The node drops
//! a read if its coordinator has given up.
//!
//! Bounds: [`MAX_READS`] reads run at the same time, [`MAX_WAITING`] wait; the answers have a
//! budget of their own ([`crate::replica`]).

use std::{cell::Cell, net::SocketAddr, rc::Rc, time::Duration};

use espalier_runtime::{
    spawn_local,
    sync::Semaphore,
    time::{self, Instant},
};

use super::{RingMember, dispatch::Refusal, outbound::Queued, room::Reservation};
use crate::{
    message::{Header, MessageFlags},
    payload::{Payload, ReadCommand},
    replica::{AnswerBudget, ReadFailure, ReadTerms},
};

/// Reads that run at the same time. Arbitrary: enough to keep disks busy.
const MAX_READS: usize = 64;
/// Reads that wait. Arbitrary; each holds its decoded command.
const MAX_WAITING: usize = 4096;

/// Maximum time of a read or of a step of a conditional write. Arbitrary; by default, Cassandra's
/// coordinators give up after 5 to 10 s.
const MAX_READ_TIME: Duration = Duration::from_secs(60);

/// The reads that a member is answering.
pub(super) struct Reads {
    turns: Semaphore,
    waiting: Cell<usize>,
    pub budget: AnswerBudget,
}

impl Default for Reads {
    fn default() -> Self {
        let turns = Semaphore::new(MAX_READS);
        Self { turns, waiting: Cell::new(0), budget: AnswerBudget::default() }
    }
}

impl RingMember {
    /// Starts a read, and answers it once its rows are read.
    pub(super) fn read(
        self: &Rc<Self>,
        to: SocketAddr,
        header: &Header,
        command: ReadCommand,
        room: Reservation,
    ) -> Result<(), Refusal> {
        let (id, verb, flags) = (header.id, header.verb, header.flags);
        let Some(response) = verb.response() else { return Err(Refusal::unsupported(verb)) };
        let Some(left) = time_left(header) else {
            self.drop_expired(to, verb);
            return Ok(());
        };
        let waiting = self.reads.waiting.get();
        if waiting >= MAX_WAITING {
            return Err(Refusal::new("too many reads wait"));
        }
        self.reads.waiting.set(waiting + 1);
        let terms = ReadTerms {
            deadline: Instant::now() + left,
            tombstones: self.backend.tombstone_limits(),
            tracks_warnings: flags.contains(MessageFlags::TRACK_WARNINGS),
            tracks_repaired: flags.contains(MessageFlags::TRACK_REPAIRED_DATA),
            budget: self.reads.budget.clone(),
        };
        let is_wanted = flags.contains(MessageFlags::CALL_BACK_ON_FAILURE);
        let member = Rc::clone(self);
        spawn_local(async move {
            let turn = time::timeout_at(terms.deadline, member.reads.turns.acquire(1)).await;
            member.reads.waiting.set(member.reads.waiting.get() - 1);
            let outcome = if turn.is_err() || Instant::now() >= terms.deadline {
                Err(ReadFailure::Expired)
            } else {
                member.backend.read(command, terms).await
            };
            drop((turn, room));
            match outcome {
                Ok(answer) => {
                    if let Some(tombstones) = answer.many_tombstones
                        && member.log_limit.is_due("many tombstones")
                    {
                        tracing::warn!(
                            peer = %to,
                            tombstones,
                            "a read of a peer met many tombstones; see tombstone_warn_threshold"
                        );
                    }
                    let payload = Payload::ReadResponse(answer.response);
                    let message = Queued::new(id, response, payload)
                        .with_parameters(answer.parameters)
                        .holding(answer.bytes);
                    member.metrics.read.add(1);
                    member.send(to, message);
                }
                Err(ReadFailure::Expired) => member.drop_expired(to, verb),
                Err(ReadFailure::Refused(reason, text)) => {
                    member.refuse(to, (id, verb), is_wanted, &Refusal { reason, text });
                }
            }
        })
        .detach();
        Ok(())
    }
}

/// Returns the time until the sender of a request gives up, at most [`MAX_READ_TIME`]; `None` if it
/// has given up.
///
/// The age of the message follows from the wall clocks of both nodes. If the clock of the sender is
/// ahead, the age is 0.
pub(super) fn time_left(header: &Header) -> Option<Duration> {
    let age_ms = (time::now_millis() as u32).wrapping_sub(header.created_ms) as i32;
    let left_ms = header.expires_in_ms.saturating_sub(u64::try_from(age_ms).unwrap_or(0));
    (left_ms > 0).then(|| Duration::from_millis(left_ms).min(MAX_READ_TIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Verb;

    #[test]
    fn the_time_of_a_read_has_a_bound() {
        let left = |age_ms: u32, expires_in_ms| {
            time_left(&Header {
                id: 1,
                created_ms: (time::now_millis() as u32).wrapping_sub(age_ms),
                expires_in_ms,
                verb: Verb::READ_REQ,
                flags: MessageFlags::default(),
                parameters: Vec::new(),
            })
        };
        assert_eq!(left(0, u64::MAX), Some(MAX_READ_TIME));
        assert!(left(0, 5_000).unwrap() <= Duration::from_secs(5));
        assert_eq!(left(5_000, 5_000), None);
    }
}

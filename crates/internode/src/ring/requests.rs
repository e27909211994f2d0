//! Requests of this node that wait for the answer of a peer.

use std::{cell::RefCell, collections::HashMap, net::SocketAddr, rc::Rc, time::Duration};

use espalier_runtime::{
    sync::oneshot::{Sender, oneshot},
    time,
};

use super::RingMember;
use crate::{message::Verb, payload::Payload};

/// Time for the answer to a request: the default of Cassandra's `write_request_timeout`.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The peer has carried out the request.
    Done,
    /// The peer has refused the request.
    Refused,
    /// The peer has not answered in time.
    None,
}

/// The requests that wait, by the id of their message.
#[derive(Default)]
pub(super) struct Requests(RefCell<HashMap<u64, (SocketAddr, Sender<bool>)>>);

impl RingMember {
    /// Sends a request and waits for the answer.
    pub(super) async fn request(
        self: &Rc<Self>,
        to: SocketAddr,
        verb: Verb,
        payload: Payload,
    ) -> Reply {
        let (sender, receiver) = oneshot();
        let message = self.queued(verb, payload).wanting_failure();
        let id = message.id();
        self.requests.0.borrow_mut().insert(id, (to, sender));
        self.send(to, message);
        let answer = time::timeout(ANSWER_LIMIT, receiver).await;
        self.requests.0.borrow_mut().remove(&id);
        match answer {
            Ok(Ok(true)) => Reply::Done,
            Ok(Ok(false)) => Reply::Refused,
            _ => Reply::None,
        }
    }

    /// Passes an answer to the request that waits for it, if there is one.
    pub(super) fn on_answer(&self, from: SocketAddr, id: u64, is_done: bool) {
        let mut waiting = self.requests.0.borrow_mut();
        if waiting.get(&id).is_some_and(|(to, _)| *to == from)
            && let Some((_, sender)) = waiting.remove(&id)
        {
            // The send fails if the request has timed out.
            let _ = sender.send(is_done);
        }
    }
}

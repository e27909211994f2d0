//! Writes that the node passes on: a coordinator sends a write once to each other data centre, with
//! the replicas to which the receiver forwards it.
//!
//! A replica answers the coordinator itself. A write that does not reach a replica is not answered,
//! and the coordinator keeps a hint.
//!
//! Memory: the messages of a write share its encoded form. At most 4 MiB of forwarded writes and
//! large gossip, or one larger message, wait for one replica (`room`). The node drops further ones,
//! so that a slow replica does not stop the coordinator.

use std::{collections::BTreeSet, net::SocketAddr, rc::Rc};

use bytes::Bytes;

use super::{RingMember, dispatch::Refusal, gossiper::MAX_ENDPOINTS, outbound::Queued};
use crate::{
    message::{Header, Parameter, ParameterKind, Verb},
    payload::Payload,
};

/// Returns the replicas to which this node forwards a write, each with the id of its message.
pub(super) fn targets_of(header: &Header) -> Result<Vec<(SocketAddr, u64)>, Refusal> {
    let targets = header.forward_to().map_err(Refusal::of)?;
    if targets.len() > MAX_ENDPOINTS {
        return Err(Refusal::new("a write names more replicas than a ring has nodes"));
    }
    let distinct = targets.iter().map(|(target, _)| target).collect::<BTreeSet<_>>().len();
    if distinct < targets.len() {
        return Err(Refusal::new("a write names a replica twice"));
    }
    Ok(targets)
}

impl RingMember {
    /// Sends an encoded write, whose message had this header, to replicas. They respond to
    /// `coordinator`.
    pub(super) fn forward(
        self: &Rc<Self>,
        coordinator: SocketAddr,
        header: &Header,
        targets: Vec<(SocketAddr, u64)>,
        encoded: &Bytes,
    ) {
        let replaced = [ParameterKind::ForwardTo, ParameterKind::RespondTo].map(|kind| kind as u32);
        let kept = header.parameters.iter().filter(|it| !replaced.contains(&it.kind)).cloned();
        let mut parameters: Vec<_> = kept.collect();
        parameters.push(Parameter::respond_to(coordinator));
        for (target, id) in targets {
            let payload = Payload::Encoded(encoded.clone());
            let message = Queued::new(id, Verb::MUTATION_REQ, payload).with_flags(header.flags);
            self.send(
                target,
                message.with_parameters(parameters.clone()).forwarding(encoded.len(), header),
            );
        }
    }
}

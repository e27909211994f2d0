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

use super::{
    RingMember, dispatch::Refusal, gossiper::MAX_ENDPOINTS, long_payloads::run_long,
    outbound::Queued,
};
use crate::{
    message::{Message, Parameter, ParameterKind, Verb},
    payload::{Mutation, Payload},
};

impl RingMember {
    /// Sends the write of a message to the replicas that the header names. They respond to
    /// `coordinator`. Returns the write.
    pub(super) async fn forward(
        self: &Rc<Self>,
        coordinator: SocketAddr,
        message: &Message,
        write: Mutation,
    ) -> Result<Mutation, Refusal> {
        let header = &message.header;
        let targets = header.forward_to().map_err(Refusal::of)?;
        if targets.len() > MAX_ENDPOINTS {
            return Err(Refusal::new("a write names more replicas than a ring has nodes"));
        }
        if targets.is_empty() {
            return Ok(write);
        }
        let distinct = targets.iter().map(|(target, _)| target).collect::<BTreeSet<_>>().len();
        if distinct < targets.len() {
            return Err(Refusal::new("a write names a replica twice"));
        }
        let encoding = run_long(message.payload.len(), move || {
            let mut encoded = Vec::new();
            write.encode(&mut encoded).map(|()| (write, Bytes::from(encoded)))
        });
        let (write, encoded) = encoding.await.map_err(Refusal::new)?;
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
        Ok(write)
    }
}

//! Writes that the node passes on: a coordinator sends a write once to each other data centre, with
//! the replicas to which the receiver forwards it.
//!
//! A replica answers the coordinator itself. A write that does not reach a replica is not answered,
//! and the coordinator keeps a hint.

use std::{net::SocketAddr, rc::Rc};

use super::{RingMember, dispatch::Refusal, gossiper::MAX_ENDPOINTS, outbound::Queued, room};
use crate::{
    message::{Header, Parameter, ParameterKind, Verb},
    payload::{Mutation, Payload},
};

impl RingMember {
    /// Sends a write to the replicas that its header names. They respond to `coordinator`. Each
    /// message holds the room of the write until the message is sent.
    pub(super) fn forward(
        self: &Rc<Self>,
        coordinator: SocketAddr,
        header: &Header,
        write: &Mutation,
        room: &room::Reservation,
    ) -> Result<(), Refusal> {
        let targets = header.forward_to().map_err(Refusal::of)?;
        if targets.len() > MAX_ENDPOINTS {
            return Err(Refusal::new("a write names more replicas than a ring has nodes"));
        }
        let replaced = [ParameterKind::ForwardTo, ParameterKind::RespondTo].map(|kind| kind as u32);
        let kept = header.parameters.iter().filter(|it| !replaced.contains(&it.kind)).cloned();
        let mut parameters: Vec<_> = kept.collect();
        parameters.push(Parameter::respond_to(coordinator));
        for (target, id) in targets {
            let message = Queued::new(id, Verb::MUTATION_REQ, Payload::Mutation(write.clone()));
            let message = message.with_parameters(parameters.clone()).with_flags(header.flags);
            self.send(target, message.holding_room(room.clone()));
        }
        Ok(())
    }
}

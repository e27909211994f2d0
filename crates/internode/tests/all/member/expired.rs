//! Tests that the member counts and logs requests for which their coordinators no longer wait.

use std::{fmt, sync::Mutex};

use espalier_internode::payload::Commit;
use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use super::*;

/// Collects the warnings about expired requests: peer, verb, timeout, and number of lines left out.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let field = |name| fields.0.get(name).cloned().unwrap_or_default();
        if field("message").starts_with("dropped a request") {
            let line = ["peer", "verb", "timeout", "left_out"].map(field).join(" ");
            self.0.lock().unwrap().push(line);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

#[test]
fn expired_requests_of_each_kind_are_counted_and_logged_once() {
    let warnings = Warnings::default();
    let _installed = tracing::subscriber::set_default(warnings.clone());
    // With two dispatchers, a callsite that another thread registers asks both.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    block_on(async {
        let node = TestNode::default();
        *node.0.schema.borrow_mut() = Some(of_two_replicas());
        let (peer, own, member) = ring(&node, false).await;
        let write = recorded_batch().mutations(&*of_two_replicas()).unwrap().remove(0);
        let commit = Commit { ballot: Uuid::from_u128(4), update: write.updates[0].clone() };
        let write = Payload::Mutation(write);
        let read = Payload::Read(Box::new(whole_partition()));
        let truncate = Payload::Truncate { keyspace: "ks".into(), table: "t".into() };
        peer.expires_in_ms.set(0);
        peer.send(own, 1, Verb::READ_REQ, read.clone()).await;
        peer.send(own, 2, Verb::READ_REQ, read).await;
        // The peer has forwarded the write of another coordinator.
        let coordinator = SocketAddr::from(([127, 0, 0, 9], 1));
        let parameters = vec![Parameter::respond_to(coordinator)];
        peer.send_with(own, (3, Verb::MUTATION_REQ), write.clone(), parameters).await;
        peer.send(own, 4, Verb::READ_REPAIR_REQ, write).await;
        peer.send(own, 5, Verb::PAXOS_PROPOSE_REQ, Payload::Paxos(Box::new(commit))).await;
        peer.send(own, 6, Verb::TRUNCATE_REQ, truncate).await;
        peer.expires_in_ms.set(9000);
        peer.send(own, 7, Verb::SCHEMA_VERSION_REQ, Payload::None).await;
        until("the answer", || peer.count(Verb::SCHEMA_VERSION_RSP) == 1).await;
        assert_eq!(expired_requests(&member), 6);
        let expected = [
            (peer.address, "READ_REQ read_request_timeout 0"),
            (coordinator, "MUTATION_REQ write_request_timeout 0"),
            (peer.address, "PAXOS_PROPOSE_REQ write_request_timeout 0"),
            (peer.address, "TRUNCATE_REQ truncate_request_timeout 0"),
        ];
        let expected = expected.map(|(peer, rest)| format!("{peer} {rest}"));
        assert_eq!(*warnings.0.lock().unwrap(), expected);
        member.stop().await;
    });
}

//! Tests the Paxos acceptor of conditional writes: against a model with crashes of the disk, with
//! concurrent requests, and over sockets.

use std::{
    rc::Rc,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use espalier_internode::{
    message::{MessageFlags, Verb},
    paxos::{
        AcceptorState, NO_BALLOT, PaxosAnswer, PaxosRequest, PaxosStep, Recorded, answer,
        ballot_micros,
    },
    payload::{Commit, FailureReason, Partition, Payload, PrepareResponse, Update},
};
use espalier_mutation::{
    Cell, Clustering, ColumnData, DecoratedKey, PartitionUpdate, Row,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{
    ShardContext, block_on,
    file::FileSystem,
    random::{self, Generator},
    spawn_local, time,
};
use espalier_storage::{Node, ReadCommand, ReadTarget, SharedStorage, StorageConfiguration};
use espalier_types::{CqlType, timeuuid};
use uuid::Uuid;

use crate::{
    member::{TestNode, VERSION, of_replicas, ring, until},
    replica::create,
    replica_limits::database,
    sent_by_cassandra::{bodies, decode},
};

mod commits;
mod foreign;

/// The time of the first ballot, in µs since 1970. It is later than the creation of the tables,
/// and no record expires before it.
static START_US: LazyLock<i64> = LazyLock::new(|| time::now_micros() + 3_600_000_000);

fn ballot(number: i64) -> Uuid {
    let node = 0x8000_0000_0000_0000 | number as u64;
    Uuid::from_bytes(timeuuid::from_unix_micros(*START_US + number, node))
}

fn table() -> Arc<TableMetadata> {
    let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)))
        .partition_key("k", CqlType::Text)
        .regular("v", CqlType::Text);
    Arc::new(table.build())
}

fn key() -> DecoratedKey {
    DecoratedKey::new(Bytes::from_static(b"k"))
}

async fn open(file_system: &FileSystem) -> Node {
    let context = ShardContext { index: 0, count: 1 };
    let mut configuration = StorageConfiguration::new("node");
    (configuration.commit_log.segment_bytes, configuration.commit_log.total_bytes) =
        (64 << 10, 1 << 20);
    let shared = SharedStorage::new();
    Node::open(context, file_system.clone(), Arc::new(configuration), shared).await.unwrap()
}

/// Returns the update of a ballot. The acceptor does not decode updates.
fn update_of(ballot: Uuid) -> Bytes {
    Bytes::from(format!("update of {ballot}"))
}

fn write_of(ballot: Uuid) -> Box<PartitionUpdate> {
    let table = table();
    let mut row = Row::empty(Clustering::empty());
    let cell = Cell::live(ballot_micros(ballot).unwrap(), update_of(ballot));
    row.set_cell(table.column("v").unwrap().id, cell);
    let mut update = PartitionUpdate::new(table.id, key());
    update.rows.push(row);
    Box::new(update)
}

fn propose(ballot: Uuid) -> PaxosStep {
    PaxosStep::Propose(update_of(ballot), write_of(ballot))
}

fn commit(ballot: Uuid) -> PaxosStep {
    PaxosStep::Commit(update_of(ballot), write_of(ballot))
}

async fn ask_for(database: &Node, ballot: Uuid, step: PaxosStep, ttl_s: u32) -> PaxosAnswer {
    let request = request_of(ballot, step);
    answer(database, PaxosRequest { ttl_s, ..request }).await.unwrap()
}

fn request_of(ballot: Uuid, step: PaxosStep) -> PaxosRequest {
    let left = Duration::from_secs(60);
    PaxosRequest { table: table().id, key: key(), ttl_s: 864_000, ballot, left, step }
}

async fn ask(database: &Node, ballot: Uuid, step: PaxosStep) -> PaxosAnswer {
    ask_for(database, ballot, step, 864_000).await
}

/// Returns the value of the row.
async fn value(database: &Node) -> Option<Bytes> {
    let table = database.store().schema().table("ks", "t").unwrap().clone();
    let target = ReadTarget::Partition(key());
    let command = ReadCommand::of_all(Arc::clone(&table), target, 1_795_000_000);
    let read = database.read(command).await.unwrap();
    let row = read.partitions.first()?.rows.first()?;
    match row.column(table.column("v")?.id)? {
        ColumnData::Simple(cell) => Some(cell.value.clone()),
        ColumnData::Complex(_) => None,
    }
}

/// An acceptor by the rules of Paxos, without storage. Each ballot has a time of its own.
#[derive(Default)]
struct Model {
    promised: Option<Uuid>,
    accepted: Option<Uuid>,
    committed: Option<Uuid>,
}

impl Model {
    fn newest(&self) -> Option<Uuid> {
        [self.promised, self.accepted, self.committed].into_iter().flatten().max_by_key(time_of)
    }

    fn answer(&mut self, ballot: Uuid, step: &PaxosStep) -> PaxosAnswer {
        let recorded = |ballot: Option<Uuid>| {
            ballot.map(|ballot| Recorded { ballot, update: update_of(ballot), expires_s: 0 })
        };
        let newest = self.newest();
        let is_newer = newest.is_none_or(|newest| time_of(&ballot) > time_of(&newest));
        match step {
            PaxosStep::Prepare if is_newer => {
                self.promised = Some(ballot);
                let (accepted, committed) = (recorded(self.accepted), recorded(self.committed));
                PaxosAnswer::Promised { accepted, committed }
            }
            PaxosStep::Prepare => {
                let committed = recorded(self.committed);
                PaxosAnswer::Refused { newest: newest.unwrap(), committed }
            }
            PaxosStep::Propose(..) => {
                let is_accepted = is_newer || newest == Some(ballot);
                if is_accepted && self.committed != Some(ballot) {
                    self.accepted = Some(ballot);
                }
                PaxosAnswer::Accepted(is_accepted)
            }
            PaxosStep::Commit(..) => {
                self.accepted =
                    self.accepted.filter(|accepted| time_of(accepted) > time_of(&ballot));
                self.committed = self.committed.into_iter().chain([ballot]).max_by_key(time_of);
                PaxosAnswer::Committed
            }
        }
    }
}

fn time_of(ballot: &Uuid) -> i64 {
    ballot_micros(*ballot).unwrap()
}

/// Returns an answer without the seconds of expiry.
fn plain(answer: PaxosAnswer) -> PaxosAnswer {
    let plain =
        |recorded: Option<Recorded>| recorded.map(|recorded| Recorded { expires_s: 0, ..recorded });
    match answer {
        PaxosAnswer::Promised { accepted, committed } => {
            PaxosAnswer::Promised { accepted: plain(accepted), committed: plain(committed) }
        }
        PaxosAnswer::Refused { newest, committed } => {
            PaxosAnswer::Refused { newest, committed: plain(committed) }
        }
        other => other,
    }
}

/// Runs several lives of a node on one disk, each ended by a crash. The acceptor never forgets an
/// answer.
#[test]
fn answers_are_those_of_the_model_through_crashes() {
    for seed in espalier_testing::seeds(80) {
        random::seed(seed);
        let mut random = Generator::from_seed(seed);
        let mut file_system = FileSystem::simulated(seed);
        let mut model = Model::default();
        for life in 0..4 {
            block_on(async {
                let database = open(&file_system).await;
                if life == 0 {
                    create(&database, vec![table()]).await;
                }
                for request in 0..12 {
                    // The ballots are near the newest one, so that older and newer ballots mix.
                    let near = model.newest().map_or(10, |newest| time_of(&newest) - *START_US);
                    let ballot = match random.below(3) {
                        0 => model.newest().unwrap_or_else(|| ballot(near)),
                        _ => ballot((near + random.below(8) as i64 - 3).max(0)),
                    };
                    let step = match random.below(5) {
                        0 | 1 => PaxosStep::Prepare,
                        2 | 3 => propose(ballot),
                        _ => commit(ballot),
                    };
                    let expected = model.answer(ballot, &step);
                    let found = plain(ask(&database, ballot, step.clone()).await);
                    let context = format!("seed {seed} life {life} request {request}: {step:?}");
                    assert_eq!(found, expected, "{context}");
                    assert_eq!(value(&database).await, model.committed.map(update_of), "{context}");
                    if random.below(6) == 0 {
                        database.flush("system", Some("paxos")).await.unwrap();
                    }
                }
            });
            let disk = file_system.simulated_disk().unwrap().crash(random.next_u64());
            file_system = FileSystem::on(disk);
        }
    }
}

/// The acceptor decides about one request after the other. If it promises a ballot without showing
/// an older proposal, it does not accept that proposal later.
#[test]
fn requests_at_the_same_time_do_not_cross() {
    for seed in espalier_testing::seeds(60) {
        random::seed(seed);
        espalier_runtime::preempt::force_yields(Some(seed));
        block_on(async {
            let database = open(&FileSystem::simulated(seed)).await;
            create(&database, vec![table()]).await;
            let mut random = Generator::from_seed(seed);
            let begin = |number: i64, is_prepare: bool| {
                let (database, ballot) = (database.clone(), ballot(number));
                let step = if is_prepare { PaxosStep::Prepare } else { propose(ballot) };
                spawn_local(async move { (ballot, is_prepare, ask(&database, ballot, step).await) })
            };
            let begun: Vec<_> =
                (0..24).map(|_| begin(random.below(9) as i64, random.below(2) == 0)).collect();
            let mut promises: Vec<(Uuid, Option<Uuid>)> = Vec::new();
            let mut accepted = Vec::new();
            for request in begun {
                match request.await {
                    (ballot, true, PaxosAnswer::Promised { accepted, .. }) => {
                        promises.push((ballot, accepted.map(|recorded| recorded.ballot)));
                    }
                    (ballot, false, PaxosAnswer::Accepted(true)) => accepted.push(ballot),
                    (_, true, PaxosAnswer::Refused { .. })
                    | (_, false, PaxosAnswer::Accepted(false)) => {}
                    other => panic!("{other:?}"),
                }
            }
            for (promised, shown) in &promises {
                let shown = shown.as_ref().map_or(i64::MIN, time_of);
                for older in accepted.iter().filter(|other| time_of(other) < time_of(promised)) {
                    assert!(time_of(older) <= shown, "seed {seed}: {older} after {promised}");
                }
            }
            let times = promises.iter().map(|(ballot, _)| time_of(ballot));
            let mut times: Vec<_> = times.collect();
            times.sort_unstable();
            times.dedup();
            assert_eq!(times.len(), promises.len(), "seed {seed}: a ballot is promised once");
        });
        espalier_runtime::preempt::force_yields(None);
    }
}

#[test]
fn accepted_and_committed_records_expire_and_promises_stay() {
    block_on(async {
        let database = open(&FileSystem::simulated(1)).await;
        create(&database, vec![table()]).await;
        let now_us = time::now_micros();
        let at = |seconds: i64| {
            Uuid::from_bytes(timeuuid::from_unix_micros(now_us + seconds * 1_000_000, 1 << 63))
        };
        for (accepted, committed) in [(at(2), at(1))] {
            ask_for(&database, committed, commit(committed), 60).await;
            ask_for(&database, accepted, propose(accepted), 60).await;
        }
        let shown = |answer: PaxosAnswer| match answer {
            PaxosAnswer::Promised { accepted, committed } => {
                (accepted.is_some(), committed.is_some())
            }
            other => panic!("{other:?}"),
        };
        // The acceptor computes the age of its records at the time of the request's ballot.
        assert_eq!(shown(ask(&database, at(30), PaxosStep::Prepare).await), (true, true));
        assert_eq!(shown(ask(&database, at(90), PaxosStep::Prepare).await), (false, false));
        let refused = ask(&database, at(89), PaxosStep::Prepare).await;
        assert_eq!(refused, PaxosAnswer::Refused { newest: at(90), committed: None });
    });
}

/// Returns a ballot that is `flag` units of 100 ns after microsecond `number`.
fn with_flag(number: i64, flag: u64) -> Uuid {
    let ticks = (*START_US + number) * 10 + timeuuid::UNIX_EPOCH_TICKS;
    Uuid::from_bytes(timeuuid::from_ticks(ticks as u64 + flag, 1 << 63))
}

#[test]
fn ballots_of_one_microsecond_do_not_overtake_each_other() {
    let promised = Some(with_flag(5, 1));
    let state = AcceptorState { promised, ..AcceptorState::default() };
    assert!(!state.may_promise(with_flag(5, 2)) && !state.may_accept(with_flag(5, 2)));
    assert!(state.may_accept(with_flag(5, 1)) && !state.may_promise(with_flag(5, 1)));
    assert!(state.may_promise(with_flag(6, 0)) && !state.may_promise(with_flag(4, 9)));
    assert_eq!(ballot_micros(NO_BALLOT), Some(0));
}

/// A commit writes the update twice in one record, to the table and to `system.paxos`. If its
/// proposal was accepted, the commit must fit, because otherwise no later request about the
/// partition could end.
#[test]
fn a_proposal_that_cannot_be_committed_is_refused() {
    block_on(async {
        let database = open(&FileSystem::simulated(1)).await;
        create(&database, vec![table()]).await;
        let table = table();
        let ask_with = async |number: i64, length: usize, is_commit: bool| {
            let (ballot, value) = (ballot(number), Bytes::from(vec![b'x'; length]));
            let mut write = write_of(ballot);
            let cell = Cell::live(ballot_micros(ballot).unwrap(), value.clone());
            write.rows[0].set_cell(table.column("v").unwrap().id, cell);
            let step = if is_commit {
                PaxosStep::Commit(value, write)
            } else {
                PaxosStep::Propose(value, write)
            };
            answer(&database, request_of(ballot, step)).await
        };
        // A record has at most 32 KiB here.
        let mut outcomes = [0, 0];
        for (number, length) in (15 << 10..17 << 10).step_by(16).enumerate() {
            let number = number as i64;
            let proposed = ask_with(number, length, false).await;
            outcomes[usize::from(proposed.is_ok())] += 1;
            match proposed {
                Ok(_) => assert_eq!(
                    ask_with(number, length, true).await.unwrap(),
                    PaxosAnswer::Committed
                ),
                Err(error) => {
                    assert!(error.contains("larger than the maximum"), "{error}");
                    let shown = ask(&database, ballot(number), PaxosStep::Prepare).await;
                    let PaxosAnswer::Promised { accepted, .. } = shown else { panic!() };
                    assert_eq!(accepted, None);
                }
            }
        }
        assert!(outcomes.iter().all(|count| *count > 8), "{outcomes:?}");
    });
}

/// A request whose coordinator gives up while another request has the turn changes nothing.
#[test]
fn a_request_gives_up_with_its_coordinator() {
    block_on(async {
        let database = open(&FileSystem::simulated(1)).await;
        create(&database, vec![table()]).await;
        let begin = |number: i64, left: Duration| {
            let database = database.clone();
            let request = PaxosRequest { left, ..request_of(ballot(number), PaxosStep::Prepare) };
            spawn_local(async move { answer(&database, request).await })
        };
        let first = begin(1, Duration::from_secs(60));
        let expired: Vec<_> = (2..6).map(|number| begin(number, Duration::ZERO)).collect();
        first.await.unwrap();
        for request in expired {
            let error = request.await.unwrap_err();
            assert!(error.contains("gave up") || error.contains("held its rows"), "{error}");
        }
        let refused = ask(&database, ballot(1), PaxosStep::Prepare).await;
        assert_eq!(refused, PaxosAnswer::Refused { newest: ballot(1), committed: None });
    });
}

/// Returns an update of `ks.t` that Cassandra sent.
fn sent_update() -> Update {
    let updates = bodies().into_iter().filter_map(|(verb, body)| match decode(verb, &body) {
        Payload::Mutation(mutation) if verb == Verb::MUTATION_REQ => Some(mutation.updates),
        _ => None,
    });
    let mut updates = updates.flatten();
    updates.find(|update| update.table.keyspace == "ks" && update.table.name == "t").unwrap()
}

#[test]
fn a_coordinator_is_answered_step_by_step() {
    block_on(async {
        let node = TestNode::default();
        let database = database().await;
        let schema = database.store().schema();
        *node.0.schema.borrow_mut() = Some(Arc::clone(&schema));
        *node.0.database.borrow_mut() = Some(database);
        let (peer, own, member) = ring(&node, false).await;
        let update = sent_update();
        let key = update.partition.key.clone();
        let nothing = Update {
            table: Arc::clone(&update.table),
            partition: Partition { key, is_reversed: false, content: None },
        };
        let ids = std::cell::Cell::new(100);
        let send = async |verb: Verb, ballot: Uuid, update: &Update| {
            let id = ids.replace(ids.get() + 1);
            let commit = Payload::Paxos(Box::new(Commit { ballot, update: update.clone() }));
            peer.send(own, id, verb, commit).await;
            let answer = || {
                let arrived = peer.arrived.borrow();
                let mut messages = arrived.iter().map(|(_, message)| message.clone());
                messages.find(|message| message.header.id == id && is_answer(message.header.verb))
            };
            until("the answer", || answer().is_some()).await;
            let message = answer().unwrap();
            let payload = Payload::decode(message.header.verb, VERSION, &message.payload, &*schema);
            payload.unwrap()
        };
        let none = Commit { ballot: NO_BALLOT, update: nothing.clone() };
        let of =
            |number, update: &Update| Commit { ballot: ballot(number), update: update.clone() };
        let prepared = |is_promised, in_progress: &Commit, most_recent: &Commit| {
            let (in_progress, most_recent) = (in_progress.clone(), most_recent.clone());
            let response = PrepareResponse { is_promised, in_progress, most_recent };
            Payload::PaxosPrepared(Box::new(response))
        };
        use Verb as V;
        let answer = send(V::PAXOS_PREPARE_REQ, ballot(5), &nothing).await;
        assert_eq!(answer, prepared(true, &none, &none));
        let answer = send(V::PAXOS_PREPARE_REQ, ballot(4), &nothing).await;
        assert_eq!(answer, prepared(false, &of(5, &nothing), &none));
        let answer = send(V::PAXOS_PROPOSE_REQ, ballot(4), &update).await;
        assert_eq!(answer, Payload::PaxosProposed(false));
        let answer = send(V::PAXOS_PROPOSE_REQ, ballot(5), &update).await;
        assert_eq!(answer, Payload::PaxosProposed(true));
        let answer = send(V::PAXOS_PREPARE_REQ, ballot(6), &nothing).await;
        assert_eq!(answer, prepared(true, &of(5, &update), &none));
        assert_eq!(send(V::PAXOS_COMMIT_REQ, ballot(5), &update).await, Payload::None);
        let answer = send(V::PAXOS_PREPARE_REQ, ballot(7), &nothing).await;
        assert_eq!(answer, prepared(true, &none, &of(5, &update)));
        // A read at SERIAL commits an empty update.
        assert_eq!(send(V::PAXOS_COMMIT_REQ, ballot(7), &nothing).await, Payload::None);
        let answer = send(V::PAXOS_PREPARE_REQ, ballot(8), &nothing).await;
        assert_eq!(answer, prepared(true, &none, &of(7, &nothing)));

        // The member refuses version 2 of Paxos, and a UUID that is no ballot. It sends the failure
        // even without the flag `CALL_BACK_ON_FAILURE`.
        peer.flags.set(MessageFlags::default());
        let failed = Payload::Failure(FailureReason::Unknown);
        assert_eq!(send(V::PAXOS2_PREPARE_REQ, ballot(9), &nothing).await, failed);
        assert_eq!(send(V::PAXOS_PREPARE_REQ, Uuid::from_u128(4), &nothing).await, failed);
        member.stop().await;
        drop(Rc::clone(&peer));
    });
}

fn is_answer(verb: Verb) -> bool {
    verb.is_response() && verb != Verb::ECHO_RSP
}

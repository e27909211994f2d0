//! Tests commits whose ballots are older than a truncation, very old, or of the same microsecond.

use super::*;

fn at(us: i64) -> Uuid {
    Uuid::from_bytes(timeuuid::from_unix_micros(us, 1 << 63))
}

async fn committed(database: &Node, newer: Uuid) -> Option<Uuid> {
    let answer = ask(database, newer, PaxosStep::Prepare).await;
    let PaxosAnswer::Promised { committed, .. } = answer else { panic!("{answer:?}") };
    let Recorded { ballot, update, .. } = committed?;
    assert_eq!(update, update_of(ballot), "the record of one commit");
    Some(ballot)
}

/// The clock of a coordinator may be behind the clock of a node that truncates the table. An update
/// that the coordinator reports as applied must not be lost.
#[test]
fn a_commit_is_applied_also_if_its_ballot_is_older_than_a_truncation() {
    block_on(async {
        let database = open(&FileSystem::simulated(1)).await;
        create(&database, vec![table()]).await;
        let behind = at(time::now_micros() - 300_000);
        database.truncate(table().id).await.unwrap();
        assert_eq!(ask(&database, behind, commit(behind)).await, PaxosAnswer::Committed);
        assert_eq!(value(&database).await, Some(update_of(behind)));
        assert_eq!(committed(&database, at(time::now_micros() + 1000)).await, Some(behind));
    });
}

/// The clock of the node may be days ahead of the coordinator's clock. An update that the node
/// acknowledges must not be lost.
#[test]
fn a_commit_with_an_old_ballot_is_applied() {
    block_on(async {
        let database = open(&FileSystem::simulated(1)).await;
        create(&database, vec![table()]).await;
        const DAY_US: i64 = 24 * 3_600_000_000;
        for age_days in [400, 11, 2] {
            let old = at(time::now_micros() - age_days * DAY_US);
            let answer = ask_for(&database, old, commit(old), 3 * 3600).await;
            assert_eq!(answer, PaxosAnswer::Committed);
            assert_eq!(value(&database).await, Some(update_of(old)), "{age_days} days");
        }
    });
}

/// Two coordinators may draw ballots of the same microsecond, and replicas of Cassandra may agree
/// on both.
#[test]
fn the_record_of_the_later_of_two_commits_of_one_microsecond_stays_whole() {
    for (first, second) in [(1, 2), (2, 1)] {
        block_on(async {
            let database = open(&FileSystem::simulated(1)).await;
            create(&database, vec![table()]).await;
            for flag in [first, second, first] {
                let ballot = with_flag(5, flag);
                assert_eq!(ask(&database, ballot, commit(ballot)).await, PaxosAnswer::Committed);
            }
            assert_eq!(committed(&database, ballot(6)).await, Some(with_flag(5, 2)));
        });
    }
}

//! Flushes of a table wait while its compactions are far behind; flushes of other tables do not.

use std::time::Duration;

use espalier_mutation::schema::TableOptions;
use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    random::Generator,
    time,
    time::ManualClock,
};
use espalier_storage::{Node, StorageConfiguration};

use crate::{compactions_go_on::by_size, support::*};

/// Number of overlapping files.
const FILES: usize = 130;

async fn write(database: &Node, name: &str, rows: usize, length: usize) {
    let table = table(database, name);
    let clustering = (name == "wide").then_some(1);
    let mut random = Generator::from_seed(rows as u64);
    for row in 0..rows {
        let value = incompressible_text(&mut random, length);
        let mutation = insert(&table, &format!("p{row}"), clustering, 1, &[("v", &value)]);
        database.apply(mutation).await.unwrap();
    }
}

/// Fills `narrow` with overlapping files, and then enables compactions.
async fn fall_behind(database: &Node, before_they_begin: impl FnOnce()) {
    database.compactions().set_auto_enabled("ks", &["narrow"], false).await.unwrap();
    for _ in 0..FILES {
        write(database, "narrow", 100, 600).await;
        database.flush("ks", Some("narrow")).await.unwrap();
    }
    before_they_begin();
    database.compactions().set_auto_enabled("ks", &["narrow"], true).await.unwrap();
    time::sleep(Duration::from_millis(10)).await;
}

#[test]
fn a_table_that_is_behind_waits_and_others_do_not() {
    let clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle();
    let _installed = clock.install();
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut settings = StorageConfiguration {
            autocompaction: true,
            // The compactions start, and pause after a quarter of a MiB.
            compaction_bytes_per_second: Some(1),
            ..configuration()
        };
        settings.memtables.bytes = 2 << 20;
        let database = open(&file_system, settings).await.unwrap();
        let mut wide = wide_table();
        wide.options = TableOptions { memtable_flush_period_in_ms: 100, ..TableOptions::default() };
        create(&database, vec![by_size(), wide]).await;
        fall_behind(&database, || {}).await;
        let before = database.store().metrics();
        // Two long compactions and a short one. A fourth one may read at most a quarter of the
        // bytes of the short one, and none is so short.
        assert_eq!(before.compactions.running, 3);
        // The pause is 20 ms for each file beyond 48. From one second on, it doubles with each
        // further dozen.
        assert_eq!(
            before.compactions.score,
            FILES as u64 - 3,
            "size-tiered leaves three of a size"
        );
        let more = before.compactions.score as f64 - 48.0;
        let pause_s = 0.02 * more.min(50.0) * ((more - 50.0).max(0.0) / 12.0).exp2();
        let pause = Duration::from_secs_f64(pause_s);

        write(&database, "wide", 1, 10).await;
        write(&database, "narrow", 600, 2000).await;
        assert_eq!(database.store().metrics().flushes.delayed, 0);
        time::sleep(pause.mul_f64(0.7)).await;
        let meanwhile = database.store().metrics();
        assert_eq!(meanwhile.flushes.delayed, 0);
        assert_eq!(meanwhile.flushes.done, before.flushes.done + 1, "the other table's");
        time::sleep(pause.mul_f64(0.4) + Duration::from_millis(100)).await;
        let metrics = database.store().metrics();
        assert_eq!((metrics.flushes.delayed, metrics.flushes.done), (1, before.flushes.done + 2));
        let waited = Duration::from_micros(metrics.flushes.delay_us + 1);
        assert!((pause..pause.mul_f64(1.1)).contains(&waited), "{pause:?} {metrics:?}");

        // Once the compactions have caught up, no flush waits, and a wait under way ends early.
        write(&database, "narrow", 700, 2000).await;
        database.compactions().set_throughput(0).await;
        time::sleep(Duration::from_millis(1500)).await;
        let metrics = database.store().metrics();
        assert!(metrics.compactions.score < 48, "{metrics:?}");
        assert!(metrics.flushes.done >= before.flushes.done + 3, "{metrics:?}");
        assert_eq!(read_all(&database, &table(&database, "narrow")).await.partitions.len(), 700);
    });
}

/// A pause for compactions that fail would gain nothing.
#[test]
fn no_flush_waits_for_compactions_that_fail() {
    let clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle();
    let _installed = clock.install();
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut settings = StorageConfiguration { autocompaction: true, ..configuration() };
        settings.memtables.bytes = 2 << 20;
        let database = open(&file_system, settings).await.unwrap();
        create(&database, vec![by_size()]).await;
        let disk = file_system.simulated_disk().unwrap();
        let fault = Fault::always(Operation::Create, Effect::NoSpace).on_path("_txn_");
        fall_behind(&database, || disk.inject(fault)).await;
        let before = database.store().metrics();
        assert!(before.compactions.failed > 0 && before.compactions.running == 0, "{before:?}");

        write(&database, "narrow", 600, 2000).await;
        time::sleep(Duration::from_millis(500)).await;
        let metrics = database.store().metrics();
        assert_eq!((metrics.flushes.delayed, metrics.flushes.done), (0, before.flushes.done + 1));

        // The compactions are retried after half a minute.
        disk.clear_faults();
        time::sleep(Duration::from_secs(31)).await;
        let metrics = database.store().metrics();
        assert!(metrics.compactions.done > 0 && metrics.compactions.score < 48, "{metrics:?}");
    });
}

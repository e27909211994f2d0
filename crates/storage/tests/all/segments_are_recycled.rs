//! The commit log stays within its bounds: flushed segments are recycled, and unflushed tables are
//! flushed when they keep too many segments.

use std::time::Duration;

use espalier_runtime::{
    file::FileSystem,
    time::{self, ManualClock},
    yield_now,
};
use espalier_storage::CommitLogSync;
use espalier_types::CqlType;

use crate::support::*;

#[test]
fn the_log_does_not_grow_beyond_its_share() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.commit_log.segment_bytes = 8 << 10;
        configuration.commit_log.total_bytes = 64 << 10;
        let database = open(&file_system, configuration.clone()).await.unwrap();
        create(&database, vec![narrow_table(), wide_table()]).await;
        let (narrow, wide) = (table(&database, "narrow"), table(&database, "wide"));
        // A table that is written once and never again must not keep segments for ever.
        database.apply(insert(&wide, "old", Some(1), 1, &[("v", "1")])).await.unwrap();
        let value = "v".repeat(1000);
        for number in 0..600 {
            let name = (number % 50).to_string();
            database.apply(insert(&narrow, &name, None, number, &[("v", &value)])).await.unwrap();
            let segments = database.store().metrics().commit_log.segments;
            assert!(segments <= 12, "{segments} segments of 8 in the share");
            // Lets a flush run beside writes that the simulated disk completes at once.
            yield_now().await;
        }
        let deadline = time::Instant::now() + Duration::from_secs(60);
        let mut metrics = database.store().metrics().commit_log;
        while metrics.segments_recycled <= 40 {
            assert!(time::Instant::now() < deadline, "{metrics:?}");
            time::sleep(Duration::from_millis(10)).await;
            metrics = database.store().metrics().commit_log;
        }
        // Where a flush is behind the writes, a new segment is made while the share allows it.
        assert!(metrics.segments_created < metrics.segments_recycled, "{metrics:?}");
        assert!(read_partition(&database, &wide, "old").await.is_some());
    });
    // Old content of recycled files does not come back as records.
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let narrow = table(&database, "narrow");
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), 50);
        let wide = table(&database, "wide");
        assert!(read_partition(&database, &wide, "old").await.is_some());
    });
}

/// All segments fill up, and all tables are flushed, before the first segment is written. No later
/// flush would release the segments.
#[test]
fn writes_continue_after_segments_were_flushed_before_their_write() {
    let file_system = FileSystem::simulated(1);
    let _installed = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    run(async {
        let mut configuration = configuration();
        configuration.commit_log.segment_bytes = 8 << 10;
        configuration.commit_log.total_bytes = 64 << 10;
        configuration.commit_log.sync = CommitLogSync::Group { window: Duration::from_secs(1) };
        let database = open(&file_system, configuration.clone()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let value = "v".repeat(3500);
        let mut refused = 0;
        while refused < 1000 {
            match database.store().try_apply(&insert(&narrow, "a", None, 1, &[("v", &value)])) {
                Some(ticket) => drop(ticket.unwrap()),
                None => {
                    refused += 1;
                    yield_now().await;
                }
            }
        }
        for number in 0..50 {
            let name = number.to_string();
            database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await.unwrap();
        }
    });
}

#[test]
fn a_mutation_of_more_than_half_a_segment_is_refused() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.commit_log.segment_bytes = 64 << 10;
        let database = open(&file_system, configuration).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let value = "v".repeat(31 << 10);
        database.apply(insert(&narrow, "fits", None, 1, &[("v", &value)])).await.unwrap();
        let value = "v".repeat(33 << 10);
        let refused = database.apply(insert(&narrow, "not", None, 1, &[("v", &value)])).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("larger than the maximum of 32768 bytes"), "{error}");
        assert!(read_partition(&database, &narrow, "not").await.is_none());
    });
}

/// The column mapping of a table with many columns may take more than half a segment.
#[test]
fn a_write_that_fits_no_segment_with_its_mapping_takes_no_segment() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.commit_log.segment_bytes = 64 << 10;
        let database = open(&file_system, configuration).await.unwrap();
        let columns = (0..400).map(|number| format!("column_{number:0>93}"));
        let builder = narrow_table().rebuild();
        let many = columns.fold(builder, |builder, name| builder.regular(&name, CqlType::Blob));
        create(&database, vec![many.build()]).await;
        let narrow = table(&database, "narrow");
        let write = |bytes| insert(&narrow, "a", None, 1, &[("v", &"v".repeat(bytes))]);
        database.apply(write(1)).await.unwrap();
        let segments = database.store().metrics().commit_log.segments;
        for _ in 0..20 {
            let error = database.apply(write(30 << 10)).await.unwrap_err().to_string();
            assert!(error.contains("larger than the maximum of 32768 bytes"), "{error}");
            assert!(database.store().check_write(&write(30 << 10), 0).await.is_err());
            yield_now().await;
        }
        assert_eq!(database.store().metrics().commit_log.segments, segments);
        database.apply(write(10 << 10)).await.unwrap();
    });
}

/// A mutation may have one large value in many rows. The limit holds without `durable_writes`, too.
#[test]
fn rows_that_share_a_value_are_refused_if_they_are_too_large_together() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.commit_log.segment_bytes = 64 << 10;
        let database = open(&file_system, configuration).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let value = "v".repeat(1 << 10);
        for is_durable in [true, false] {
            set_durable_writes(&database, is_durable).await;
            let wide = table(&database, "wide");
            let write = |name: &str, rows| {
                let mut mutation = insert(&wide, name, Some(0), 1, &[("v", &value)]);
                let update = &mut mutation.updates[0];
                update.rows.extend((1..rows).map(|n| row(&wide, Some(n), 1, &[("v", &value)])));
                mutation
            };
            database.apply(write("few", 30)).await.unwrap();
            let error = database.apply(write("many", 1000)).await.unwrap_err().to_string();
            assert!(error.contains("larger than the maximum of 32768 bytes"), "{error}");
            assert!(database.store().try_apply(&write("many", 1000)).unwrap().is_err());
            assert!(database.store().check_write(&write("many", 1000), 0).await.is_err());
            assert!(database.batches().apply(write("many", 1000)).await.is_err());
            assert!(read_partition(&database, &wide, "many").await.is_none());
        }
    });
}

//! Short range reads leave their pages in the cache, so that the next such read reads no file.

use espalier_mutation::{KeyBound, KeyRange, Token};
use espalier_runtime::file::{
    FileSystem, Operation,
    simulated::{Effect, Fault},
};
use espalier_storage::ReadTarget;

use crate::{row_cache::settings, support::*};

/// Number of partitions in three files, more than scans add to the row cache.
const PARTITIONS: u64 = 600;
const ROWS: i32 = 30;

#[test]
fn a_repeated_short_scan_reads_no_file() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        let value = "x".repeat(100);
        for file in 0..3 {
            for at in (file..PARTITIONS).step_by(3) {
                for row in 0..ROWS {
                    let row = insert(&wide, &format!("p{at}"), Some(row), 10, &[("v", &value)]);
                    database.apply(row).await.unwrap();
                }
            }
            database.flush("ks", None).await.unwrap();
        }
        let read = async |start: i64, rows: usize, bypass_cache: bool| {
            let start = KeyBound::AfterToken(Token(start));
            let range = KeyRange { start, end: KeyBound::Unbounded };
            let mut command = command(&wide, ReadTarget::Range(range));
            (command.limits.rows, command.bypass_cache) = (rows, bypass_cache);
            database.read(command).await
        };
        let starts = [i64::MIN + 1, -(1 << 62), 0, 1 << 60];
        let mut first = Vec::new();
        for start in starts {
            let (one, some) = (read(start, 1, false).await, read(start, 40, false).await);
            first.push((one.unwrap(), some.unwrap()));
        }
        disk.inject(Fault::always(Operation::Read, Effect::InputOutput).on_path("-Data.db"));
        disk.inject(Fault::always(Operation::Read, Effect::InputOutput).on_path("-Partitions.db"));
        for (start, (one, some)) in starts.into_iter().zip(first) {
            assert_eq!(read(start, 1, false).await.unwrap(), one);
            assert_eq!(read(start, 40, false).await.unwrap(), some);
            assert_eq!(one.partitions.len(), 1);
            assert_eq!(some.partitions.len(), 2);
            // Long reads, and reads that bypass the cache, do not use these pages.
            assert!(read(start, 1000, false).await.is_err());
            assert!(read(start, 1, true).await.is_err());
        }
    });
}

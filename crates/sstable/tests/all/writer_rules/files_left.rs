//! Tests the files that a writer leaves after a failure or a crash, and that a writer changes no
//! existing file.

use std::path::Path;

use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    SSTableWriter, WriterOptions,
    components::{list_directory, remove_sstable, remove_sstables, reserve_name},
    verify::verify,
};
use futures_util::future::join;

use super::{DIRECTORY, assert_taken, header, keys, row, table, writer};
use crate::support::{
    block_on,
    generate::{Generator, Shape},
    slicing::Random,
    writing::{descriptor, options, random_chunks, write},
};

/// If a file of an SSTable exists, the writer refuses the name and does not change the file.
#[test]
fn nothing_is_written_over() {
    block_on(async {
        let names = ["TOC.txt", "TemporaryTOC.txt", "Index.db", "Scylla.db"];
        for name in names.map(|name| format!("{DIRECTORY}/da-1-bti-{name}")) {
            let file_system = FileSystem::simulated(5);
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            file_system.create(&name).await.unwrap().append(vec![7]).await.unwrap();
            let options = WriterOptions::for_table(descriptor(Path::new(DIRECTORY), 1), table());
            let refused = SSTableWriter::create(&file_system, options.unwrap()).await;
            assert_taken(refused.map(drop));
            let entries = file_system.read_dir(DIRECTORY).await.unwrap();
            assert_eq!(
                entries.iter().map(|entry| entry.path.to_str()).collect::<Vec<_>>(),
                [Some(name.as_str())]
            );
            assert_eq!(file_system.read(&name).await.unwrap(), [7]);
        }
    });
}

#[test]
fn one_of_two_writers_reserves_a_name() {
    for seed in 0..50 {
        let file_system = FileSystem::simulated(seed);
        block_on(async {
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            let name = descriptor(Path::new(DIRECTORY), 1);
            let both = join(reserve_name(&file_system, &name), reserve_name(&file_system, &name));
            let (first, second) = both.await;
            assert_ne!(first.is_ok(), second.is_ok(), "seed {seed}");
            assert_taken(first.and(second));
        });
    }
}

/// A writer leaves no files on a full disk, however far it comes.
#[test]
fn a_failed_write_leaves_no_files() {
    block_on(async {
        let mut failures = 0;
        for capacity in (0..200).map(|pages| pages * 512) {
            let file_system = FileSystem::simulated(5);
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            file_system.simulated_disk().unwrap().set_capacity(capacity);
            let options = WriterOptions::for_table(descriptor(Path::new(DIRECTORY), 1), table());
            let outcome = async {
                let mut writer = SSTableWriter::create(&file_system, options.unwrap()).await?;
                writer.start_partition(header(&keys()[0]))?;
                for number in 0..2000 {
                    writer.add(row(number)).await?;
                }
                writer.end_partition().await?;
                writer.finish().await
            };
            let is_written = outcome.await.is_ok();
            failures += usize::from(!is_written);
            let left = file_system.read_dir(DIRECTORY).await.unwrap().len();
            assert_eq!(left > 0, is_written, "{capacity}: {left} files");
        }
        assert!((1..200).contains(&failures), "{failures}");
    });
}

#[test]
fn files_are_not_written_over_and_abort_removes_them() {
    block_on(async {
        let (file_system, writer) = writer().await;
        let path = Path::new(DIRECTORY);
        let again = WriterOptions::for_table(descriptor(path, 1), table()).unwrap();
        assert_taken(SSTableWriter::create(&file_system, again).await.map(drop));
        assert_eq!(list_directory(&file_system, path).await.unwrap().unsealed.len(), 1);
        writer.abort().await.unwrap();
        assert!(file_system.read_dir(DIRECTORY).await.unwrap().is_empty());
    });
}

/// A crash while several SSTables are removed leaves each of them whole, as garbage, or not at all.
/// An SSTable with another number stays.
#[test]
fn a_crash_during_a_removal_leaves_whole_sstables_or_garbage() {
    let numbers = [1, 2, 12, 3];
    let (mut sealed, mut unsealed, mut gone) = (0, 0, 0);
    for operations in 0..60 {
        let disk = FileSystem::simulated(operations);
        let directory = Path::new(DIRECTORY);
        let sets = numbers.map(|number| descriptor(directory, number));
        block_on(async {
            disk.create_dir_all(directory).await.unwrap();
            for set in &sets {
                for component in ["Data.db", "Rows.db", "SAI+Meta.db", "TOC.txt"] {
                    disk.create(directory.join(format!("{set}-{component}"))).await.unwrap();
                }
            }
            disk.sync_dir(directory).await.unwrap();
            let simulated = disk.simulated_disk().unwrap();
            simulated.power_off_after(operations);
            let removed = remove_sstables(&disk, &sets[..3]).await;
            assert_eq!(removed.is_err(), simulated.is_power_off(), "{operations}");
            let file_system = FileSystem::on(simulated.crash(operations));
            let listing = list_directory(&file_system, directory).await.unwrap();
            assert_eq!(listing.incomplete, [], "{operations}");
            assert!(listing.sealed.contains(&sets[3]), "{operations}");
            let entries = file_system.read_dir(directory).await.unwrap();
            for set in &sets {
                let prefix = format!("{set}-");
                let of_set = entries.iter().filter(|entry| entry.name.starts_with(&prefix));
                let left = of_set.count();
                assert!(left == 4 || !listing.sealed.contains(set), "{operations}: {left} files");
                gone += usize::from(left == 0);
            }
            (sealed, unsealed) =
                (sealed + listing.sealed.len() - 1, unsealed + listing.unsealed.len());
        });
    }
    assert!(sealed > 0 && unsealed > 0 && gone > 0, "{sealed} {unsealed} {gone}");
}

/// A crash at any moment leaves either a sealed and whole SSTable, or files that are recognised as
/// garbage.
#[test]
fn a_crash_leaves_a_whole_sstable_or_garbage() {
    let (mut sealed, mut unsealed) = (0, 0);
    for seed in espalier_testing::sample(0..120) {
        let shape = Shape { partitions: 20, rows: 30, is_reconciled: true, is_odd: false };
        let mut generator = Generator::new(seed % 4 + 1, shape);
        let table = generator.table();
        let partitions = generator.partitions(&table);
        let chunks = random_chunks(&mut Random(seed));
        let disk = FileSystem::simulated(seed);
        let directory = Path::new(DIRECTORY);
        let survivor = block_on(async {
            disk.create_dir_all(directory).await.unwrap();
            let options = options(descriptor(directory, 1), &table, &partitions, chunks, 1024);
            disk.simulated_disk().unwrap().power_off_after(seed / 2);
            let written = write(&disk, options, &partitions).await;
            if let Ok(Some(written)) = &written {
                assert!(written.partition_count > 0);
            }
            (disk.simulated_disk().unwrap().crash(seed), written.is_ok())
        });
        let (survivor, is_finished) = survivor;
        block_on(async {
            let file_system = FileSystem::on(survivor);
            let listing = list_directory(&file_system, directory).await.unwrap_or_default();
            assert!(
                !is_finished || listing.sealed.len() == 1,
                "seed {seed}: a finished set is lost"
            );
            for descriptor in &listing.sealed {
                let report = verify(&file_system, descriptor).await.unwrap();
                assert!(report.problems.is_empty(), "seed {seed}: {report:#?}");
                remove_sstable(&file_system, descriptor).await.unwrap();
                assert_eq!(list_directory(&file_system, directory).await.unwrap().sealed, []);
                sealed += 1;
            }
            unsealed += usize::from(!listing.unsealed.is_empty());
        });
    }
    let are_met = sealed > 0 && unsealed > 0;
    assert!(
        are_met || !espalier_testing::runs_all(),
        "{sealed} sealed, {unsealed} unsealed: the seeds must give both"
    );
}

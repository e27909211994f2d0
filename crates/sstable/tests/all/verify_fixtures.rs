//! Checks that verification finds no problem in files that Cassandra's own verifier accepts.

use crate::support;

use espalier_runtime::file::FileSystem;
use espalier_sstable::verify::verify;
use support::{block_on, cases, offline_cases};

#[test]
fn files_of_a_server_are_right_in_every_number() {
    for case in cases() {
        for descriptor in &case.sstables {
            let report = block_on(verify(&FileSystem::real(), descriptor)).unwrap();
            assert!(report.problems.is_empty(), "{} {descriptor}: {report:#?}", case.name);
            assert!(report.partitions > 0);
        }
    }
}

/// The offline writer does not know the number of partitions in advance: its filters are small, and
/// its baselines are the epochs.
#[test]
fn files_of_the_offline_writer_are_right() {
    for case in offline_cases() {
        for descriptor in &case.sstables {
            let report = block_on(verify(&FileSystem::real(), descriptor)).unwrap();
            assert!(report.problems.is_empty(), "{} {descriptor}: {report:#?}", case.name);
        }
    }
}

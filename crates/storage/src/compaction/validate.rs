//! This module validates a file: it reads all its contents and changes nothing.

use espalier_sstable::{
    SSTable,
    verify::{Severity, verify_watched},
};

use super::{
    copy::Ended,
    pace::Pace,
    progress::Running,
    scrub::{Scrub, fault_of, next_place, read_whole},
};
use crate::{Database, StorageError};

/// Validates the files of a scrub. Returns false if it was stopped.
pub(crate) async fn validate(
    database: &Database,
    running: &Running,
    scrub: &Scrub,
) -> Result<bool, StorageError> {
    for input in &running.inputs {
        let pace = Pace::new(database);
        let waits = pace.waits();
        match waits.of(validate_one(database, input, running, scrub, pace)).await {
            Ok(()) => {}
            Err(Ended::Stopped) => return Ok(false),
            Err(Ended::Failed(error)) => return Err(error),
        }
    }
    Ok(true)
}

async fn validate_one(
    database: &Database,
    input: &SSTable,
    running: &Running,
    scrub: &Scrub,
    mut pace: Pace,
) -> Result<(), Ended> {
    let watch = &mut |done, _| running.completed_bytes.set(done);
    let verification = verify_watched(database.file_system(), input.descriptor(), false, watch);
    let report = pace.paced(verification, running).await??;
    for problem in report.problems {
        match problem.severity {
            Severity::Failure => scrub.report_fault(problem.what),
            Severity::Warning => tracing::debug!("scrub: {}", problem.what),
        }
    }
    if report.failures == 0 {
        input.set_right();
        return Ok(());
    }
    // Read each partition separately to find the damaged ones.
    let (reader, mut rows) = (input.reader(), 0);
    let mut inspection = reader.inspect();
    loop {
        let place = match next_place(reader, &mut inspection).await {
            Ok(Some(place)) => place,
            Ok(None) => return Ok(()),
            Err(StorageError::Damaged(what)) => {
                scrub.report_fault(what);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = read_whole(&mut inspection, &mut rows, running, &mut pace).await? {
            let what = match fault_of(reader, &place, inspection.entered_key(), error) {
                Ok(fault) => fault,
                Err(error) => error.to_string(),
            };
            scrub.report_fault(what);
        }
    }
}

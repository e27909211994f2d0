//! Validates a file: reads all its contents and changes nothing.

use std::{pin::pin, rc::Rc};

use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    SSTable,
    verify::{Severity, verify_watched},
};

use super::{
    checkpoint::Checkpoint,
    ended::Ended,
    progress::Running,
    scrub::{Scrub, fault_of, next_place, read_whole},
};
use crate::{CompactionError, ShardLoad};

/// Validates the files of a scrub. Returns false if it was stopped.
///
/// # Errors
///
/// Fails if a file cannot be read at all; damage is reported to the scrub.
pub async fn validate(
    file_system: &FileSystem,
    load: &Rc<dyn ShardLoad>,
    running: &Running,
    scrub: &Scrub,
) -> Result<bool, CompactionError> {
    for input in &running.inputs {
        let checkpoint = Checkpoint::new(running, load.clone());
        match validate_one(file_system, input, running, scrub, checkpoint).await {
            Ok(()) => {}
            Err(Ended::Stopped) => return Ok(false),
            Err(Ended::Failed(error)) => return Err(error),
        }
    }
    Ok(true)
}

async fn validate_one(
    file_system: &FileSystem,
    input: &SSTable,
    running: &Running,
    scrub: &Scrub,
    mut checkpoint: Checkpoint<'_>,
) -> Result<(), Ended> {
    let watch = &mut |done, _| running.completed_bytes.set(done);
    let verification = verify_watched(file_system, input.descriptor(), false, watch);
    let report = checkpoint.around(pin!(verification)).await??;
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
    let reader = input.reader();
    let mut inspection = reader.inspect();
    loop {
        let place = match next_place(reader, &mut inspection).await {
            Ok(Some(place)) => place,
            Ok(None) => return Ok(()),
            Err(CompactionError::Damaged(what)) => {
                scrub.report_fault(what);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = read_whole(&mut inspection, &mut checkpoint).await? {
            let what = match fault_of(reader, &place, inspection.entered_key(), error) {
                Ok(fault) => fault,
                Err(error) => error.to_string(),
            };
            scrub.report_fault(what);
        }
    }
}

//! `espalier sstable verify`: prints a line for each SSTable, and one for each problem.

use std::time::Duration;

use espalier_runtime::file::FileSystem;
use espalier_runtime::time::Instant;
use espalier_sstable::verify::{FileProblems, VerifyReport, verify_watched};
use espalier_sstable::{Component, Descriptor};

use super::ToolError;
use super::arguments::VerifyArguments;
use super::failures::Shortfall;
use super::output::{Reports, counted, rows_in_words};
use super::paths::{self, Found};
use super::progress::{Progress, bytes, rate};

/// Verifies all SSTables, even after one was damaged or could not be checked.
///
/// # Errors
/// Fails if a path cannot be used or a directory cannot be listed, if an SSTable is damaged or
/// cannot be checked, or if the output fails.
pub async fn verify(arguments: &VerifyArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let Found { descriptors, unread_directories, lost, .. } =
        paths::find(&file_system, &arguments.paths.paths).await?;
    let mut reports = Reports::default();
    // SSTables that have lost their TOC.txt were reported by `find` and count as not verified.
    let (mut failed, mut not_verified) = (0, lost);
    for descriptor in &descriptors {
        let path = descriptor.directory.join(descriptor.to_string());
        let stored = stored_bytes(&file_system, descriptor).await;
        let mut progress = Progress::new(descriptor.to_string(), 0);
        let began = Instant::now();
        let watch = &mut |done, of| {
            progress.of(of);
            progress.at(done);
        };
        let outcome = verify_watched(&file_system, descriptor, arguments.quick, watch).await;
        progress.finish();
        match outcome {
            Ok(report) => {
                failed += usize::from(!report.is_ok());
                let name = path.display().to_string();
                let text = describe(&name, &report, stored, began.elapsed(), arguments.quick);
                reports.print(&text)?;
            }
            Err(error) => {
                not_verified += 1;
                reports.print(&format!("{}: not verified: {error}\n", path.display()))?;
            }
        }
    }
    let looked_at = descriptors.len() + lost;
    let shortfall = Shortfall { failed, not_verified, looked_at, unread_directories };
    if shortfall.is_none() { Ok(()) } else { Err(ToolError::Damaged(shortfall)) }
}

async fn stored_bytes(file_system: &FileSystem, descriptor: &Descriptor) -> u64 {
    let path = descriptor.path(&Component::Data);
    file_system.metadata(&path).await.map_or(0, |metadata| metadata.length)
}

fn describe(
    name: &str,
    report: &VerifyReport,
    stored: u64,
    elapsed: Duration,
    quick: bool,
) -> String {
    let VerifyReport { partitions, cells, failures, warnings, .. } = report;
    let rows = rows_in_words(report.rows, report.static_rows);
    let verdict = if report.is_ok() { "ok" } else { "DAMAGED" };
    let mut text = if quick {
        format!("{name}: {verdict}, checksums only")
    } else {
        format!("{name}: {verdict}, {partitions} partitions, {rows}, {cells} cells")
    };
    if failures + warnings > 0 {
        let (failures, warnings) = (counted(*failures, "failure"), counted(*warnings, "warning"));
        text.push_str(&format!(", {failures}, {warnings}"));
    }
    text.push_str(&format!(", {} at {}\n", bytes(stored), rate(stored, elapsed)));
    for problem in &report.problems {
        text.push_str(&format!("  {problem}\n"));
    }
    for of_file in report.files.iter().filter(|of_file| of_file.hidden > 0) {
        let FileProblems { file, severity, hidden, .. } = of_file;
        text.push_str(&format!("  and {hidden} more of severity {severity} in {file}\n"));
    }
    text
}

//! `espalier sstable verify`: a line for each SSTable, and one for each problem.

use std::io::Write;
use std::path::PathBuf;

use espalier_runtime::file::FileSystem;
use espalier_sstable::verify::VerifyReport;

use super::{ToolError, paths};

/// Verifies all; an error at the end if anything is wrong with one.
pub async fn verify(paths: &[PathBuf]) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let descriptors = paths::find(&file_system, paths).await?;
    let mut output = std::io::stdout();
    let mut failed = 0;
    for descriptor in &descriptors {
        let path = descriptor.directory.join(descriptor.to_string());
        match espalier_sstable::verify::verify(&file_system, descriptor).await {
            Ok(report) => {
                failed += usize::from(!report.is_ok());
                write!(output, "{}", describe(&path.display().to_string(), &report))?;
            }
            Err(error) => {
                failed += 1;
                writeln!(output, "{}: not verified: {error}", path.display())?;
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(ToolError::Damaged { failed, looked_at: descriptors.len() }),
    }
}

fn describe(name: &str, report: &VerifyReport) -> String {
    let VerifyReport { partitions, rows, cells, failures, warnings, .. } = report;
    let verdict = if report.is_ok() { "ok" } else { "DAMAGED" };
    let mut text =
        format!("{name}: {verdict}, {partitions} partitions, {rows} rows, {cells} cells");
    if failures + warnings > 0 {
        text.push_str(&format!(", {failures} failures, {warnings} warnings"));
    }
    text.push('\n');
    for problem in &report.problems {
        text.push_str(&format!("  {problem}\n"));
    }
    let hidden = (failures + warnings).saturating_sub(report.problems.len() as u64);
    if hidden > 0 {
        text.push_str(&format!("  and {hidden} more\n"));
    }
    text
}

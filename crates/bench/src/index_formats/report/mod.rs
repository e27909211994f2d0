//! Reports the figures as text, as JSON, and as a page with drawings.

mod columns;
mod html;
mod json;
mod plots;
mod text;
mod text_wide;
mod verdict;

use std::path::PathBuf;

use espalier_runtime::file::FileSystem;

use super::Record;
use super::arguments::IndexFormatsArguments;
use crate::machine::Machine;
use crate::{BenchError, print_line};

/// Prints the report, and writes the files that the arguments name.
pub async fn give(
    record: &Record,
    machine: &Machine,
    arguments: &IndexFormatsArguments,
) -> Result<(), BenchError> {
    let report = text::report(record, machine, arguments);
    print_line(format_args!("{}", report.trim_end()))?;
    if let Some(path) = &arguments.json {
        write(path, json::document(record, machine, arguments)).await?;
    }
    if let Some(path) = &arguments.html {
        write(path, html::document(record, machine, arguments)).await?;
    }
    Ok(())
}

async fn write(path: &PathBuf, content: String) -> Result<(), BenchError> {
    let written = FileSystem::real().write_atomically(path, content).await;
    written.map_err(|error| BenchError::Output { path: path.clone(), error })
}

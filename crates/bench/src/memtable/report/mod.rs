//! Reports the figures as text, as JSON and as drawings.

mod charts;
mod json;
mod ratios;
mod text;

use std::path::Path;

use espalier_runtime::file::FileSystem;

use super::record::Record;
use crate::BenchError;
use crate::arguments::MemtableArguments;
use crate::machine::Machine;
use crate::print_line;

/// Prints the report, and writes the files that the arguments name.
pub async fn give(
    record: &Record,
    machine: &Machine,
    arguments: &MemtableArguments,
) -> Result<(), BenchError> {
    let ratios = ratios::ratios(record, arguments);
    let report = text::report(record, &ratios, machine, arguments);
    print_line(format_args!("{}", report.trim_end()))?;
    let files = FileSystem::real();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| BenchError::Output { path, error }
    };
    if let Some(path) = &arguments.json {
        let document = json::document(record, &ratios, machine, arguments);
        files.write_atomically(path, document).await.map_err(failed(path))?;
    }
    if let Some(directory) = &arguments.svg {
        files.create_dir_all(directory).await.map_err(failed(directory))?;
        for (name, drawing) in charts::draw(record) {
            let path = directory.join(name);
            files.write_atomically(&path, drawing).await.map_err(failed(&path))?;
        }
    }
    Ok(())
}

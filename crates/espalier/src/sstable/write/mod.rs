//! `espalier sstable write`: an SSTable from rows of JSON or CSV.
//!
//! Rows may come in any order. They are sorted in memory; what does not fit is written as sorted runs, themselves SSTables
//! below the output directory, which are merged and removed. Of rows with the same key the cells with the later timestamp
//! stay, as in a node. Memory: what `--sort-memory` says, and then a piece of each run.

mod csv;
mod distinct;
mod input;
mod json;
mod merge;
mod rows;
mod runs;

use std::path::Path;

use espalier_runtime::file::FileSystem;
use espalier_runtime::time::{self, Instant};
use espalier_sstable::components::list_directory;
use espalier_sstable::{Descriptor, SSTableId};

use self::{
    input::{Format, Records},
    rows::RowBuilder,
    runs::Sorter,
};
use super::arguments::WriteArguments;
use super::convert::{chunks, version};
use super::interrupt::Interrupt;
use super::output::print_line;
use super::progress::{Progress, bytes, rate};
use super::schema::{choose, read};
use super::{ToolError, paths::unusable};

/// Writes one SSTable with all rows.
pub async fn write(arguments: &WriteArguments) -> Result<(), ToolError> {
    let began = Instant::now();
    let file_system = FileSystem::real();
    let features = version("version", &arguments.version)?;
    let chunks = chunks(&arguments.compression)?;
    let schema = read(&file_system, &arguments.schema, &arguments.keyspace).await?;
    let table = choose(&schema, None, arguments.table.as_deref(), None)?;
    if table.is_counter() {
        let reason = "rows of counters cannot be written offline: a counter's value depends on the node that adds to it";
        return Err(ToolError::Schema(reason.to_owned()));
    }
    let timestamp = arguments.timestamp.unwrap_or_else(time::now_micros);
    let builder = RowBuilder::new(table.clone(), timestamp, time::now_seconds());
    let format = Format::of(&arguments.input);
    let mut records = Records::open(&file_system, &arguments.input, format).await?;
    let in_input = |line, reason| ToolError::Input { path: arguments.input.clone(), line, reason };
    builder.check_header(records.header()).map_err(|reason| in_input(records.line(), reason))?;
    let mut progress = Progress::new("write", records.total_bytes());
    file_system
        .create_dir_all(&arguments.output)
        .await
        .map_err(|error| unusable(&arguments.output, error.source.to_string()))?;
    let target = Descriptor::new(
        arguments.output.clone(),
        features,
        next_id(&file_system, &arguments.output).await?,
    );
    let directory = arguments.output.join(format!(".runs-{}", target.id));
    let interrupt = Interrupt::watch()?;
    let memory = arguments.sort_memory << 20;
    let mut sorter = Sorter::new(file_system.clone(), table, directory, memory, &interrupt);
    let mut rows = 0u64;
    let read = async {
        while let Some(record) = records.next().await? {
            let built =
                builder.build(&record).map_err(|reason| in_input(records.line(), reason))?;
            sorter.add(built).await?;
            rows += 1;
            progress.at(records.read_bytes());
        }
        Ok(())
    };
    let written = match interrupt.or(read).await {
        Ok(()) => sorter.finish(target, chunks, &mut progress).await,
        Err(error) => Err(error),
    };
    progress.finish();
    let removed = sorter.remove_runs().await;
    let written = written?;
    removed?;
    match written {
        Some(written) => {
            let name = written.descriptor.directory.join(written.descriptor.to_string());
            let seconds = began.elapsed();
            print_line(format_args!(
                "{}: {rows} rows in {} partitions, {} of rows, {} on disk, in {:.2} s at {}",
                name.display(),
                written.partition_count,
                bytes(written.data_length),
                bytes(written.bytes_on_disk),
                seconds.as_secs_f64(),
                rate(written.data_length, seconds)
            ))?;
        }
        None => {
            let input = arguments.input.display();
            print_line(format_args!("{input}: no rows, nothing was written"))?;
        }
    }
    Ok(())
}

/// The first generation that the directory does not have.
async fn next_id(file_system: &FileSystem, directory: &Path) -> Result<SSTableId, ToolError> {
    let listing = list_directory(file_system, directory).await?;
    let all = listing.sealed.iter().chain(&listing.unsealed).chain(&listing.incomplete);
    let taken = all.filter_map(|descriptor| match descriptor.id {
        SSTableId::Generation(number) => Some(number.get()),
        SSTableId::Uuid(_) => None,
    });
    let next = taken.max().unwrap_or(0) + 1;
    let refused = || unusable(directory, "its generations have come to an end".to_owned());
    SSTableId::parse(&next.to_string()).ok_or_else(refused)
}

//! `espalier sstable write`: writes an SSTable from rows of JSON or CSV.
//!
//! Rows may come in any order; the command sorts them in memory. If they do not fit, it writes
//! sorted runs, which are SSTables below the output directory, and at the end merges and removes
//! them. It merges rows with the same key as a node does: the cells with the later timestamp win.
//! If neither the input nor `--timestamp` gives the rows a timestamp, the row that is later in the
//! input wins. The summary states the number of merged rows. Memory bound: `--sort-memory` while
//! rows are sorted, and a row and a piece of each run while runs are merged.

mod csv;
mod distinct;
mod input;
mod json;
mod merge;
mod rows;
mod runs;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use espalier_mutation::schema::TableMetadata;
use espalier_runtime::file::FileSystem;
use espalier_runtime::time::{self, Instant};
use espalier_sstable::components::list_directory;
use espalier_sstable::versions::{Version, VersionFeatures};
use espalier_sstable::{ChunkFormat, Descriptor, SSTableId};

use self::{
    input::{Format, Records},
    rows::RowBuilder,
    runs::{Sorter, WrittenRows},
};
use super::arguments::WriteArguments;
use super::convert::{chunks, version};
use super::interrupt::Interrupt;
use super::made_directories::MadeDirectories;
use super::output::{print_line, rows_in_words};
use super::progress::{Progress, bytes, rate};
use super::schema::{choose, read};
use super::{ToolError, paths::unusable};

/// The version that is written by default.
const DEFAULT_VERSION: &str = "da";

/// Writes one SSTable with all rows.
///
/// # Errors
/// Fails if an argument, the schema or a record cannot be used, if files cannot be read or
/// written, or after a signal.
pub async fn write(arguments: &WriteArguments) -> Result<(), ToolError> {
    let began = Instant::now();
    let file_system = FileSystem::real();
    let schema = read(&file_system, &arguments.schema, &arguments.keyspace).await?;
    let table = choose(&schema, None, arguments.table.as_deref(), None)?;
    let plan = Plan {
        features: features(arguments, &table)?,
        chunks: chunks(&arguments.compression)?,
        interrupt: Interrupt::watch()?,
        table,
        file_system,
        arguments,
    };
    if plan.table.is_counter() {
        let reason = "rows of counters cannot be written offline: a counter's value depends on the node that adds to it";
        return Err(ToolError::Schema(reason.to_owned()));
    }
    let format = Format::of(&arguments.input);
    let mut records = Records::open(&plan.file_system, &arguments.input, format).await?;
    let timestamp = arguments.timestamp.unwrap_or_else(time::now_micros);
    let latest_s = plan.features.local_deletion_times.maximum();
    let builder = RowBuilder::new(plan.table.clone(), timestamp, time::now_seconds(), latest_s);
    let wrong = |reason| plan.in_input(records.line(), reason);
    builder.check_header(records.header()).map_err(wrong)?;
    let made = MadeDirectories::make(&plan.file_system, &arguments.output).await?;
    let outcome = plan.sort_and_write(&mut records, &builder).await;
    if !matches!(outcome, Ok((Some(_), _))) {
        made.remove_empty(&plan.file_system).await;
    }
    match outcome? {
        (Some(written), records) => {
            print_line(format_args!("{}", describe(&written, records, began.elapsed())))?;
        }
        (None, _) => {
            let input = arguments.input.display();
            print_line(format_args!("{input}: no rows, nothing was written"))?;
        }
    }
    Ok(())
}

/// Returns the summary. The summary has the number of records only if this number differs from the
/// number of written rows, or if rows were merged.
fn describe(written: &WrittenRows, records: u64, elapsed: Duration) -> String {
    let WrittenRows { sstable, rows, added } = written;
    let mut text = format!(
        "{}: {}",
        sstable.descriptor.directory.join(sstable.descriptor.to_string()).display(),
        rows_in_words(rows.total(), rows.statics)
    );
    let _ = write!(text, " in {} partitions", sstable.partition_count);
    let merged = added.plain - rows.plain;
    if records != rows.total() || merged > 0 {
        let _ = write!(text, " of {records} input rows");
    }
    if merged > 0 {
        let _ = write!(text, ", {merged} of which were merged into others of the same key");
    }
    let _ = write!(
        text,
        ", {} of rows, {} on disk, in {:.2} s at {}",
        bytes(sstable.data_length),
        bytes(sstable.bytes_on_disk),
        elapsed.as_secs_f64(),
        rate(sstable.data_length, elapsed)
    );
    text
}

/// Returns the features of the version of `--version`, else of the table's `sstable_format`, else
/// of [`DEFAULT_VERSION`].
fn features(
    arguments: &WriteArguments,
    table: &TableMetadata,
) -> Result<&'static VersionFeatures, ToolError> {
    match (&arguments.version, table.options.sstable_format().and_then(Version::named)) {
        (Some(asked), _) => version("version", asked),
        (None, Some(of_table)) => Ok(of_table),
        (None, None) => version("version", DEFAULT_VERSION),
    }
}

/// The source, the target, and the way to write the target.
struct Plan<'a> {
    arguments: &'a WriteArguments,
    file_system: FileSystem,
    table: Arc<TableMetadata>,
    features: &'static VersionFeatures,
    chunks: Option<ChunkFormat>,
    interrupt: Interrupt,
}

impl Plan<'_> {
    /// Sorts and writes all records. Returns the written SSTable, unless it would be empty, and the
    /// number of records.
    async fn sort_and_write(
        &self,
        records: &mut Records,
        builder: &RowBuilder,
    ) -> Result<(Option<WrittenRows>, u64), ToolError> {
        let output = &self.arguments.output;
        let id = next_id(&self.file_system, output).await?;
        let target = Descriptor::new(output.clone(), self.features, id);
        let directory = output.join(format!(".runs-{}-{}", target.id, std::process::id()));
        let memory = self.arguments.sort_memory << 20;
        let (file_system, table) = (self.file_system.clone(), self.table.clone());
        let undated = self.arguments.timestamp.is_none().then(|| builder.timestamp());
        let mut sorter =
            Sorter::new(file_system, table, directory, memory, undated, &self.interrupt);
        let mut progress = Progress::new("write", records.total_bytes());
        let mut rows = 0u64;
        let read = async {
            while let Some(record) = records.next().await? {
                let built = builder.build(&record);
                let built = built.map_err(|reason| self.in_input(records.line(), reason))?;
                sorter.add(built).await?;
                rows += 1;
                progress.at(records.read_bytes());
            }
            Ok(())
        };
        let written = match self.interrupt.or(read).await {
            Ok(()) => sorter.finish(target, self.chunks.clone(), &mut progress).await,
            Err(error) => Err(error),
        };
        progress.finish();
        let removed = sorter.remove_runs().await;
        let written = written?;
        removed?;
        Ok((written, rows))
    }

    fn in_input(&self, line: u64, reason: String) -> ToolError {
        ToolError::Input { path: self.arguments.input.clone(), line, reason }
    }
}

/// Returns the generation after the highest generation in the directory.
async fn next_id(file_system: &FileSystem, directory: &Path) -> Result<SSTableId, ToolError> {
    let listing = list_directory(file_system, directory).await?;
    let all = listing.sealed.iter().chain(&listing.unsealed).chain(&listing.incomplete);
    let taken = all.filter_map(|descriptor| match descriptor.id {
        SSTableId::Generation(number) => Some(number.get()),
        SSTableId::Uuid(_) => None,
    });
    let next = taken.max().unwrap_or(0) + 1;
    let refused = || unusable(directory, "all generation numbers are used".to_owned());
    SSTableId::parse(&next.to_string()).ok_or_else(refused)
}

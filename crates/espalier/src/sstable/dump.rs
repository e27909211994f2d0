//! `espalier sstable dump`: content as lines of JSON, each SSTable as it is stored, one after the other.

use std::path::Path;
use std::sync::Arc;

use espalier_cql::offline::SelectedPartitions;
use espalier_mutation::schema::TableMetadata;
use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Direction, KeyRange, PartitionHeader, Unfiltered,
    UnfilteredStream,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::dump::{Dump, ReadableDump};
use espalier_sstable::{ColumnSelection, PageCache, SSTableReader};

use super::arguments::DumpArguments;
use super::output::Output;
use super::progress::Progress;
use super::schema::Names;
use super::selection::Selection;
use super::{ToolError, paths};

/// Bytes of pages that are kept: content is read once, front to back.
const CACHE_BYTES: usize = 8 << 20;

/// Prints what the arguments ask for.
pub async fn dump(arguments: &DumpArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let cache = PageCache::new(CACHE_BYTES);
    let names = Names::load(&file_system, &arguments.schema).await?;
    let mut rows_left = arguments.limit.unwrap_or(u64::MAX);
    let mut output = Output::new();
    let descriptors = paths::find(&file_system, &arguments.paths.paths).await?;
    let mut found_keys = 0u64;
    for descriptor in &descriptors {
        if rows_left == 0 {
            break;
        }
        let reader = names.open(&file_system, descriptor, &cache).await?;
        let table = reader.table();
        let selection = Selection::plan(&table, arguments)?;
        let mut printer = Printer {
            lines: Lines::new(&table, arguments),
            output: &mut output,
            shows_all: selection.slices.is_all(),
            rows_left,
        };
        match selection.partitions {
            SelectedPartitions::Nothing => {}
            SelectedPartitions::Keys(keys) => {
                found_keys += by_key(&reader, &keys, &selection.slices, &mut printer).await?;
            }
            SelectedPartitions::Range(range) => {
                let name = file_name(&descriptor.to_string(), descriptors.len());
                by_scan(&reader, range, selection.slices, &mut printer, &name).await?;
            }
        }
        rows_left = printer.rows_left;
    }
    output.flush()?;
    if !arguments.key.is_empty() && found_keys == 0 {
        let place = match descriptors.len() {
            1 => "the SSTable".to_owned(),
            count => format!("any of {count} SSTables"),
        };
        eprintln!("espalier: no partition of that key is in {place}");
    }
    Ok(())
}

fn file_name(name: &str, of: usize) -> String {
    match of {
        1 => "dump".to_owned(),
        _ => Path::new(name).display().to_string(),
    }
}

async fn by_scan(
    reader: &SSTableReader,
    range: KeyRange,
    slices: Arc<ClusteringSlices>,
    printer: &mut Printer<'_>,
    name: &str,
) -> Result<(), ToolError> {
    let mut progress = Progress::new(name, reader.data_length()).unless_stdout_is_a_terminal();
    let mut scan = reader.scan(range, slices, &ColumnSelection::All).await?;
    loop {
        let position = scan.position();
        let Some(mut partition) = scan.next_partition().await? else { break };
        printer.begin(partition.header(), Some(position));
        while let Some(unfiltered) = partition.next().await? {
            printer.unfiltered(&unfiltered)?;
            if printer.rows_left == 0 {
                return Ok(());
            }
            progress.at(partition.position());
        }
        printer.end(partition.header())?;
    }
    Ok(())
}

/// How many of the partitions there are.
async fn by_key(
    reader: &SSTableReader,
    keys: &[DecoratedKey],
    slices: &Arc<ClusteringSlices>,
    printer: &mut Printer<'_>,
) -> Result<u64, ToolError> {
    let mut found = 0;
    for key in keys {
        let columns = ColumnSelection::All;
        let stream = reader.read_partition(key, slices.clone(), Direction::Forward, &columns);
        let Some(mut partition) = stream.await? else { continue };
        found += 1;
        printer.begin(partition.header(), None);
        while let Some(unfiltered) = partition.next().await? {
            printer.unfiltered(&unfiltered)?;
            if printer.rows_left == 0 {
                return Ok(found);
            }
        }
        printer.end(partition.header())?;
    }
    Ok(found)
}

enum Lines {
    Raw { table: Arc<TableMetadata>, full_values: bool },
    Readable(ReadableDump),
}

impl Lines {
    fn new(table: &Arc<TableMetadata>, arguments: &DumpArguments) -> Self {
        let (table, full_values) = (table.clone(), arguments.full_values);
        match arguments.raw {
            true => Self::Raw { table, full_values },
            false => Self::Readable(ReadableDump::new(table, full_values)),
        }
    }
}

/// Partitions on their way to the output.
struct Printer<'output> {
    lines: Lines,
    output: &'output mut Output,
    /// Otherwise a partition of which nothing lies in the slice is not shown.
    shows_all: bool,
    rows_left: u64,
}

impl Printer<'_> {
    fn begin(&mut self, header: &PartitionHeader, position: Option<u64>) {
        let buffer = self.output.buffer();
        let before = buffer.len();
        match &mut self.lines {
            Lines::Raw { table, full_values } => {
                Dump { table, full_values: *full_values }.write_header(header, buffer);
            }
            Lines::Readable(lines) => lines.write_header(header, position, buffer),
        }
        if !self.shows_all {
            self.output.hold_back(before);
        }
    }

    fn unfiltered(&mut self, unfiltered: &Unfiltered) -> Result<(), ToolError> {
        self.output.release();
        let buffer = self.output.buffer();
        match &self.lines {
            Lines::Raw { table, full_values } => {
                Dump { table, full_values: *full_values }.write_unfiltered(unfiltered, buffer);
            }
            Lines::Readable(lines) => lines.write_unfiltered(unfiltered, buffer),
        }
        if matches!(unfiltered, Unfiltered::Row(_)) {
            self.rows_left -= 1;
        }
        Ok(self.output.flush_if_large()?)
    }

    fn end(&mut self, header: &PartitionHeader) -> Result<(), ToolError> {
        if !header.deletion.is_live() {
            self.output.release();
        }
        self.output.drop_held_back();
        Ok(self.output.flush_if_large()?)
    }
}

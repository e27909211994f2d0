//! `espalier sstable dump`: content as lines of JSON, each SSTable as it is stored, one after the other.

use std::sync::Arc;

use espalier_cql::offline::SelectedPartitions;
use espalier_mutation::{ClusteringSlices, DecoratedKey, Direction, KeyRange, UnfilteredStream};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{ColumnSelection, Descriptor, PageCache, SSTableError, SSTableReader};

use super::arguments::DumpArguments;
use super::printer::{Lines, Printer, PrinterGone};
use super::progress::Progress;
use super::schema::Names;
use super::selection::Selection;
use super::{ToolError, paths};

/// Bytes of pages that are kept: content is read once, front to back.
const CACHE_BYTES: usize = 8 << 20;

/// Why reading ended before its end.
enum Stopped {
    Error(ToolError),
    PrinterGone,
}

impl From<ToolError> for Stopped {
    fn from(error: ToolError) -> Self {
        Self::Error(error)
    }
}

impl From<SSTableError> for Stopped {
    fn from(error: SSTableError) -> Self {
        Self::Error(error.into())
    }
}

impl From<PrinterGone> for Stopped {
    fn from(_: PrinterGone) -> Self {
        Self::PrinterGone
    }
}

/// Prints what the arguments ask for.
pub async fn dump(arguments: &DumpArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let names = Names::load(&file_system, &arguments.schema).await?;
    let descriptors = paths::find(&file_system, &arguments.paths.paths).await?;
    let mut printer = Printer::start(arguments.limit.unwrap_or(u64::MAX)).await;
    let read = read_all(&file_system, &names, &descriptors, arguments, &mut printer).await;
    // Whatever was read is printed, also if reading came to a bad end.
    let printed = printer.finish().await;
    let found_keys = match read {
        Ok(found_keys) => found_keys,
        Err(Stopped::Error(error)) => return Err(error),
        Err(Stopped::PrinterGone) => return Ok(printed?),
    };
    printed?;
    if !arguments.key.is_empty() && found_keys == 0 {
        let place = match descriptors.len() {
            1 => "the SSTable".to_owned(),
            count => format!("any of {count} SSTables"),
        };
        eprintln!("espalier: no partition of that key is in {place}");
    }
    Ok(())
}

/// How many of the partitions that were asked for by key there are.
async fn read_all(
    file_system: &FileSystem,
    names: &Names,
    descriptors: &[Descriptor],
    arguments: &DumpArguments,
    printer: &mut Printer,
) -> Result<u64, Stopped> {
    let cache = PageCache::new(CACHE_BYTES);
    let mut found_keys = 0;
    for descriptor in descriptors {
        if printer.rows_left == 0 {
            break;
        }
        let reader = names.open(file_system, descriptor, &cache).await?;
        let table = reader.table();
        let selection = Selection::plan(&table, arguments)?;
        printer.begin(Lines::new(&table, arguments), selection.slices.is_all());
        match selection.partitions {
            SelectedPartitions::Nothing => {}
            SelectedPartitions::Keys(keys) => {
                found_keys += by_key(&reader, &keys, &selection.slices, printer).await?;
            }
            SelectedPartitions::Range(range) => {
                by_scan(&reader, range, selection.slices, printer).await?;
            }
        }
    }
    Ok(found_keys)
}

async fn by_scan(
    reader: &SSTableReader,
    range: KeyRange,
    slices: Arc<ClusteringSlices>,
    printer: &mut Printer,
) -> Result<(), Stopped> {
    let name = reader.descriptor().to_string();
    let mut progress = Progress::new(name, reader.data_length()).unless_stdout_is_a_terminal();
    let mut scan = reader.scan(range, slices, &ColumnSelection::All).await?;
    loop {
        let position = scan.position();
        let Some(mut partition) = scan.next_partition().await? else { return Ok(()) };
        printer.partition(partition.header(), Some(position))?;
        while let Some(unfiltered) = partition.next().await? {
            let position = partition.position();
            printer.unfiltered(unfiltered, position)?;
            if printer.rows_left == 0 {
                return Ok(());
            }
            progress.at(position);
        }
        printer.end();
    }
}

/// How many of the partitions there are.
async fn by_key(
    reader: &SSTableReader,
    keys: &[DecoratedKey],
    slices: &Arc<ClusteringSlices>,
    printer: &mut Printer,
) -> Result<u64, Stopped> {
    let mut found = 0;
    for key in keys {
        let columns = ColumnSelection::All;
        let stream = reader.read_partition(key, slices.clone(), Direction::Forward, &columns);
        let Some(mut partition) = stream.await? else { continue };
        found += 1;
        printer.partition(partition.header(), None)?;
        while let Some(unfiltered) = partition.next().await? {
            printer.unfiltered(unfiltered, partition.position())?;
            if printer.rows_left == 0 {
                return Ok(found);
            }
        }
        printer.end();
    }
    Ok(found)
}

//! `espalier sstable dump`: prints the stored content of SSTables as lines of JSON, one SSTable
//! after the other.

use std::sync::Arc;

use espalier_cql::offline::SelectedPartitions;
use espalier_mutation::{ClusteringSlices, DecoratedKey, Direction, KeyRange, UnfilteredStream};
use espalier_runtime::file::FileSystem;
use espalier_sstable::dump::Lines;
use espalier_sstable::{
    Caveat, ColumnSelection, Descriptor, PageCache, RowBatches, SSTableError, SSTableReader,
};

use super::arguments::DumpArguments;
use super::failures::{Failures, Misfits};
use super::output::report;
use super::printer::{Printer, PrinterGone};
use super::progress::Progress;
use super::schema::{Names, has_invented_names};
use super::selection::Selection;
use super::worker_pool::{BATCH_BYTES, NotTaken, WorkerPool};
use super::{ToolError, paths};

/// Size of the page cache. It can be small, because the content is read once, front to back.
const CACHE_BYTES: usize = 8 << 20;

/// The reason why reading stopped early.
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

/// Prints the content that the arguments select. After a failure of one SSTable the others are
/// printed nevertheless.
///
/// # Errors
/// Fails if an argument or a path cannot be used, if an SSTable fails, or if the output does.
pub async fn dump(arguments: &DumpArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let names = Names::load(&file_system, &arguments.schema).await?;
    let found = paths::find(&file_system, &arguments.paths.paths).await?;
    let mut failures = Failures::of(&found);
    let descriptors = &found.descriptors;
    if arguments.key.is_empty() && arguments.slice.is_none() && arguments.limit.is_none() {
        print_all(&file_system, &names, descriptors, arguments, &mut failures).await?;
        return failures.result();
    }
    let mut printer = Printer::start(arguments.limit.unwrap_or(u64::MAX)).await;
    let read =
        read_all(&file_system, &names, descriptors, arguments, &mut printer, &mut failures).await;
    // Rows read before an error are printed too.
    let printed = printer.finish().await;
    let found_keys = match read {
        Ok(found_keys) => found_keys,
        Err(Stopped::Error(error)) => return Err(error),
        Err(Stopped::PrinterGone) => return Ok(printed?),
    };
    printed?;
    // The count leaves out SSTables that could not be read, because they may hold the key.
    let looked_into = descriptors.len() - failures.count();
    let is_asked = !arguments.key.is_empty() && arguments.limit != Some(0);
    if is_asked && found_keys == 0 && looked_into > 0 {
        let others = if failures.count() == 0 { "" } else { "other " };
        let place = match looked_into {
            1 => format!("the {others}SSTable"),
            count => format!("any of {count} {others}SSTables"),
        };
        report(format_args!("no partition of that key is in {place}"));
    }
    failures.result()
}

/// Prints all content, on all cores.
async fn print_all(
    file_system: &FileSystem,
    names: &Names,
    descriptors: &[Descriptor],
    arguments: &DumpArguments,
    failures: &mut Failures,
) -> Result<(), ToolError> {
    let cache = PageCache::new(CACHE_BYTES);
    let mut workers = WorkerPool::start().await;
    let mut outcome = Ok(());
    for descriptor in descriptors {
        let printed =
            print_one(file_system, names, descriptor, arguments, &cache, &mut workers).await;
        outcome = match printed {
            Ok(()) => Ok(()),
            Err(Stopped::Error(error)) => failures.take(error),
            Err(Stopped::PrinterGone) => break,
        };
        if outcome.is_err() {
            break;
        }
    }
    workers.finish().await?;
    outcome
}

async fn print_one(
    file_system: &FileSystem,
    names: &Names,
    descriptor: &Descriptor,
    arguments: &DumpArguments,
    cache: &PageCache,
    workers: &mut WorkerPool,
) -> Result<(), Stopped> {
    let mut whole = Whole::open(file_system, names, descriptor, arguments, cache).await?;
    let mut progress =
        Progress::new(descriptor.to_string(), whole.data_length).unless_stdout_is_a_terminal();
    workers.begin(whole.lines);
    let read = loop {
        let batch = match whole.row_batches.next(BATCH_BYTES).await {
            Ok(Some(batch)) => batch,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let end = batch.end();
        match workers.push(batch) {
            Ok(()) => progress.at(end),
            Err(NotTaken::Failed) => break Ok(()),
            Err(NotTaken::OutputGone) => return Err(Stopped::PrinterGone),
        }
    };
    // In the file, a printing error lies before a reading error, and both lie before the lost end
    // that a caveat may report.
    let read = workers.end().map_or(read, Err);
    let Some(caveat) = whole.caveat else { return Ok(read?) };
    let (other, error) = caveat.ends(read);
    if let Some(other) = other {
        report(format_args!("{other}"));
    }
    Err(error.into())
}

/// An SSTable that is read completely, from front to back.
struct Whole {
    lines: Lines,
    row_batches: RowBatches,
    data_length: u64,
    /// A fault that makes the dump fail even if everything can be read.
    caveat: Option<Caveat>,
}

impl Whole {
    /// Opens the whole SSTable. If that fails, opens only the files that a dump needs.
    async fn open(
        file_system: &FileSystem,
        names: &Names,
        descriptor: &Descriptor,
        arguments: &DumpArguments,
        cache: &PageCache,
    ) -> Result<Self, Stopped> {
        let (raw, full_values) = (arguments.raw, arguments.full_values);
        let error = match names.open(file_system, descriptor, cache).await {
            Ok(reader) => {
                return Ok(Self {
                    lines: Lines::new(&reader, raw, full_values),
                    row_batches: reader.row_batches(&KeyRange::full()).await?,
                    data_length: reader.data_length(),
                    caveat: reader.caveat(),
                });
            }
            Err(error) => error,
        };
        let data = names.open_data(file_system, descriptor, cache).await?;
        let caveat = data.caveat().cloned();
        // A caveat is reported at the end of the dump.
        if caveat.is_none() {
            report(format_args!("{error}; dumping all the same, because all rows are in Data.db"));
        }
        Ok(Self {
            lines: Lines::of_data(&data, raw, full_values),
            row_batches: data.row_batches(),
            data_length: data.data_length(),
            caveat,
        })
    }
}

/// Prints the selected rows. Returns the number of requested keys that were found.
async fn read_all(
    file_system: &FileSystem,
    names: &Names,
    descriptors: &[Descriptor],
    arguments: &DumpArguments,
    printer: &mut Printer,
    failures: &mut Failures,
) -> Result<u64, Stopped> {
    let cache = PageCache::new(CACHE_BYTES);
    let mut found_keys = 0;
    let mut misfits = Misfits::default();
    for descriptor in descriptors {
        if printer.rows_left == 0 {
            break;
        }
        let read = read_one(file_system, names, descriptor, arguments, &cache, printer).await;
        match read {
            Ok(found) => found_keys += found,
            // The keys may fit another table among the SSTables.
            Err(Stopped::Error(error @ ToolError::Argument { .. })) => {
                misfits.add(descriptor, error);
            }
            Err(Stopped::Error(error)) => failures.take(error)?,
            Err(Stopped::PrinterGone) => return Err(Stopped::PrinterGone),
        }
    }
    misfits.settle(failures)?;
    Ok(found_keys)
}

async fn read_one(
    file_system: &FileSystem,
    names: &Names,
    descriptor: &Descriptor,
    arguments: &DumpArguments,
    cache: &PageCache,
    printer: &mut Printer,
) -> Result<u64, Stopped> {
    let reader = names.open(file_system, descriptor, cache).await?;
    let table = reader.table();
    let is_unnamed = has_invented_names(&table, &reader.statistics().header);
    let selection = Selection::plan(&table, is_unnamed, arguments)?;
    let lines = Lines::new(&reader, arguments.raw, arguments.full_values);
    printer.begin(lines, selection.slices.is_all());
    match selection.partitions {
        SelectedPartitions::Nothing => Ok(0),
        SelectedPartitions::Keys(keys) => by_key(&reader, &keys, &selection.slices, printer).await,
        SelectedPartitions::Range(range) => {
            by_scan(&reader, range, selection.slices, printer).await?;
            Ok(0)
        }
    }
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
        let Some(mut partition) = scan.next_partition().await? else { return Ok(()) };
        printer.partition(partition.header(), Some(partition.start()))?;
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

/// Prints the partitions of some keys. Returns the number of partitions that exist.
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

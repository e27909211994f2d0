//! `espalier bench compaction`: measures the compaction of two files that share half of their
//! partitions.
//!
//! Figures are bytes of Data.db before compression, for each second of core time: the disk's time
//! and the core's other work are left out. Afterwards a writer alone writes the same output file
//! again, from rows in memory. The speed at which the core compresses the blocks of that file with
//! LZ4 is printed beside the writer's, because a writer of the file cannot be faster.

mod writing;

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use espalier_cql::{QueryResult, Value};
use espalier_runtime::{
    block_on,
    cpu::process_time,
    file::FileSystem,
    heap,
    preempt::take_stall_report,
    random::Generator,
    time::{self, Instant},
    yield_now,
};
use espalier_sstable::{DataReader, Descriptor, PageCache, components::list_directory};

use super::{
    BenchError, arguments::CompactionArguments, node::InProcessNode, print_line, progress::Progress,
};

const KEYSPACE: &str = "bench_compaction";
const TABLE: &str = "t";
/// Rows of a partition.
const ROWS: u64 = 10;
const MEGA: f64 = 1e6;

/// Measures and prints.
pub fn run(arguments: &CompactionArguments) -> Result<(), BenchError> {
    block_on(async {
        let opened = InProcessNode::open_with(&arguments.node.workdir, |configuration| {
            configuration.memtables.bytes = 4 << 30;
            configuration.sstables.format.clone_from(&arguments.sstable_format);
        });
        let node = Rc::new(opened.await?);
        let mut progress = Progress::new();
        let outcome = Box::pin(measure(&node, arguments, &mut progress)).await;
        progress.clear();
        outcome.and(InProcessNode::close_shared(node).await)
    })
}

async fn measure(
    node: &Rc<InProcessNode>,
    arguments: &CompactionArguments,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    create_table(node).await?;
    let partitions = (arguments.rows / ROWS).max(2);
    write_inputs(node, partitions, arguments.value_bytes as usize, progress).await?;
    progress.clear();
    let files = FileSystem::real();
    let directory = table_directory(&files, node.directory()).await?;
    if let Some(inputs) = &arguments.inputs {
        link_files(&files, &directory, inputs).await?;
    }
    let (_, plain_in) = plain_bytes(&files, &directory).await?;
    let compaction = compact(node).await?;
    let rows = partitions * ROWS;
    if count(node).await? != rows + rows / 2 {
        return Err(BenchError::Wrong("the compaction lost rows, or made some".into()));
    }
    let (outputs, plain_out) = plain_bytes(&files, &directory).await?;
    let [output] = outputs.as_slice() else {
        return Err(BenchError::Wrong("the compaction left more than one file".into()));
    };
    let alone = write_alone(node, &files, output).await?;
    print_compaction(&compaction, rows, plain_in as f64 / MEGA, plain_out as f64 / MEGA)?;
    print_alone(&alone)?;
    print_line(format_args!(
        "rows read: {:.0} thousand by the second of a core; the longest that a task held the core: \
         {} us",
        (2 * rows) as f64 / compaction.core_s / 1e3,
        compaction.stall_us
    ))
}

async fn create_table(node: &InProcessNode) -> Result<(), BenchError> {
    node.query(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}} \
         AND durable_writes = false"
    ))
    .await?;
    node.query(&format!(
        "CREATE TABLE {KEYSPACE}.{TABLE} (k bigint, c bigint, v blob, PRIMARY KEY (k, c)) WITH \
         compaction = \
         {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}"
    ))
    .await?;
    Ok(())
}

/// Writes two files of `partitions` partitions each. Half of these partitions are in both files.
async fn write_inputs(
    node: &InProcessNode,
    partitions: u64,
    value_bytes: usize,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    let insert =
        node.prepare(&format!("INSERT INTO {KEYSPACE}.{TABLE} (k, c, v) VALUES (?, ?, ?)"))?;
    let mut random = Generator::from_seed(1);
    let mut written = 0;
    let mut step = progress.step("rows written", 2 * partitions * ROWS);
    for first in [0, partitions / 2] {
        for partition in first..first + partitions {
            for row in 0..ROWS {
                let mut value = vec![0; value_bytes];
                value[..value_bytes / 2]
                    .iter_mut()
                    .for_each(|byte| *byte = random.next_u64() as u8);
                let bigint =
                    |value: u64| Value::Bytes(Bytes::copy_from_slice(&value.to_be_bytes()));
                let values = [bigint(partition), bigint(row), Value::Bytes(value.into())];
                node.write(&insert, &values).await?;
                written += 1;
                step.at(written);
            }
        }
        node.database().flush(KEYSPACE, Some(TABLE)).await?;
    }
    Ok(())
}

/// The figures of the compaction.
struct Compaction {
    elapsed_s: f64,
    core_s: f64,
    /// The longest time that a task held the core, in µs.
    stall_us: u64,
    stored_bytes_in: u64,
    stored_bytes_out: u64,
}

async fn compact(node: &InProcessNode) -> Result<Compaction, BenchError> {
    // Flushes free their memtables piece by piece; that work is not the compaction's.
    time::sleep(Duration::from_secs(2)).await;
    heap::return_unused();
    // The stall of `return_unused` is not the compaction's either.
    yield_now().await;
    let before = node.database().store().metrics();
    take_stall_report();
    let (started, worked) = (Instant::now(), process_time());
    node.database().compactions().compact(KEYSPACE, Some(TABLE), false).await?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let core_s = (process_time() - worked).as_secs_f64();
    let stall_us = take_stall_report().longest_us;
    let after = node.database().store().metrics();
    let stored_bytes_in = after.compactions.bytes_in - before.compactions.bytes_in;
    let stored_bytes_out = after.compactions.bytes_out - before.compactions.bytes_out;
    if after.compactions.done != before.compactions.done + 1 || stored_bytes_out == 0 {
        return Err(BenchError::Wrong("there was no compaction".into()));
    }
    Ok(Compaction { elapsed_s, core_s, stall_us, stored_bytes_in, stored_bytes_out })
}

/// Writes the output of the compaction again, by a writer alone.
async fn write_alone(
    node: &InProcessNode,
    files: &FileSystem,
    output: &Descriptor,
) -> Result<writing::Speeds, BenchError> {
    let table = node.database().store().schema().table(KEYSPACE, TABLE).cloned();
    let Some(table) = table else {
        return Err(BenchError::Wrong("the table is not there any more".into()));
    };
    let (configuration, features) = (node.database().store().configuration(), output.features()?);
    let blocks =
        (configuration.column_index_size(features), configuration.first_block_size(features));
    let original = writing::Original { descriptor: output.clone(), table, blocks };
    let again = node.directory().join("written-again");
    files.create_dir_all(&again).await?;
    writing::measure(files, &original, &again).await
}

fn print_compaction(
    compaction: &Compaction,
    rows: u64,
    plain_in: f64,
    plain_out: f64,
) -> Result<(), BenchError> {
    let Compaction { elapsed_s, core_s, .. } = compaction;
    let stored_in = compaction.stored_bytes_in as f64 / MEGA;
    let stored_out = compaction.stored_bytes_out as f64 / MEGA;
    print_line(format_args!(
        "two files of {rows} rows in partitions of {ROWS}, half of which are in both"
    ))?;
    print_line(format_args!(
        "{stored_in:.1} MB stored, {plain_in:.1} MB before compression, became {stored_out:.1} and \
         {plain_out:.1} MB in \
         {elapsed_s:.2} s, {core_s:.2} s of a core"
    ))?;
    print_line(format_args!("MB before compression, by the second that a core worked:"))?;
    print_line(format_args!("  the compaction read         {:>8.0}", plain_in / core_s))?;
    print_line(format_args!("  the compaction wrote        {:>8.0}", plain_out / core_s))
}

fn print_alone(alone: &writing::Speeds) -> Result<(), BenchError> {
    for (write, rows) in alone.write.into_iter().zip(["in memory", "in the processor's cache"]) {
        print_line(format_args!(
            "  that file written alone     {:>8.0}   {:.0} % of LZ4; its rows are {rows}, and it \
             is sealed in the end",
            write / MEGA,
            100.0 * write / alone.compress
        ))?;
    }
    print_line(format_args!(
        "  LZ4 on the file's blocks    {:>8.0}   and {:.0} back",
        alone.compress / MEGA,
        alone.decompress / MEGA
    ))
}

/// Counts the rows that a scan finds.
async fn count(node: &InProcessNode) -> Result<u64, BenchError> {
    let QueryResult::Rows(rows) =
        node.query(&format!("SELECT count(*) FROM {KEYSPACE}.{TABLE}")).await?
    else {
        return Ok(0);
    };
    // The content is one bigint behind its length.
    let value = rows.content.last_chunk().copied();
    Ok(value.map_or(0, u64::from_be_bytes))
}

/// Returns the directory of the table's files.
async fn table_directory(files: &FileSystem, node: &Path) -> Result<PathBuf, BenchError> {
    let tables = files.read_dir(node.join("data").join(KEYSPACE)).await?;
    match tables.into_iter().next() {
        Some(table) => Ok(table.path),
        None => Err(BenchError::Wrong("the table has no directory".into())),
    }
}

/// Returns the files and their size before compression, in bytes.
async fn plain_bytes(
    files: &FileSystem,
    directory: &Path,
) -> Result<(Vec<Descriptor>, u64), BenchError> {
    let cache = PageCache::new(1 << 20);
    let (sets, mut bytes) = (list_directory(files, directory).await?.sealed, 0);
    for set in &sets {
        bytes += DataReader::open(files, set.clone(), &cache).await?.data_length();
    }
    Ok((sets, bytes))
}

/// Links the table's files into the directory `into`.
async fn link_files(files: &FileSystem, table: &Path, into: &Path) -> Result<(), BenchError> {
    files.create_dir_all(into).await?;
    for file in files.read_dir(table).await? {
        files.hard_link(&file.path, into.join(&file.name)).await?;
    }
    Ok(())
}

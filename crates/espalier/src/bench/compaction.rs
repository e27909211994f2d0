//! `espalier bench compaction`: how fast two files become one of which half the partitions are in both.
//!
//! Figures are of bytes before compression, by the second that a core worked for it: what the disk takes and what others have
//! of the core is left out. Beside them stands how fast the core compresses with LZ4 what the rows hold, in chunks as the
//! file has them: no writer of such files can be faster.

use std::{path::Path, rc::Rc, time::Duration};

use bytes::Bytes;
use espalier_cql::{QueryResult, Value};
use espalier_runtime::{
    block_on,
    cpu::process_time,
    file::FileSystem,
    preempt::take_stall_report,
    random::Generator,
    time::{self, Instant},
};
use espalier_sstable::compression::Compressor;

use super::{
    BenchError, arguments::CompactionArguments, node::InProcessNode, print_line, progress::Progress,
};

const KEYSPACE: &str = "bench_compaction";
const TABLE: &str = "t";
/// Rows of a partition.
const ROWS: u64 = 10;
/// Bytes of a value, half of them random.
const VALUE_BYTES: usize = 100;
/// Bytes of a chunk of Data.db.
const CHUNK_BYTES: usize = 16 << 10;

/// Measures and prints.
pub fn run(arguments: &CompactionArguments) -> Result<(), BenchError> {
    block_on(async {
        let node = Rc::new(InProcessNode::open(&arguments.workdir, 4 << 30).await?);
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
    node.query(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}} \
         AND durable_writes = false"
    ))
    .await?;
    node.query(&format!(
        "CREATE TABLE {KEYSPACE}.{TABLE} (k bigint, c bigint, v blob, PRIMARY KEY (k, c)) WITH compaction = \
         {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}"
    ))
    .await?;
    let insert =
        node.prepare(&format!("INSERT INTO {KEYSPACE}.{TABLE} (k, c, v) VALUES (?, ?, ?)"))?;
    let partitions = (arguments.rows / ROWS).max(2);
    let mut random = Generator::from_seed(1);
    let (mut sample, mut written) = (Vec::new(), 0);
    let mut step = progress.step("rows written", 2 * partitions * ROWS);
    for first in [0, partitions / 2] {
        for partition in first..first + partitions {
            for row in 0..ROWS {
                let mut value = vec![0; VALUE_BYTES];
                value[..VALUE_BYTES / 2]
                    .iter_mut()
                    .for_each(|byte| *byte = random.next_u64() as u8);
                if sample.len() < 64 << 20 {
                    sample.extend_from_slice(&value);
                }
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
    progress.clear();
    if let Some(inputs) = &arguments.inputs {
        link_files(node.directory(), inputs).await?;
    }
    // What is left of the flushes, which free their memtables bit by bit, is not the compaction's.
    time::sleep(Duration::from_secs(2)).await;
    let before = node.database().metrics();
    take_stall_report();
    let (started, worked) = (Instant::now(), process_time());
    node.database().compact(KEYSPACE, Some(TABLE), false).await?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let seconds = (process_time() - worked).as_secs_f64();
    let stall_us = take_stall_report().longest_us;
    let after = node.database().metrics();
    let stored_in = after.compacted_bytes_in - before.compacted_bytes_in;
    let stored_out = after.compacted_bytes_out - before.compacted_bytes_out;
    if after.compactions != before.compactions + 1 || stored_out == 0 {
        return Err(BenchError::Wrong("there was no compaction".into()));
    }
    let rows = partitions * ROWS;
    if count(node).await? != rows + rows / 2 {
        return Err(BenchError::Wrong("the compaction lost rows, or made some".into()));
    }
    // What a row takes before compression: keys and lengths beside the value are a few bytes.
    let plain_in = (2 * partitions * ROWS) as f64 * (VALUE_BYTES + 12) as f64;
    let lz4 = lz4_speed(&sample)?;
    let mega = 1e6;
    print_line(format_args!(
        "two files of {} rows in partitions of {ROWS}, half of which are in both",
        partitions * ROWS
    ))?;
    print_line(format_args!(
        "{:.1} MB and {:.1} MB stored became {:.1} MB in {elapsed_s:.2} s, {seconds:.2} s of a core",
        stored_in as f64 / 2.0 / mega,
        stored_in as f64 / 2.0 / mega,
        stored_out as f64 / mega
    ))?;
    let plain_out = plain_in * 0.75;
    print_line(format_args!(
        "read     {:>8.0} MB/s of a core, before compression",
        plain_in / seconds / mega
    ))?;
    print_line(format_args!(
        "written  {:>8.0} MB/s of a core, before compression",
        plain_out / seconds / mega
    ))?;
    print_line(format_args!(
        "rows     {:>8.0} thousand/s",
        (2 * partitions * ROWS) as f64 / seconds / 1e3
    ))?;
    print_line(format_args!(
        "LZ4      {:>8.0} MB/s on this core; written is {:.0} % of it",
        lz4 / mega,
        100.0 * plain_out / seconds / lz4
    ))?;
    print_line(format_args!(
        "stall    {stall_us:>8} us: the longest time for which a task held the core"
    ))
}

/// Rows that a scan finds.
async fn count(node: &InProcessNode) -> Result<u64, BenchError> {
    let QueryResult::Rows(rows) =
        node.query(&format!("SELECT count(*) FROM {KEYSPACE}.{TABLE}")).await?
    else {
        return Ok(0);
    };
    // One bigint behind its length.
    let value = rows.content.last_chunk().copied();
    Ok(value.map_or(0, u64::from_be_bytes))
}

/// Links the table's files into a directory.
async fn link_files(node: &Path, into: &Path) -> Result<(), BenchError> {
    let files = FileSystem::real();
    files.create_dir_all(into).await?;
    let keyspace = node.join("data").join(KEYSPACE);
    for table in files.read_dir(&keyspace).await? {
        for file in files.read_dir(&table.path).await? {
            files.hard_link(&file.path, into.join(&file.name)).await?;
        }
    }
    Ok(())
}

/// Bytes a second.
fn lz4_speed(sample: &[u8]) -> Result<f64, BenchError> {
    let started = process_time();
    let mut compressed = Vec::new();
    for chunk in sample.chunks(CHUNK_BYTES) {
        Compressor::Lz4.compress(chunk, &mut compressed).map_err(BenchError::Wrong)?;
    }
    Ok(sample.len() as f64 / (process_time() - started).as_secs_f64())
}

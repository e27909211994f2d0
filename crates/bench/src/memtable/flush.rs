//! Measures a flush, and loads the SSTable's pages into memory.

use espalier_runtime::{file::FileSystem, random::Generator};

use super::block::Data;
use super::points;
use super::tables::{KEYSPACE, Table};
use crate::node::InProcessNode;
use crate::watch::{Round, Watch};
use crate::{BenchError, progress::Step};

/// After the flush, random reads load the SSTable's pages. There is one read for this many rows, so
/// that the reads touch each page several times.
const ROWS_FOR_EACH_READ: u64 = 4;

/// Flushes the table and loads the SSTable's pages. Returns the time of the flush and the size of
/// Data.db in bytes.
pub async fn flush(
    node: &InProcessNode,
    table: &Table,
    data: &Data,
    random: &mut Generator,
    step: &mut Step<'_>,
) -> Result<(Round, u64), BenchError> {
    let mut round = Round::default();
    let watch = Watch::start();
    Box::pin(node.database().flush(KEYSPACE, Some(&table.name))).await?;
    round.add(data.count, &watch);
    let reads = data.count / ROWS_FOR_EACH_READ;
    points::read(node, table, data, reads, false, random, step).await?;
    Ok((round, data_bytes(node, &table.name).await?))
}

/// Returns the size of a table's Data.db, in bytes.
async fn data_bytes(node: &InProcessNode, table: &str) -> Result<u64, BenchError> {
    let files = FileSystem::real();
    let keyspace = node.directory().join("data").join(KEYSPACE);
    let mut bytes = 0;
    let prefix = format!("{table}-");
    for directory in files.read_dir(&keyspace).await? {
        if directory.name.starts_with(&prefix) {
            for file in files.read_dir(&directory.path).await? {
                if file.name.ends_with("-Data.db") {
                    bytes += files.metadata(&file.path).await?.length;
                }
            }
        }
    }
    Ok(bytes)
}

//! `espalier sstable dump`: content as lines of JSON, each SSTable as it is stored, one after the other.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use espalier_mutation::{ClusteringSlices, KeyRange, UnfilteredStream};
use espalier_runtime::file::FileSystem;
use espalier_sstable::dump::Dump;
use espalier_sstable::{ColumnSelection, PageCache, SSTableReader};

use super::{ToolError, paths};

/// Bytes of pages that are kept: content is read once, front to back.
const CACHE_BYTES: usize = 8 << 20;

/// Prints all. Values longer than 4 KiB appear as length and CRC-32, unless `full_values`.
pub async fn dump(paths: &[PathBuf], full_values: bool) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let cache = PageCache::new(CACHE_BYTES);
    let mut output = BufWriter::new(std::io::stdout());
    for descriptor in paths::find(&file_system, paths).await? {
        let reader = SSTableReader::open(&file_system, descriptor, None, &cache).await?;
        let table = reader.table();
        let dump = Dump { table: &table, full_values };
        let everything = Arc::new(ClusteringSlices::all());
        let mut scan = reader.scan(KeyRange::full(), everything, &ColumnSelection::All).await?;
        while let Some(mut partition) = scan.next_partition().await? {
            for line in dump.header(partition.header()) {
                writeln!(output, "{line}")?;
            }
            while let Some(unfiltered) = partition.next().await? {
                writeln!(output, "{}", dump.unfiltered(&unfiltered))?;
            }
        }
    }
    Ok(output.flush()?)
}

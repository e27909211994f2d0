//! Compiles the crate's futures once, for all crates that await them.
//!
//! The compiler generates the code of an `async fn` in the crate that polls it. Without this
//! module, each binary that reads or writes SSTables (most of them tests) compiles all of it again.
//! Builds that share generic code (up to `opt-level = 1`) find the code here.

use std::{pin::Pin, sync::Arc};

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Direction, KeyRange, PartitionHeader, Unfiltered,
    UnfilteredStream,
};
use espalier_runtime::file::FileSystem;

use crate::{
    ColumnSelection, Descriptor, PageCache, Result, SSTableReader, SSTableWriter, WriterOptions,
    components, verify,
};

/// Polls futures of the reader, the writer and the verification. No code calls it.
#[doc(hidden)]
pub fn compiled_here(
    file_system: FileSystem,
    descriptor: Descriptor,
    options: WriterOptions,
    cache: PageCache,
    header: PartitionHeader,
    unfiltered: Unfiltered,
) -> Pin<Box<dyn Future<Output = Result<()>>>> {
    Box::pin(async move {
        let mut writer = SSTableWriter::create(&file_system, options).await?;
        writer.start_partition(header.clone())?;
        writer.add(unfiltered).await?;
        writer.end_partition().await?;
        writer.finish().await?;
        let reader = SSTableReader::open(&file_system, descriptor.clone(), None, &cache).await?;
        let slices = || Arc::new(ClusteringSlices::all());
        let (key, columns): (&DecoratedKey, _) = (&header.key, &ColumnSelection::All);
        let found = reader.read_partition(key, slices(), Direction::Forward, columns).await?;
        if let Some(mut stream) = found {
            stream.next().await?;
        }
        let mut scan = reader.scan(KeyRange::full(), slices(), columns).await?;
        if let Some(mut partition) = scan.next_partition().await? {
            partition.next().await?;
        }
        let mut row_batches = reader.row_batches(&KeyRange::full()).await?;
        row_batches.next(0).await?;
        components::list_directory(&file_system, &descriptor.directory).await?;
        components::copy_sstable(&file_system, &descriptor, &descriptor).await?;
        components::remove_sstable(&file_system, &descriptor).await?;
        verify::verify(&file_system, &descriptor).await?;
        Ok(())
    })
}

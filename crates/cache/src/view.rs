//! The narrow view of a table that the cache reads through.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Direction, Unfiltered, UnfilteredStream, schema::TableMetadata,
};

use crate::CacheError;

/// One read's view of a table: the files at one moment, and facts about the memtables.
#[allow(async_fn_in_trait)]
pub trait CacheView {
    /// The error of a read of files.
    type Error: From<CacheError>;
    /// A stream of one partition of one file.
    type Stream: UnfilteredStream<Error = Self::Error>;

    /// Returns the table, in the version of the read.
    fn table(&self) -> &Arc<TableMetadata>;

    /// Returns the direction of the read.
    fn direction(&self) -> Direction;

    /// Returns the number of rows that the read takes of a partition if all are visible.
    fn wanted_rows(&self) -> usize;

    /// Opens the streams of all files that may hold something of the slices of a partition.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read.
    async fn open_files(
        &self,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
    ) -> Result<Vec<Self::Stream>, Self::Error>;

    /// Returns the greatest write timestamp in µs of all files; `i64::MAX` if there are none.
    fn maximum_timestamp(&self) -> i64;

    /// Returns whether the memtable of the view still receives the writes. Otherwise the view does
    /// not see the latest writes.
    fn sees_all_writes(&self) -> bool;

    /// Returns a lower limit, in µs, of the timestamps of a partition's data in memtables; `None`
    /// if they hold nothing of the partition.
    fn oldest_in_memory(&self, key: &DecoratedKey) -> Option<i64>;

    /// Records a fragment that came from the cache in the trace of the request. Called only while
    /// the request is traced.
    fn record(&self, fragment: &Unfiltered);
}

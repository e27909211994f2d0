//! Measures the stalls while rows and deletions reach a fully cached partition, and while a
//! partition is read for which the cache has too little room.

use std::rc::Rc;

use super::{super::BenchError, InProcessNode, Progress, Stall, watch, wide::Wide};

/// Rows under one range tombstone, as many as users have reported (scylladb#8626).
const COVERED_ROWS: u64 = 137_000;
const SELECTS: u32 = 100;

/// Runs one round.
pub(super) async fn measure(
    node: &Rc<InProcessNode>,
    rows: u64,
    progress: &mut Progress,
) -> Result<Vec<Stall>, BenchError> {
    let wide = Wide::create(node, "wide").await?;
    wide.cache_a_range_of_partitions().await?;
    let mut stalls = Vec::new();

    wide.write(0, 0..rows, 0, progress).await?;
    wide.flush().await?;
    wide.read_all(0, rows, 0, progress).await?;
    wide.expect_cached(rows)?;
    wide.write(0, 0..rows, 7, progress).await?;
    let what = format!("flush of {rows} rows into a cached partition");
    stalls.push(watch(what, wide.clone().flush_owned()).await?);
    wide.read_all(0, rows, 7, progress).await?;

    wide.write(1, 0..COVERED_ROWS + 10, 0, progress).await?;
    wide.flush().await?;
    wide.read_all(1, COVERED_ROWS + 10, 0, progress).await?;
    wide.delete(1, COVERED_ROWS).await?;
    let this = wide.clone();
    let what = format!("SELECT behind {COVERED_ROWS} cached rows under a range tombstone");
    let select = async move { this.expect_first(1, COVERED_ROWS, 0).await };
    stalls.push(watch(what, select).await?);

    wide.delete(0, rows - 10).await?;
    let what = format!("flush of a range tombstone over {rows} cached rows");
    stalls.push(watch(what, wide.clone().flush_owned()).await?);
    let this = wide.clone();
    let selects = async move {
        for _ in 0..SELECTS {
            this.expect_first(0, rows - 10, 7).await?;
        }
        Ok(())
    };
    stalls.push(watch(format!("{SELECTS} SELECTs behind it"), selects).await?);

    wide.write(2, 0..rows, 0, progress).await?;
    wide.flush().await?;
    wide.forget().await?;
    // The cache has room for a tenth of the partition.
    node.database().store().row_cache().set_limit(rows as usize * 10);
    let before = node.database().store().row_cache().metrics().row_evictions;
    let this = wide.clone();
    let what = format!("reading {rows} rows of a partition of which a tenth has room");
    stalls.push(watch(what, async move { this.read_pages(2, rows, 0).await }).await?);
    let evictions = node.database().store().row_cache().metrics().row_evictions - before;
    if evictions < rows / 2 {
        return Err(BenchError::Wrong(format!("no more than {evictions} rows were evicted")));
    }
    Ok(stalls)
}

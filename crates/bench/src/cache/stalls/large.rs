//! Measures the stalls while the cache forgets a very large cached partition, and while it evicts
//! the partition in favour of another one.

use std::rc::Rc;

use super::{
    super::{BenchError, CACHE_BYTES},
    InProcessNode, Progress, Stall, watch,
    wide::Wide,
};

/// Runs all rounds on the same files, and returns the stalls of each round.
pub(super) async fn measure(
    node: &Rc<InProcessNode>,
    rows: u64,
    rounds: u32,
    progress: &mut Progress,
) -> Result<Vec<Vec<Stall>>, BenchError> {
    let wide = Wide::create(node, "large").await?;
    wide.cache_a_range_of_partitions().await?;
    for partition in [0, 1] {
        wide.write(partition, 0..rows, partition, progress).await?;
        wide.flush().await?;
    }
    let mut stalls = Vec::new();
    for _ in 0..rounds {
        stalls.push(round(&wide, rows, progress).await?);
    }
    Ok(stalls)
}

async fn round(
    wide: &Rc<Wide>,
    rows: u64,
    progress: &mut Progress,
) -> Result<Vec<Stall>, BenchError> {
    let mut stalls = Vec::new();
    let database = wide.node.database();

    database.store().row_cache().set_limit(CACHE_BYTES);
    wide.read_all(0, rows, 0, progress).await?;
    wide.expect_cached(rows)?;
    let this = wide.clone();
    let what = format!("forgetting {rows} cached rows");
    stalls.push(watch(what, async move { this.forget().await }).await?);

    wide.read_all(0, rows, 0, progress).await?;
    wide.expect_cached(rows)?;
    let before = database.store().row_cache().metrics();
    // The limit leaves room for the cached rows and for nothing else.
    database.store().row_cache().set_limit(before.used_bytes as usize);
    let this = wide.clone();
    let what = format!("reading {rows} rows, for which a partition of {rows} is evicted");
    stalls.push(watch(what, async move { this.read_pages(1, rows, 1).await }).await?);
    let after = database.store().row_cache().metrics();
    let evictions = after.row_evictions - before.row_evictions;
    if evictions < rows / 10 * 9 || after.refusals - before.refusals > rows / 100 {
        return Err(BenchError::Wrong(format!("{evictions} rows were evicted: {after:?}")));
    }
    wide.forget().await?;
    Ok(stalls)
}

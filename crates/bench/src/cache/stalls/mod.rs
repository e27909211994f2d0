//! Measures how long the cache's work holds the core: rows from a flush, forgetting, deletions and
//! evictions.

mod changes;
mod large;
mod wide;

use std::rc::Rc;

use super::{BenchError, CacheArguments, InProcessNode, Progress};
use crate::stalls::{Round, Stall, watch};

/// Measures changes to a cached partition, in one round.
pub(super) async fn measure_changes(
    node: &Rc<InProcessNode>,
    arguments: &CacheArguments,
    progress: &mut Progress,
) -> Result<Round, BenchError> {
    changes::measure(node, arguments.rows, progress).await.map(Round)
}

/// Measures how a large partition is forgotten and evicted, in all rounds.
pub(super) async fn measure_large(
    node: &Rc<InProcessNode>,
    arguments: &CacheArguments,
    progress: &mut Progress,
) -> Result<Vec<Round>, BenchError> {
    let rounds = large::measure(node, arguments.large_rows, arguments.rounds, progress).await?;
    Ok(rounds.into_iter().map(Round).collect())
}

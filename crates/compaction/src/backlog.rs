//! The backlog measures how far the compactions of a shard are behind, and determines how long
//! flushes wait for them.
//!
//! When files overlap more than their strategy leaves them, compactions first get more of the core
//! ([`CompactionBacklog::lag`]). If they still cannot keep up, flushes wait, the longer the more
//! files overlap ([`flush_pause`]). Meanwhile memtables fill up, and the node acknowledges writes
//! as slowly as it flushes memtables. The pause has an upper limit, at which practically no more
//! files arrive. Where compactions cannot begin, because one has just failed or they are disabled,
//! flushes do not wait, and the number of files grows.

use std::time::Duration;

/// Number of overlapping files beyond the strategy's normal state from which on flushes wait.
const DEEP_FILES: usize = 48;
/// Pause for each further file, up to [`STEADY_FILES`] of them. Beyond, the pause doubles with each
/// [`DOUBLING_FILES`].
const PAUSE_OF_FILE: Duration = Duration::from_millis(20);
const STEADY_FILES: usize = 50;
const DOUBLING_FILES: f64 = 12.0;
/// Upper limit of the pause (arbitrary: one file a minute).
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The compaction backlog of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionBacklog {
    /// Compactions that the strategies have picked and that have not begun.
    pub pending: usize,
    /// Score of the table with the highest one: the number of overlapping files beyond the
    /// strategy's normal state.
    pub score: usize,
}

impl CompactionBacklog {
    /// Returns the lag: 0 up to half of [`DEEP_FILES`], rising to 1 where flushes begin to wait.
    pub fn lag(self) -> f64 {
        let half = DEEP_FILES as f64 / 2.0;
        ((self.score as f64 - half) / half).clamp(0.0, 1.0)
    }
}

/// Returns how long a flush waits at this score.
pub fn flush_pause(score: usize) -> Duration {
    let more = score.saturating_sub(DEEP_FILES);
    let steady = PAUSE_OF_FILE * u32::try_from(more.min(STEADY_FILES)).unwrap_or(0);
    let doublings = more.saturating_sub(STEADY_FILES) as f64 / DOUBLING_FILES;
    Duration::try_from_secs_f64(steady.as_secs_f64() * doublings.exp2())
        .map_or(MAX_PAUSE, |pause| pause.min(MAX_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_wait_the_longer_the_more_files_lie_over_each_other() {
        assert_eq!(flush_pause(48), Duration::ZERO);
        assert_eq!(flush_pause(58), Duration::from_millis(200));
        assert_eq!(flush_pause(98), Duration::from_secs(1));
        assert_eq!(flush_pause(98 + 36), Duration::from_secs(8));
        assert_eq!(flush_pause(98 + 72), MAX_PAUSE);
        assert_eq!(flush_pause(usize::MAX), MAX_PAUSE);
        let pauses: Vec<Duration> = (0..300).map(flush_pause).collect();
        assert!(pauses.is_sorted());
    }
}

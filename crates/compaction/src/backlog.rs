//! The backlog measures how far the compactions of a shard are behind, and determines how long
//! flushes wait for them.
//!
//! While other tasks are busy, all compactions of a shard together get a quarter of the core. They
//! get more as they fall behind: an additional eighth for each pending compaction, or up to an
//! additional half in proportion to the lag ([`CompactionBacklog::lag`]), whichever is more. The
//! maximum is three quarters. While a flush is under way, the maximum is three eighths without lag
//! and rises with the lag to three quarters: the flush makes room for writes, and needs the core
//! for that. If the compactions still cannot keep up, flushes wait, the longer the more files
//! overlap ([`flush_pause`]). Meanwhile memtables fill up, and the node acknowledges writes as
//! slowly as it flushes memtables. The pause has an upper limit, at which practically no more files
//! arrive. Where compactions cannot begin, because one has just failed or they are disabled,
//! flushes do not wait, and the number of files grows.

use std::time::Duration;

/// Number of overlapping files beyond the strategy's normal state from which on flushes wait.
const DEEP_FILES: usize = 48;
/// Pause for each further file, up to [`STEADY_FILES`] of them. Beyond, the pause doubles with each
/// [`DOUBLING_FILES`] more.
const PAUSE_OF_FILE: Duration = Duration::from_millis(20);
const STEADY_FILES: usize = 50;
const DOUBLING_FILES: f64 = 12.0;
/// Upper limit of the pause (arbitrary: one file a minute).
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Share of the core that compactions get while they keep up.
const MIN_SHARE: f64 = 0.25;
/// Additional share for each pending compaction.
const SHARE_OF_WAITING: f64 = 0.125;
/// Additional share at full lag.
const SHARE_OF_DEPTH: f64 = 0.5;
/// Maximum share.
const MAX_SHARE: f64 = 0.75;
/// Maximum share without lag while a flush is under way.
const MAX_SHARE_BESIDE_FLUSH: f64 = 0.375;

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
    /// Returns the share of the core that all compactions of a shard get beside busy statements.
    pub fn share(self, is_flushing: bool) -> f64 {
        let of_waiting = SHARE_OF_WAITING * self.pending as f64;
        let wanted = MIN_SHARE + of_waiting.max(SHARE_OF_DEPTH * self.lag());
        let more = (MAX_SHARE - MAX_SHARE_BESIDE_FLUSH) * self.lag();
        wanted.min(if is_flushing { MAX_SHARE_BESIDE_FLUSH + more } else { MAX_SHARE })
    }

    /// Returns the lag: 0 up to half of `DEEP_FILES`, rising to 1 where flushes begin to wait.
    pub fn lag(self) -> f64 {
        let half = DEEP_FILES as f64 / 2.0;
        ((self.score as f64 - half) / half).clamp(0.0, 1.0)
    }
}

/// Returns the time for which a flush waits at this score.
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
    fn the_share_grows_with_pending_compactions_and_score() {
        let share = |pending, score| CompactionBacklog { pending, score }.share(false);
        assert_eq!(share(0, 0), 0.25);
        assert_eq!(share(2, 24), 0.5);
        assert_eq!(share(1, 36), 0.5);
        assert_eq!(share(1, 48), MAX_SHARE);
        assert_eq!(share(1, 1000), MAX_SHARE);
        let beside_flush = |pending, score| CompactionBacklog { pending, score }.share(true);
        assert_eq!(beside_flush(0, 0), 0.25);
        assert_eq!(beside_flush(9, 0), MAX_SHARE_BESIDE_FLUSH);
        assert_eq!(beside_flush(9, 48), MAX_SHARE);
    }

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

//! How far compactions of a shard are behind, and what flushes wait for that.
//!
//! As files come to lie over each other, beyond what a strategy leaves there, compactions first get more of the core ([`CompactionBacklog::lag`]); if they
//! still cannot keep up flushes wait, the longer the deeper they lie ([`flush_pause`]). Memtables fill up meanwhile, and acknowledgements leave
//! as slowly as they are flushed. The pause has a bound which is so far off that more files than that do not come. Where
//! compactions cannot begin, since one has just failed or they are switched off, nothing waits for them, and files become more.

use std::time::Duration;

/// Files that may hold one partition, beyond what strategies leave when they keep up: from here on flushes wait.
const DEEP_FILES: usize = 48;
/// For each file more, up to [`STEADY_FILES`] of them; then it doubles with each [`DOUBLING_FILES`].
const PAUSE_OF_FILE: Duration = Duration::from_millis(20);
const STEADY_FILES: usize = 50;
const DOUBLING_FILES: f64 = 12.0;
/// An arbitrary bound: it is a file a minute then.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What waits on a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactionBacklog {
    /// Compactions that the strategies want and that have not begun.
    pub(crate) pending: usize,
    /// Files that may hold one partition beyond what the strategy leaves there, in the table where they are the most.
    pub(crate) surplus: usize,
}

impl CompactionBacklog {
    /// From 0, as long as files lie half as deep as flushes wait for, to 1, from where they do.
    pub(crate) fn lag(self) -> f64 {
        let half = DEEP_FILES as f64 / 2.0;
        ((self.surplus as f64 - half) / half).clamp(0.0, 1.0)
    }
}

/// How long a flush waits beside so many files over each other.
pub(crate) fn flush_pause(surplus: usize) -> Duration {
    let more = surplus.saturating_sub(DEEP_FILES);
    let steady = PAUSE_OF_FILE * u32::try_from(more.min(STEADY_FILES)).unwrap_or(0);
    let doublings = more.saturating_sub(STEADY_FILES) as f64 / DOUBLING_FILES;
    Duration::try_from_secs_f64(steady.as_secs_f64() * doublings.exp2())
        .map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE))
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
        assert_eq!(flush_pause(98 + 72), LONGEST_PAUSE);
        assert_eq!(flush_pause(usize::MAX), LONGEST_PAUSE);
        let pauses: Vec<Duration> = (0..300).map(flush_pause).collect();
        assert!(pauses.is_sorted());
    }
}

//! Bounds the memory of plans.
//!
//! The plan of a modification takes up to some 75 times as much memory as its text (estimated), and
//! a batch has many modifications. So texts wait before they are planned, until the plans of other
//! texts are dropped.

use espalier_runtime::sync::{Permit, Semaphore};

/// Maximum length of a short text, in bytes. Arbitrary; most texts of one statement are shorter.
const MAX_SHORT_TEXT: usize = 4 * 1024;
/// Maximum length of all short texts that have plans, in bytes. Arbitrary: their plans take some
/// 75 MiB.
const MAX_SHORT_TEXTS: usize = 1024 * 1024;
/// Maximum length of all other texts that have plans, in bytes. A text longer than this waits until
/// no other long text has a plan. Arbitrary, as above.
const MAX_LONG_TEXTS: usize = 2 * 1024 * 1024;

/// The memory of a shard's plans of texts that modify rows. Plans of queries have a limit for each
/// connection, because they may wait for their client.
pub(crate) struct PlanMemory {
    /// Separate, so that a few long texts do not delay all others.
    short: Semaphore,
    long: Semaphore,
}

impl Default for PlanMemory {
    fn default() -> Self {
        Self { short: Semaphore::new(MAX_SHORT_TEXTS), long: Semaphore::new(MAX_LONG_TEXTS) }
    }
}

impl PlanMemory {
    /// Waits until texts of this length may be planned. The caller keeps the permit as long as the
    /// plans.
    pub async fn reserve(&self, text_bytes: usize) -> Permit {
        if text_bytes <= MAX_SHORT_TEXT {
            self.short.acquire(text_bytes).await
        } else {
            self.long.acquire(text_bytes.min(MAX_LONG_TEXTS)).await
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::block_on;
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn long_texts_wait_for_each_other_and_not_for_short_ones() {
        block_on(async {
            let plans = PlanMemory::default();
            let now = |bytes| plans.reserve(bytes).now_or_never();
            let half = now(MAX_LONG_TEXTS / 2).unwrap();
            assert!(now(16 << 20).is_none(), "the longest text waits for others");
            let other = now(MAX_LONG_TEXTS / 2).unwrap();
            assert!(now(MAX_SHORT_TEXT + 1).is_none());
            assert!(now(MAX_SHORT_TEXT).is_some());
            drop((half, other));
            let alone = now(16 << 20).unwrap();
            assert!(now(MAX_SHORT_TEXT + 1).is_none());
            drop(alone);
            assert!(now(MAX_SHORT_TEXT + 1).is_some());
        });
    }
}

//! Work in the background that leaves the core to others: for a moment after each slice, and while these are busy for as long as it takes
//! to keep to a share.

use std::time::Duration;

use espalier_runtime::time::{self, Instant};

/// After so much work the others have their turn: less than the budget of a task, for this is nobody's request.
const SLICE: Duration = Duration::from_micros(200);
/// What is longer than this between two looks was spent waiting, for the disk or for others who had their turn: an arbitrary bound, several times what
/// is done between two looks.
const LONGEST_WORK: Duration = Duration::from_millis(1);
/// Of a slice: if others took less than that when they had their turn, there was nothing to do.
const IDLE_PART: u32 = 4;

/// Keeps one task to a share of the core.
pub(crate) struct CoreShare {
    slice_began: Instant,
}

impl CoreShare {
    pub(crate) fn new() -> Self {
        Self { slice_began: Instant::now() }
    }

    /// How long it has worked, if its slice is over.
    #[inline]
    pub(crate) fn worked(&self) -> Option<Duration> {
        let worked = self.slice_began.elapsed().min(LONGEST_WORK);
        (worked >= SLICE).then_some(worked)
    }

    /// To be called when it may go on that has worked for so long, and left the core to others at some moment: waits until it has had no more than a
    /// share, unless nobody else wants the core.
    pub(crate) async fn rest(&mut self, worked: Duration, left: Instant, share: f64) {
        let others = left.elapsed();
        let due = worked.mul_f64(1.0 / share - 1.0);
        if others * IDLE_PART > worked && others < due {
            time::sleep(due - others).await;
        }
        self.begin_slice();
    }

    /// It waited for something else.
    pub(crate) fn begin_slice(&mut self) {
        self.slice_began = Instant::now();
    }
}

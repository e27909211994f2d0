//! Keeps a flush to a part of the core while memory lasts.
//!
//! What a flush takes at once, writes lack for that long: with all that it can get, it is done in a third of the time in which the next memtable fills up, and
//! in that third two thirds as much is written as in the others. With a quarter of the core at most it takes most of that time, and writes go on evenly. The row cache's part, once a file is written, is kept to the same. It takes all
//! that it can get where nobody else wants the core, where somebody waits for it, and as soon as memory or log could run out.

use std::time::Duration;

use espalier_runtime::{maybe_yield, time::Instant, yield_now};

use crate::{
    Database,
    background_share::{BackgroundShare, Slice},
};

/// Rows and partitions between two looks at the clock.
const ITEMS_BETWEEN_LOOKS: u32 = 16;
/// Of the core.
const SHARE: f64 = 0.25;

pub(super) struct FlushPace<'a> {
    database: &'a Database,
    slices: BackgroundShare,
    items: u32,
}

impl<'a> FlushPace<'a> {
    pub(super) fn new(database: &'a Database) -> Self {
        Self { database, slices: BackgroundShare::new(), items: 0 }
    }

    /// To be called for each row and partition: gives way if it is time for that.
    #[inline]
    pub(super) async fn look(&mut self) {
        self.items = self.items.wrapping_add(1);
        match self.items.is_multiple_of(ITEMS_BETWEEN_LOOKS) {
            true => self.keep().await,
            false => maybe_yield().await,
        }
    }

    async fn keep(&mut self) {
        if !self.database.can_flush_slowly() {
            maybe_yield().await;
            self.slices.begin_slice();
        } else if let Some(worked) = self.slices.worked(Duration::ZERO) {
            let left = Instant::now();
            yield_now().await;
            // What it waits for the disk is next to nothing: pieces are written behind it.
            self.slices.rest(Slice { worked, waited: Duration::ZERO }, left, SHARE, || false).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, file::FileSystem};

    use crate::test_database::open;

    #[test]
    fn a_flush_takes_its_time_while_memory_lasts() {
        block_on(async {
            let database = open(FileSystem::simulated(1)).await;
            assert!(database.can_flush_slowly());
            let awaiting = database.await_flush();
            assert!(!database.can_flush_slowly());
            drop(awaiting);
            let room = database.budget().room_bytes();
            let first = database.flush_estimate().begin(room);
            assert!(database.can_flush_slowly());
            let second = database.flush_estimate().begin(room / 2);
            assert!(!database.can_flush_slowly());
            drop(second);
            assert!(database.can_flush_slowly());
            database.budget().grow(room / 2);
            assert!(!database.can_flush_slowly());
            first.advance_to(0.5);
            assert!(database.can_flush_slowly());
            database.budget().shrink(room / 2);
        });
    }
}

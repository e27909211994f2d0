//! Shares the disk between the scheduling groups: reads of other groups begin later while
//! statements read.
//!
//! If a read of another group waited while a read of a statement did, the next read of the group
//! begins later, so that the waits of the group take no more than its share of the time. Other
//! operations of a group count ([`wait_for_disk`]), but are not delayed.

use std::{cell::Cell, future::Future, marker::PhantomData, time::Duration};

use crate::{
    preempt,
    scheduling::{GROUPS, STATEMENT_SHARES, SchedulingGroup},
    time::{self, Instant},
};

/// The maximum delay of a group's next read. A disk that stalls for a minute must not stop a
/// compaction for several.
const MAX_DELAY: Duration = Duration::from_secs(1);

thread_local! {
    /// The number of running reads of statements on this thread. [`BEGUN`] is the number of all
    /// such reads that have begun.
    static UNDER_WAY: Cell<u64> = const { Cell::new(0) };
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// The time before which each group begins no read.
    static NOT_BEFORE: [Cell<Option<Instant>>; GROUPS] =
        const { [const { Cell::new(None) }; GROUPS] };
}

/// A wait of a group other than the statements.
struct Wait {
    group: SchedulingGroup,
    since: Instant,
    begun: u64,
}

impl Wait {
    fn begin(group: SchedulingGroup) -> Self {
        Self { group, since: Instant::now(), begun: BEGUN.get() - UNDER_WAY.get() }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if BEGUN.get() > self.begun {
            let (now, group) = (Instant::now(), self.group as usize);
            let shares = preempt::with_accounts(|accounts| accounts.shares(group));
            let waited = now.since(self.since).min(MAX_DELAY);
            let delay = waited.mul_f64(f64::from(STATEMENT_SHARES) / f64::from(shares));
            NOT_BEFORE.with(|not_before| {
                let from = not_before[group].get().map_or(now, |not_before| not_before.max(now));
                not_before[group].set(Some((from + delay).min(now + MAX_DELAY)));
            });
        }
    }
}

/// A read of a statement, bound to its thread.
struct Read(PhantomData<*const ()>);

impl Read {
    fn begin() -> Self {
        UNDER_WAY.set(UNDER_WAY.get() + 1);
        BEGUN.set(BEGUN.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get() - 1);
    }
}

/// Waits until the group may read.
async fn wait_for_share(group: SchedulingGroup) {
    let not_before = |to: Option<Instant>| {
        NOT_BEFORE.with(|not_before| {
            let before = not_before[group as usize].get();
            not_before[group as usize].set(to);
            before
        })
    };
    if let Some(at) = not_before(None)
        && at > Instant::now()
    {
        not_before(Some(at));
        time::sleep_until(at).await;
    }
}

/// Runs a read of a file for the group of the running task.
pub(super) async fn read<T>(read: impl Future<Output = T>) -> T {
    match SchedulingGroup::current() {
        SchedulingGroup::Statements => {
            let _read = Read::begin();
            read.await
        }
        group => {
            wait_for_share(group).await;
            let _wait = Wait::begin(group);
            read.await
        }
    }
}

/// Runs an operation of the disk that is no read. Its wait counts against the share of the running
/// task's group, unless that group is the statements.
pub async fn wait_for_disk<T>(operation: impl Future<Output = T>) -> T {
    let group = SchedulingGroup::current();
    let _wait = (group != SchedulingGroup::Statements).then(|| Wait::begin(group));
    operation.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        block_on, spawn_local,
        time::{ManualClock, sleep},
    };

    const MS: Duration = Duration::from_millis(1);

    /// Returns the time that ten reads of 10 ms take in a compaction, whose share is a quarter.
    async fn time_of_ten_reads() -> Duration {
        let began = Instant::now();
        let reads = SchedulingGroup::Compaction.spawn(async {
            for _ in 0..10 {
                read(sleep(10 * MS)).await;
            }
        });
        reads.await;
        began.elapsed()
    }

    #[test]
    fn reads_of_a_group_leave_the_disk_to_statements() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            assert_eq!(time_of_ten_reads().await, 100 * MS, "no other read waits");
            let statements = spawn_local(async {
                loop {
                    read(sleep(3 * MS)).await;
                }
            });
            sleep(MS).await;
            let beside = time_of_ten_reads().await;
            assert!((360 * MS..400 * MS).contains(&beside), "{beside:?}");
            assert!(statements.cancel().await.is_none());
            assert_eq!(UNDER_WAY.get(), 0);
            sleep(MAX_DELAY).await;
            assert_eq!(time_of_ten_reads().await, 100 * MS);
        });
    }

    #[test]
    fn a_disk_that_stands_still_makes_no_delay_of_minutes() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let statement = spawn_local(read(sleep(100_000 * MS)));
            let group = SchedulingGroup::Compaction;
            group.spawn(read(sleep(100_000 * MS))).await;
            let began = Instant::now();
            group.spawn(read(async {})).await;
            assert!((MAX_DELAY..MAX_DELAY + MS).contains(&began.elapsed()));
            statement.await;
        });
    }
}

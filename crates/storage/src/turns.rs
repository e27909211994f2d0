//! Turns: statements that read rows before they write them exclude each other on these rows.
//!
//! 1. The statement lists its rows in [`TurnRows`], on the shard that owns the partition.
//! 2. [`Turns::take`] waits until no other turn holds one of them, in the order of arrival.
//! 3. The statement reads, decides and writes its memtables, and drops the [`Turn`]. It then waits
//!    for the commit log without the turn.
//!
//! Writes that read nothing take no turn: they may come between the read and the write of a turn,
//! as in Cassandra.
//!
//! **Keys.** The key of a row is a 64-bit hash of the table's id and the row's path in the
//! memtable. Equal clusterings have equal paths. Two rows with the same hash exclude each other
//! needlessly, which costs only time. The hash has a random seed, so that clients cannot choose
//! such rows. A turn on a row also shares the key of the partition, so that a turn on all rows of a
//! partition excludes it. If the table has views, the turn also shares the key of the table, so
//! that a truncation excludes it.
//!
//! **Deadlock.** A turn takes its keys in ascending order of hashes, and it takes all of them
//! before it waits for anything else. The order is the same for all turns of the shard. The number
//! of calls to other shards that wait for turns has a limit, so that the holders can call, too
//! (`node/turn_calls.rs`).
//!
//! **Memory.** One semaphore for each key that a turn holds or waits for, and an entry in its queue
//! for each turn that waits.

use std::{cell::RefCell, hash::BuildHasher, rc::Rc, sync::LazyLock};

use espalier_mutation::{
    Clustering, DecoratedKeyRef, path,
    schema::{TableId, TableMetadata},
};
use espalier_runtime::{
    maybe_yield, spawn_local,
    sync::{Permit, Semaphore},
    trace, trace_event,
};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{StorageError, TurnDeadline};

/// Units of one key's semaphore. An exclusive turn takes all units, a shared turn takes one.
const ALL_UNITS: usize = u32::MAX as usize;

/// Keys that a turn releases when it is dropped; a turn with more releases them in a task, so that
/// the drop does not block the shard (arbitrary).
const MAX_KEYS_AT_ONCE: usize = 1_024;

/// The rows of a turn. They are of one partition, or of several after [`TurnRows::join`].
#[derive(Clone, Debug)]
pub struct TurnRows {
    /// Table, then the path of the partition.
    partition: Vec<u8>,
    /// Hashes of keys with the units that the turn takes.
    keys: SmallVec<[(u64, usize); 4]>,
}

impl TurnRows {
    /// Creates a list without rows.
    pub fn new(table: &TableMetadata, key: DecoratedKeyRef<'_>) -> Self {
        let mut partition = table.id.0.as_bytes().to_vec();
        path::put_partition(key, &mut partition);
        let mut keys = SmallVec::from_elem((hash(&partition), 1), 1);
        if table.has_views() {
            keys.push((hash(table.id.0.as_bytes()), 1));
        }
        Self { partition, keys }
    }

    /// Creates the list of all rows of a table with materialized views.
    pub(crate) fn of_table(table: TableId) -> Self {
        let partition = table.0.as_bytes().to_vec();
        let keys = SmallVec::from_elem((hash(&partition), ALL_UNITS), 1);
        Self { partition, keys }
    }

    /// Adds a row.
    pub fn add_row(&mut self, table: &TableMetadata, clustering: &Clustering) {
        self.add_row_at(table, &clustering.values);
    }

    /// Adds the row with these clustering values.
    pub(crate) fn add_row_at<V: AsRef<[u8]>>(
        &mut self,
        table: &TableMetadata,
        clustering: &[Option<V>],
    ) {
        self.add(ALL_UNITS, |path| path::put_row(table.comparator(), clustering, path));
    }

    /// Adds the static row.
    pub fn add_static_row(&mut self) {
        self.add(ALL_UNITS, |path| path.push(path::STATIC));
    }

    /// Adds all rows of the partition, for a change of a range of them.
    pub fn add_all_rows(&mut self) {
        self.keys.push((hash(&self.partition), ALL_UNITS));
    }

    /// Adds a row that the statement only reads: other turns may read it at the same time.
    pub fn share_row(&mut self, table: &TableMetadata, clustering: &Clustering) {
        self.add(1, |path| path::put_row(table.comparator(), &clustering.values, path));
    }

    /// Adds the static row, which the statement only reads.
    pub fn share_static_row(&mut self) {
        self.add(1, |path| path.push(path::STATIC));
    }

    /// Splits the list into one list for each key. A statement that only waits until turns have
    /// ended takes the lists one after the other, so that it never holds one turn while it waits
    /// for another.
    pub fn into_single_keys(self) -> impl Iterator<Item = TurnRows> {
        self.into_keys().into_iter().map(TurnRows::of_key)
    }

    fn of_key(key: (u64, usize)) -> Self {
        Self { partition: Vec::new(), keys: SmallVec::from_elem(key, 1) }
    }

    /// Adds the rows of another partition of the same shard.
    pub fn join(&mut self, other: TurnRows) {
        self.keys.extend(other.keys);
    }

    fn add(&mut self, units: usize, put: impl FnOnce(&mut Vec<u8>)) {
        let partition_bytes = self.partition.len();
        put(&mut self.partition);
        self.keys.push((hash(&self.partition), units));
        self.partition.truncate(partition_bytes);
    }

    /// Returns the keys in ascending order, each once, with the greater of its units.
    fn into_keys(self) -> SmallVec<[(u64, usize); 4]> {
        let mut keys = self.keys;
        keys.sort_unstable();
        keys.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 = earlier.1.max(later.1);
            }
            is_same
        });
        keys
    }
}

/// The seed of all hashes of the process, because a shard hashes rows for turns of other shards.
static HASH_SEED: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);

fn hash(path: &[u8]) -> u64 {
    HASH_SEED.hash_one(path)
}

/// The turns of a shard. A clone is another handle.
#[derive(Clone, Default)]
pub struct Turns {
    keys: Rc<RefCell<HashMap<u64, Semaphore, foldhash::fast::FixedState>>>,
}

/// A turn under way; dropping it lets the next one begin.
#[must_use = "a dropped turn has ended"]
pub struct Turn {
    turns: Turns,
    /// The held keys. The drop releases the permit of a key before it checks whether the key is
    /// still in use.
    held: SmallVec<[(u64, Option<Permit>); 4]>,
}

impl Turns {
    /// Waits for a turn on rows of a partition that this shard owns. If the future is dropped, the
    /// turn leaves the queues.
    pub async fn take(&self, rows: TurnRows) -> Turn {
        let mut turn = Turn { turns: self.clone(), held: SmallVec::new() };
        for (key, units) in rows.into_keys() {
            maybe_yield().await;
            let semaphore = {
                let mut keys = self.keys.borrow_mut();
                keys.entry(key).or_insert_with(|| Semaphore::new(ALL_UNITS)).clone()
            };
            // The key is in the list during the wait, so that a turn whose wait is given up also
            // removes the semaphore if no other turn uses it.
            turn.held.push((key, None));
            if trace::is_on() && semaphore.available() < units {
                trace_event!("Waiting for the turn of another statement on the same row");
            }
            let permit = semaphore.acquire(units).await;
            if let Some(last) = turn.held.last_mut() {
                last.1 = Some(permit);
            }
        }
        turn
    }

    /// Waits for a turn on rows of a partition that this shard owns.
    ///
    /// # Errors
    /// [`StorageError::TurnTimedOut`] at the deadline.
    pub async fn take_until(
        &self,
        rows: TurnRows,
        deadline: TurnDeadline,
    ) -> Result<Turn, StorageError> {
        deadline.limit(self.take(rows), "Other statements held its rows").await
    }

    /// Returns whether a statement that does not yield needs no turn of its own on the row with
    /// these clustering values, because no other statement of this shard has a turn on it.
    #[inline]
    pub fn is_row_free(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<&[u8]>],
    ) -> bool {
        self.is_empty() || {
            let mut rows = TurnRows::new(table, key);
            rows.add_row_at(table, clustering);
            self.are_free(rows)
        }
    }

    /// Waits until all present turns, held or awaited, have ended. The caller holds no turn.
    pub(crate) async fn wait_for_all(&self) {
        let keys: Vec<u64> = self.keys.borrow().keys().copied().collect();
        for key in keys {
            // One key at a time, as in `into_single_keys`.
            drop(self.take(TurnRows::of_key((key, ALL_UNITS))).await);
        }
    }

    /// Returns whether a turn on `rows` would begin at once.
    pub(crate) fn are_free(&self, rows: TurnRows) -> bool {
        let keys = self.keys.borrow();
        rows.keys.iter().all(|(key, units)| {
            let is_free =
                |semaphore: &Semaphore| semaphore.available() >= *units && !semaphore.has_waiters();
            keys.get(key).is_none_or(is_free)
        })
    }

    /// Ends the hold on a key. Without a permit, the turn has only waited for it.
    fn release(&self, key: u64, permit: Option<Permit>) {
        drop(permit);
        let mut keys = self.keys.borrow_mut();
        let is_unused = |semaphore: &mut Semaphore| {
            semaphore.available() == ALL_UNITS && !semaphore.has_waiters()
        };
        if keys.get_mut(&key).is_some_and(is_unused) {
            keys.remove(&key);
        }
    }

    /// Returns whether no statement holds a turn or waits for one.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.borrow().is_empty()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.held.len() <= MAX_KEYS_AT_ONCE {
            let held = self.held.drain(..);
            held.for_each(|(key, permit)| self.turns.release(key, permit));
            return;
        }
        let (turns, held) = (self.turns.clone(), std::mem::take(&mut self.held));
        let release = async move {
            for (key, permit) in held {
                turns.release(key, permit);
                maybe_yield().await;
            }
        };
        spawn_local(release).detach();
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, time::Duration};

    use espalier_runtime::{block_on, random, time, yield_now};

    use super::*;

    /// Lets spawned tasks take their turns or wait for them. A short sleep may end before a task
    /// has run, if the thread was off its core meanwhile.
    async fn let_tasks_run() {
        for _ in 0..100 {
            yield_now().await;
        }
    }

    /// Makes a list of rows by their numbers. `shared` rows are taken with one unit.
    fn rows(exclusive: &[u64], shared: &[u64]) -> TurnRows {
        let exclusive = exclusive.iter().map(|key| (*key, ALL_UNITS));
        let shared = shared.iter().map(|key| (*key, 1));
        TurnRows { partition: Vec::new(), keys: exclusive.chain(shared).collect() }
    }

    #[test]
    fn turns_on_one_row_follow_one_another_and_others_do_not_wait() {
        block_on(async {
            let turns = Turns::default();
            let first = turns.take(rows(&[1], &[0])).await;
            let other = turns.take(rows(&[2], &[0])).await;
            let next = {
                let turns = turns.clone();
                spawn_local(async move { turns.take(rows(&[1], &[0])).await })
            };
            let_tasks_run().await;
            assert!(!next.is_finished());
            drop(first);
            drop(next.await);
            drop(other);
            assert!(turns.keys.borrow().is_empty());
        });
    }

    #[test]
    fn a_turn_on_all_rows_excludes_each_row() {
        block_on(async {
            let turns = Turns::default();
            let row = turns.take(rows(&[1], &[0])).await;
            let all = {
                let turns = turns.clone();
                spawn_local(async move { turns.take(rows(&[0], &[0])).await })
            };
            let_tasks_run().await;
            assert!(!all.is_finished());
            drop(row);
            drop(all.await);
            assert!(turns.keys.borrow().is_empty());
        });
    }

    #[test]
    fn rows_are_free_unless_a_turn_on_them_is_held_or_awaited() {
        block_on(async {
            let turns = Turns::default();
            assert!(turns.are_free(rows(&[1], &[0])));
            let row = turns.take(rows(&[1], &[0])).await;
            assert!(!turns.are_free(rows(&[1], &[0])));
            assert!(turns.are_free(rows(&[2], &[0])));
            let all = {
                let turns = turns.clone();
                spawn_local(async move { turns.take(rows(&[0], &[])).await })
            };
            let_tasks_run().await;
            // The turn on all rows came first.
            assert!(!turns.are_free(rows(&[2], &[0])));
            drop(row);
            drop(all.await);
            assert!(turns.are_free(rows(&[1], &[0])));
        });
    }

    #[test]
    fn the_end_of_all_turns_includes_awaited_ones_and_not_later_ones() {
        block_on(async {
            let turns = Turns::default();
            let first = turns.take(rows(&[1], &[0])).await;
            let next = {
                let turns = turns.clone();
                spawn_local(async move { turns.take(rows(&[1, 2], &[0])).await })
            };
            let_tasks_run().await;
            let all = {
                let turns = turns.clone();
                spawn_local(async move { turns.wait_for_all().await })
            };
            let_tasks_run().await;
            let later = turns.take(rows(&[3], &[])).await;
            drop(first);
            let next = next.await;
            let_tasks_run().await;
            assert!(!all.is_finished());
            drop(next);
            all.await;
            drop(later);
            assert!(turns.keys.borrow().is_empty());
        });
    }

    #[test]
    fn a_turn_that_is_given_up_leaves_nothing_behind() {
        block_on(async {
            let turns = Turns::default();
            let held = turns.take(rows(&[2], &[])).await;
            let waiting = turns.take(rows(&[1, 2, 3], &[]));
            let given_up = time::timeout(Duration::from_millis(1), waiting).await;
            assert!(given_up.is_err());
            // Row 1 was held, row 2 awaited.
            drop(turns.take(rows(&[1], &[])).await);
            drop(held);
            assert!(turns.keys.borrow().is_empty());
        });
    }

    #[test]
    fn a_turn_with_many_keys_ends_in_a_task() {
        block_on(async {
            let turns = Turns::default();
            let many: Vec<u64> = (0..5_000).collect();
            drop(turns.take(rows(&many, &[])).await);
            assert!(!turns.keys.borrow().is_empty());
            drop(turns.take(rows(&many, &[])).await);
            drop(turns.take(rows(&[4_999], &[])).await);
            let deadline = time::Instant::now() + Duration::from_secs(60);
            while !turns.keys.borrow().is_empty() {
                assert!(time::Instant::now() < deadline, "a turn that ended holds keys");
                yield_now().await;
            }
        });
    }

    #[test]
    fn random_turns_exclude_each_other_and_end() {
        block_on(async {
            let (turns, held) = (Turns::default(), Rc::new(RefCell::new([0i64; 6])));
            let done = Rc::new(Cell::new(0));
            let tasks: Vec<_> = (0..200)
                .map(|_| {
                    let (turns, held, done) = (turns.clone(), held.clone(), done.clone());
                    spawn_local(async move {
                        let number = |below| random::below(below);
                        let exclusive: Vec<u64> = (0..=number(3)).map(|_| number(6)).collect();
                        let shared: Vec<u64> = (0..number(3)).map(|_| number(6)).collect();
                        let turn = turns.take(rows(&exclusive, &shared)).await;
                        // A shared holder counts 1, an exclusive one -1.
                        let mut mine = [0i64; 6];
                        shared.iter().for_each(|key| mine[*key as usize] = 1);
                        exclusive.iter().for_each(|key| mine[*key as usize] = -1);
                        for (key, count) in mine.iter().enumerate() {
                            let now = held.borrow()[key];
                            assert!(*count == 0 || now == 0 || (*count == 1 && now > 0));
                            held.borrow_mut()[key] += count;
                        }
                        time::sleep(Duration::from_micros(number(50))).await;
                        for (key, count) in mine.iter().enumerate() {
                            held.borrow_mut()[key] -= count;
                        }
                        drop(turn);
                        done.set(done.get() + 1);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            assert_eq!(done.get(), 200);
            assert!(turns.keys.borrow().is_empty());
        });
    }
}

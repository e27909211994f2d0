//! The free units of an arena: a list of returned units, linked through the units themselves, and
//! the units never used. Runs of units that were taken together are returned together, to a list
//! for each of the [`RUN_LENGTHS`]. A free run is broken up for a shorter run, or for single units
//! before the arena grows.
//!
//! Memory bound: nothing besides the arena.

#![allow(unsafe_code)]

use super::arena::Arena;

/// If more units than this are free, no pairs are taken, so that the arena does not grow for them.
const FREE_BEFORE_PAIRS: u32 = 64;

/// The lengths of runs. The index of a run's first unit is a multiple of its length, and so is that
/// of a chunk's first unit, so a run lies in one chunk.
const RUN_LENGTHS: [u32; 3] = [4, 8, 32];

/// Free runs of one length.
#[derive(Clone, Copy)]
struct Runs {
    /// The run that was returned last. Each free run begins with the index of the next one.
    first: u32,
    count: u32,
}

/// The free units of one arena. Only its writer owns it.
pub(crate) struct Pool {
    /// The unit that was returned last. Each free unit begins with the index of the next one.
    first_free: u32,
    free: u32,
    /// The free runs of each of the [`RUN_LENGTHS`].
    runs: [Runs; RUN_LENGTHS.len()],
    /// Units in free runs.
    in_runs: u32,
    /// The first unit never used.
    next: u32,
    capacity: u32,
    /// All units have an index below this.
    limit: u32,
    /// Units at the beginning that are never given out.
    reserved: u32,
}

impl Pool {
    /// Creates the free list of an arena of which the writer uses at most `limit` units, besides
    /// the first `reserved` ones, which it does not use at all.
    pub(crate) fn new(reserved: u32, limit: u32) -> Pool {
        Pool {
            first_free: u32::MAX,
            free: 0,
            runs: [Runs { first: u32::MAX, count: 0 }; RUN_LENGTHS.len()],
            in_runs: 0,
            next: reserved,
            capacity: 0,
            limit: limit.saturating_add(reserved).min(1 << super::pointer::INDEX_BITS),
            reserved,
        }
    }

    /// Makes all units free, as if none had been used.
    pub(crate) fn clear(&mut self) {
        let Pool { capacity, limit, reserved, .. } = *self;
        *self = Pool { capacity, limit, ..Pool::new(reserved, 0) };
    }

    /// Returns the number of units that can be taken before the arena must grow.
    fn ready(&self) -> u32 {
        self.free + self.capacity.min(self.limit).saturating_sub(self.next)
    }

    /// Makes sure that `count` units can be taken one by one. Returns false if the limit or the
    /// memory does not allow it.
    #[inline]
    pub(crate) fn reserve<T>(&mut self, arena: &Arena<T>, count: u32) -> bool {
        self.ready() >= count || self.grow(arena, count)
    }

    #[cold]
    fn grow<T>(&mut self, arena: &Arena<T>, count: u32) -> bool {
        while self.ready() < count {
            let broken =
                (0..RUN_LENGTHS.len()).find_map(|size| Some((size, self.pop_run(arena, size)?)));
            if let Some((size, run)) = broken {
                (run..run + RUN_LENGTHS[size]).rev().for_each(|unit| self.give(arena, unit));
                continue;
            }
            if self.capacity >= self.limit || !self.add_chunk(arena) {
                return false;
            }
        }
        true
    }

    fn add_chunk<T>(&mut self, arena: &Arena<T>) -> bool {
        // SAFETY: the pool belongs to the writer, and keeps the last result as its capacity.
        let capacity = unsafe { arena.grow(self.capacity) };
        self.capacity = capacity.unwrap_or(self.capacity);
        capacity.is_some()
    }

    /// Takes a unit, of undefined content. [`Pool::reserve`] must have ensured that there is one.
    #[inline]
    pub(crate) fn take<T>(&mut self, arena: &Arena<T>) -> u32 {
        if self.free != 0 {
            let index = self.first_free;
            // SAFETY: a free unit begins with the index of the next one, see `give`.
            self.first_free = unsafe { arena.unit(index).cast::<u32>().read() };
            self.free -= 1;
            return index;
        }
        assert!(self.next < self.capacity, "units are reserved before they are taken");
        self.next += 1;
        self.next - 1
    }

    /// Takes two units side by side, the first of even index, if they exist and few other units are
    /// free.
    #[inline]
    pub(crate) fn take_pair<T>(&mut self, arena: &Arena<T>) -> Option<(u32, u32)> {
        let skipped = self.next & 1;
        let first = self.next + skipped;
        if self.free + skipped > FREE_BEFORE_PAIRS || first + 2 > self.capacity.min(self.limit) {
            return None;
        }
        if skipped != 0 {
            self.next += 1;
            self.give(arena, first - 1);
        }
        self.next += 2;
        Some((first, first + 1))
    }

    /// Takes a run of units side by side, of undefined content: a returned one, or a part of a
    /// longer one, or units never used. Returns `None` if the limit or the memory does not allow
    /// it.
    pub(crate) fn take_run<T>(&mut self, arena: &Arena<T>, length: u32) -> Option<u32> {
        let size = RUN_LENGTHS.iter().position(|known| *known == length)?;
        if let Some(run) = self.pop_run(arena, size) {
            return Some(run);
        }
        for (longer, run_length) in RUN_LENGTHS.into_iter().enumerate().skip(size + 1) {
            if let Some(run) = self.pop_run(arena, longer) {
                let rest = (run..run + run_length).step_by(length as usize).skip(1);
                rest.for_each(|part| self.give_run(arena, part, length));
                return Some(run);
            }
        }
        loop {
            let run = self.take_unused_run(arena, length);
            if run.is_some() || self.capacity >= self.limit || !self.add_chunk(arena) {
                return run;
            }
        }
    }

    /// Takes a run from the units never used. Units skipped for its alignment become free, as runs
    /// if possible.
    fn take_unused_run<T>(&mut self, arena: &Arena<T>, length: u32) -> Option<u32> {
        let first = self.next.next_multiple_of(length);
        if first + length > self.capacity.min(self.limit) {
            return None;
        }
        while self.next < first {
            let fits = |run: &&u32| self.next.is_multiple_of(**run) && self.next + **run <= first;
            match RUN_LENGTHS.iter().rev().find(fits) {
                Some(&run) => {
                    self.next += run;
                    self.give_run(arena, self.next - run, run);
                }
                None => {
                    self.next += 1;
                    self.give(arena, self.next - 1);
                }
            }
        }
        self.next = first + length;
        Some(first)
    }

    fn pop_run<T>(&mut self, arena: &Arena<T>, size: usize) -> Option<u32> {
        let runs = &mut self.runs[size];
        runs.count = runs.count.checked_sub(1)?;
        let run = runs.first;
        // SAFETY: a free run begins with the index of the next one, see `give_run`.
        runs.first = unsafe { arena.unit(run).cast::<u32>().read() };
        self.in_runs -= RUN_LENGTHS[size];
        Some(run)
    }

    /// Returns a run, which no thread can reach any more.
    pub(crate) fn give_run<T>(&mut self, arena: &Arena<T>, first: u32, length: u32) {
        let Some(size) = RUN_LENGTHS.iter().position(|known| *known == length) else {
            return (first..first + length).for_each(|unit| self.give(arena, unit));
        };
        let runs = &mut self.runs[size];
        // SAFETY: as in `give`.
        unsafe { arena.unit(first).cast::<u32>().write(runs.first) };
        (runs.first, runs.count) = (first, runs.count + 1);
        self.in_runs += length;
    }

    /// Returns a unit, which no thread can reach any more.
    #[inline]
    pub(crate) fn give<T>(&mut self, arena: &Arena<T>, index: u32) {
        // SAFETY: units are at least as large and as aligned as a u32, and no thread reads this
        // one.
        unsafe { arena.unit(index).cast::<u32>().write(self.first_free) };
        self.first_free = index;
        self.free += 1;
    }

    /// Returns the number of units in use.
    pub(crate) fn taken(&self) -> u32 {
        self.next - self.reserved - self.free - self.in_runs
    }

    /// Returns the number of units that exist, in use or not.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the number of indices that were ever used, with the reserved ones.
    pub(crate) fn used_range(&self) -> u32 {
        self.next
    }

    /// Returns the indices of all free units that were used before.
    pub(crate) fn free_units<'a, T>(&self, arena: &'a Arena<T>) -> impl Iterator<Item = u32> + 'a {
        let units = listed(arena, self.first_free, self.free);
        let runs = self.runs.into_iter().zip(RUN_LENGTHS).flat_map(|(runs, length)| {
            listed(arena, runs.first, runs.count).flat_map(move |first| first..first + length)
        });
        units.chain(runs)
    }
}

/// Returns the `count` units of a list that begins with `first`.
fn listed<'a, T>(
    arena: &'a Arena<T>,
    first: u32,
    count: u32,
) -> impl Iterator<Item = u32> + use<'a, T> {
    let (mut index, mut left) = (first, count);
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let unit = index;
        // SAFETY: each free unit, and each free run, begins with the index of the next one.
        index = unsafe { arena.unit(unit).cast::<u32>().read() };
        Some(unit)
    })
}

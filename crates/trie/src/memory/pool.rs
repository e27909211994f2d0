//! Which units of an arena are free: those given back, as a list through the units themselves,
//! and those never used. Runs of [`RUN`] units that were taken together are given back together, and
//! are kept whole as long as there are other units.
//!
//! Memory bound: nothing besides the arena.

#![allow(unsafe_code)]

use super::arena::Arena;

/// With more free units than that, pairs are not looked for, lest the arena grow.
const FREE_BEFORE_PAIRS: u32 = 64;

/// The length of a run, and what the index of its first unit is a multiple of. Chunks are multiples
/// of it, too, so that a run lies in one.
pub(crate) const RUN: u32 = 32;

/// The free units of one arena. Only its writer has it.
pub(crate) struct Pool {
    /// The unit given back last; each free unit begins with the index of the next one.
    first_free: u32,
    free: u32,
    /// The run given back last, in the same way.
    first_free_run: u32,
    free_runs: u32,
    /// The first unit never used.
    next: u32,
    capacity: u32,
    /// No unit has this index or a greater one.
    limit: u32,
    /// Units never to be given out, at the beginning.
    reserved: u32,
}

impl Pool {
    /// For an arena of which the writer shall use at most `limit` units, not counting the first
    /// `reserved` ones, which it shall not use at all.
    pub(crate) fn new(reserved: u32, limit: u32) -> Pool {
        Pool {
            first_free: u32::MAX,
            free: 0,
            first_free_run: u32::MAX,
            free_runs: 0,
            next: reserved,
            capacity: 0,
            limit: limit.saturating_add(reserved).min(1 << super::pointer::INDEX_BITS),
            reserved,
        }
    }

    /// How many units can be taken before the arena must grow.
    fn ready(&self) -> u32 {
        self.free + self.capacity.min(self.limit).saturating_sub(self.next)
    }

    /// Makes sure that `count` units can be taken. False when the limit or the memory does not
    /// allow it.
    #[inline]
    pub(crate) fn reserve<T>(&mut self, arena: &Arena<T>, count: u32) -> bool {
        self.ready() >= count || self.grow(arena, count)
    }

    #[cold]
    fn grow<T>(&mut self, arena: &Arena<T>, count: u32) -> bool {
        while self.ready() < count {
            if let Some(run) = self.take_free_run(arena) {
                (run..run + RUN).rev().for_each(|unit| self.give(arena, unit));
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

    /// Takes a unit, of undefined content. There must be one, by [`Pool::reserve`].
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

    /// Takes two units side by side, the first of even index, if that costs nothing.
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

    /// Takes [`RUN`] units side by side, if that costs little: afterwards, `kept` more can be taken.
    pub(crate) fn take_run<T>(&mut self, arena: &Arena<T>, kept: u32) -> Option<u32> {
        if let Some(run) = self.take_free_run(arena) {
            return Some(run);
        }
        // Where much was given back unit by unit, that is used first, and runs have to wait.
        if self.free > FREE_BEFORE_PAIRS + self.taken() / 16
            || !self.reserve(arena, kept.saturating_add(2 * RUN))
        {
            return None;
        }
        self.take_unused_run(arena)
    }

    /// Takes [`RUN`] units side by side, whatever it costs.
    pub(crate) fn take_any_run<T>(&mut self, arena: &Arena<T>) -> Option<u32> {
        loop {
            let run = self.take_free_run(arena).or_else(|| self.take_unused_run(arena));
            if run.is_some() || self.capacity >= self.limit || !self.add_chunk(arena) {
                return run;
            }
        }
    }

    /// Takes a run from what was never used.
    fn take_unused_run<T>(&mut self, arena: &Arena<T>) -> Option<u32> {
        let first = self.next.next_multiple_of(RUN);
        if first + RUN > self.capacity.min(self.limit) {
            return None;
        }
        (self.next..first).for_each(|skipped| self.give(arena, skipped));
        self.next = first + RUN;
        Some(first)
    }

    fn take_free_run<T>(&mut self, arena: &Arena<T>) -> Option<u32> {
        self.free_runs = self.free_runs.checked_sub(1)?;
        let run = self.first_free_run;
        // SAFETY: a free run begins with the index of the next one, see `give_run`.
        self.first_free_run = unsafe { arena.unit(run).cast::<u32>().read() };
        Some(run)
    }

    /// Gives a run back, that nobody can reach any more.
    pub(crate) fn give_run<T>(&mut self, arena: &Arena<T>, first: u32) {
        // SAFETY: as in `give`.
        unsafe { arena.unit(first).cast::<u32>().write(self.first_free_run) };
        self.first_free_run = first;
        self.free_runs += 1;
    }

    /// Gives a unit back, that nobody can reach any more.
    #[inline]
    pub(crate) fn give<T>(&mut self, arena: &Arena<T>, index: u32) {
        // SAFETY: units are at least as large and as aligned as a u32, and nobody looks at this one.
        unsafe { arena.unit(index).cast::<u32>().write(self.first_free) };
        self.first_free = index;
        self.free += 1;
    }

    /// Units in use.
    pub(crate) fn taken(&self) -> u32 {
        self.next - self.reserved - self.free - self.free_runs * RUN
    }

    /// Units that exist, in use or not.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The number of indices that were ever used, with the reserved ones.
    pub(crate) fn used_range(&self) -> u32 {
        self.next
    }

    /// The indices of all free units that were used before.
    pub(crate) fn free_units<'a, T>(&self, arena: &'a Arena<T>) -> impl Iterator<Item = u32> + 'a {
        let units = listed(arena, self.first_free, self.free);
        let runs = listed(arena, self.first_free_run, self.free_runs);
        units.chain(runs.flat_map(|first| first..first + RUN))
    }
}

/// The `count` units of a list that begins with `first`.
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

//! The registry wakes all live tasks of an event loop when the loop ends, so that they end before
//! the executor drops them. It also reports when a cancelled task is gone.
//!
//! The executor underneath drops its tasks while it walks its own queue; a destructor that wakes
//! another task would then change that queue. So the loop ends its tasks itself, by polling them,
//! before it drops the executor.
//!
//! Memory: a slot per live task, kept for reuse.

use crate::event_loop;
use std::cell::{Cell, RefCell};
use std::task::Waker;

#[derive(Default)]
pub(crate) struct Registry {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    live: Cell<usize>,
    panicked: Cell<u64>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    /// Wakes the task, from its first poll on.
    task: Option<Waker>,
    /// Wakes the task that waits until this task is dropped.
    canceller: Option<Waker>,
}

/// The name of a task. A slot's generation grows when its task is gone, so that an old name refers
/// to no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskName {
    slot: u32,
    generation: u32,
}

impl Registry {
    pub(super) fn enter(&self) -> TaskName {
        self.live.set(self.live.get() + 1);
        let mut slots = self.slots.borrow_mut();
        if let Some(slot) = self.free.borrow_mut().pop() {
            return TaskName { slot, generation: slots[slot as usize].generation };
        }
        slots.push(Slot::default());
        // A shard never has 2^32 live tasks: their slots alone would take 160 GiB.
        TaskName { slot: (slots.len() - 1) as u32, generation: 0 }
    }

    pub(super) fn remember_waker(&self, name: TaskName, waker: &Waker) {
        self.with(name, |slot| slot.task = Some(waker.clone()));
    }

    /// Returns whether the task is gone; if not, `waker` is woken when the task is dropped.
    pub(super) fn is_gone(&self, name: TaskName, waker: &Waker) -> bool {
        self.with(name, |slot| slot.canceller = Some(waker.clone())).is_none()
    }

    fn leave(&self, name: TaskName) {
        let left = self.with(name, |slot| {
            slot.generation = slot.generation.wrapping_add(1);
            (slot.task.take(), slot.canceller.take())
        });
        if let Some((task, canceller)) = left {
            self.free.borrow_mut().push(name.slot);
            self.live.set(self.live.get() - 1);
            drop(task);
            if let Some(waker) = canceller {
                waker.wake();
            }
        }
    }

    fn with<R>(&self, name: TaskName, act: impl FnOnce(&mut Slot) -> R) -> Option<R> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(name.slot as usize)?;
        (slot.generation == name.generation).then(|| act(slot))
    }

    /// Returns the number of live tasks.
    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    /// Returns the number of tasks that ended by a panic.
    pub(crate) fn panicked(&self) -> u64 {
        self.panicked.get()
    }

    /// Wakes all tasks, so that they notice that the loop ends.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> =
            self.slots.borrow().iter().filter_map(|slot| slot.task.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Removes the task from the registry on drop. Must be dropped after the task's future.
pub(super) struct SignOff(pub(super) TaskName);

impl Drop for SignOff {
    fn drop(&mut self) {
        if let Some(state) = event_loop::current() {
            state.tasks.leave(self.0);
        }
    }
}

/// Counts the task as panicked if it is dropped while unwinding.
pub(super) struct PanicWatch;

impl Drop for PanicWatch {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(state) = event_loop::current()
        {
            state.tasks.panicked.set(state.tasks.panicked.get() + 1);
        }
    }
}

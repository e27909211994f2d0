//! A mutex that may be held across an await.

use super::{Permit, Semaphore};
use std::cell::{Ref, RefCell, RefMut};
use std::ops::{Deref, DerefMut};

/// Mutual exclusion between tasks of one shard, first come first served. If the holder awaits
/// nothing, a `RefCell` is enough and cheaper.
pub struct Mutex<T> {
    permits: Semaphore,
    // The permit excludes other holders; only a borrow by `peek` can conflict. A `RefCell` rather
    // than `unsafe`, as its check costs nothing compared with the semaphore.
    value: RefCell<T>,
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub fn new(value: T) -> Self {
        Mutex { permits: Semaphore::new(1), value: RefCell::new(value) }
    }

    /// Waits for the lock.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        let permit = self.permits.acquire(1).await;
        MutexGuard { value: self.value.borrow_mut(), _permit: permit }
    }

    /// Locks if no task holds the lock or waits for it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let permit = self.permits.try_acquire(1)?;
        Some(MutexGuard { value: self.value.borrow_mut(), _permit: permit })
    }

    /// Borrows the value for reading if no task holds the lock. Drop the borrow before the next
    /// await: a task that takes the lock meanwhile panics.
    pub fn peek(&self) -> Option<Ref<'_, T>> {
        self.value.try_borrow().ok()
    }

    /// Returns the value without the lock around it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// The lock, held until dropped. The borrow of the value ends before the permit is released.
pub struct MutexGuard<'a, T> {
    value: RefMut<'a, T>,
    _permit: Permit,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

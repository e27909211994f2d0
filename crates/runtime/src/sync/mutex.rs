//! A lock that may be held while waiting for something else.

use super::{Permit, Semaphore};
use std::cell::{Ref, RefCell, RefMut};
use std::ops::{Deref, DerefMut};

/// Mutual exclusion between tasks of one shard, first come first served. Where nothing is awaited while
/// holding, a `RefCell` is enough and cheaper.
pub struct Mutex<T> {
    turn: Semaphore,
    // Never contended: the permit decides. A `RefCell` rather than `unsafe`, as its check costs nothing
    // beside the semaphore.
    value: RefCell<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Self {
        Mutex { turn: Semaphore::new(1), value: RefCell::new(value) }
    }

    /// Waits for the turn.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        let permit = self.turn.acquire(1).await;
        MutexGuard { value: self.value.borrow_mut(), _permit: permit }
    }

    /// Locks if nobody holds it or waits for it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let permit = self.turn.try_acquire(1)?;
        Some(MutexGuard { value: self.value.borrow_mut(), _permit: permit })
    }

    /// Looks at the value if nobody holds the lock.
    pub fn peek(&self) -> Option<Ref<'_, T>> {
        self.value.try_borrow().ok()
    }

    /// The value, without the lock around it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// The lock, held until dropped. The value is given back before the turn is.
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

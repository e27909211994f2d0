//! Shares reads under way. If another task already reads the page that a task needs, the task waits
//! for that read.
//!
//! Memory: an entry for each read under way.

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use espalier_runtime::sync::Event;
use hashbrown::HashMap;

use super::PageKey;

#[derive(Default)]
pub(super) struct InFlight {
    reads: RefCell<HashMap<PageKey, Rc<Read>, foldhash::fast::RandomState>>,
}

/// A read under way.
#[derive(Default)]
pub(super) struct Read {
    done: Event,
    /// The page; `None` if the read failed or was cancelled.
    page: RefCell<Option<Bytes>>,
}

/// The role of a task: it reads a page, or waits for another task's read.
pub(super) enum Role<'a> {
    Reader(Reading<'a>),
    Waiter(Rc<Read>),
}

/// A task's own read. When it is dropped, all waiting tasks continue, whether the read succeeded or
/// not.
pub(super) struct Reading<'a> {
    all: &'a InFlight,
    key: PageKey,
    read: Rc<Read>,
}

impl InFlight {
    /// Returns whether a task reads the page.
    pub(super) fn has(&self, key: PageKey) -> bool {
        self.reads.borrow().contains_key(&key)
    }

    /// Joins the read of a page, or begins it.
    pub(super) fn join(&self, key: PageKey) -> Role<'_> {
        let mut reads = self.reads.borrow_mut();
        if let Some(read) = reads.get(&key) {
            return Role::Waiter(read.clone());
        }
        let read = Rc::new(Read::default());
        reads.insert(key, read.clone());
        Role::Reader(Reading { all: self, key, read })
    }
}

impl Read {
    /// Waits for the read and returns the page; `None` if the read failed, and then each waiting
    /// task must read for itself.
    pub(super) async fn wait(&self) -> Option<Bytes> {
        self.done.wait().await;
        self.page.borrow().clone()
    }
}

impl Reading<'_> {
    pub(super) fn succeed(self, page: &Bytes) {
        *self.read.page.borrow_mut() = Some(page.clone());
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.all.reads.borrow_mut().remove(&self.key);
        self.read.done.set();
    }
}

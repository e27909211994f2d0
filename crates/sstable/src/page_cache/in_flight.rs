//! Reads under way: whoever wants a page that somebody reads already waits for that read.
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

/// One read.
#[derive(Default)]
pub(super) struct Read {
    done: Event,
    /// What came of it; nothing if it failed or was given up.
    page: RefCell<Option<Bytes>>,
}

/// Who reads, and who waits.
pub(super) enum Role<'a> {
    Reader(Reading<'a>),
    Waiter(Rc<Read>),
}

/// Somebody's own read. When it goes, those who wait for it go on, whatever came of it.
pub(super) struct Reading<'a> {
    all: &'a InFlight,
    key: PageKey,
    read: Rc<Read>,
}

impl InFlight {
    /// Whether somebody reads a page now.
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
    /// Waits, and gives what was read; `None`: it failed, so that everybody must see for themselves.
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

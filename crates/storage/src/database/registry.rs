//! Finds a database's handle on the thread on which a call arrives.

use std::{cell::RefCell, rc::Weak};

use espalier_runtime::sync::Notify;
use hashbrown::HashMap;

use super::{Database, Inner};

thread_local! {
    static DATABASES: RefCell<HashMap<u64, Weak<Inner>, foldhash::fast::FixedState>> =
        RefCell::default();
    static REGISTERED: Notify = Notify::new();
}

pub(super) fn register(database: &Database) {
    let instance = database.store().shared.instance;
    DATABASES.with_borrow_mut(|databases| {
        databases.retain(|_, inner| inner.strong_count() > 0);
        databases.insert(instance, std::rc::Rc::downgrade(&database.inner));
    });
    REGISTERED.with(Notify::notify_all);
}

/// Returns the handle on this thread. Waits if it is not registered yet.
pub(super) async fn find(instance: u64) -> Database {
    loop {
        let found = DATABASES.with_borrow(|databases| databases.get(&instance)?.upgrade());
        if let Some(inner) = found {
            return Database { inner };
        }
        let registered = REGISTERED.with(Notify::clone);
        registered.notified().await;
    }
}

//! Finds a node's handle on the thread on which a call arrives.

use std::{cell::RefCell, rc::Weak};

use espalier_runtime::sync::Notify;
use hashbrown::HashMap;

use super::{Inner, Node};

thread_local! {
    static NODES: RefCell<HashMap<u64, Weak<Inner>, foldhash::fast::FixedState>> =
        RefCell::default();
    static REGISTERED: Notify = Notify::new();
}

pub(super) fn register(node: &Node) {
    let instance = node.store().shared.instance;
    NODES.with_borrow_mut(|nodes| {
        nodes.retain(|_, inner| inner.strong_count() > 0);
        nodes.insert(instance, std::rc::Rc::downgrade(&node.inner));
    });
    REGISTERED.with(Notify::notify_all);
}

/// Returns the handle on this thread. Waits if it is not registered yet.
pub(super) async fn find(instance: u64) -> Node {
    loop {
        let found = NODES.with_borrow(|nodes| nodes.get(&instance)?.upgrade());
        if let Some(inner) = found {
            return Node { inner };
        }
        let registered = REGISTERED.with(Notify::clone);
        registered.notified().await;
    }
}

//! How a long read keeps its view of a partition while writes go on.
//!
//! The reader registers an [`Overlay`] for its partition. A writer that changes a row which the reader has still to
//! come by puts the old version there first (or the note that there was none); before the first change of range
//! deletions it puts all boundaries there. Partition deletion and static row are read when the read begins.
//!
//! Where the idea comes from: undo records of multi-version databases; ScyllaDB keeps whole versions instead (works
//! 004), which must be merged later. Memory: what is overwritten ahead of the reader while it reads.

use std::{cell::RefCell, rc::Rc};

use espalier_mutation::{Direction, schema::TableMetadata};
use hashbrown::HashMap;

use super::{
    Memtable,
    content::{Boundary, Content},
    path,
};

/// The old versions that one reader still needs.
pub(super) struct Overlay {
    /// The partition's path.
    prefix: Box<[u8]>,
    direction: Direction,
    state: RefCell<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// Path of the last row or boundary read, within the partition.
    position: Vec<u8>,
    /// Row path -> what the row was; `None` if there was none.
    pub(super) rows: HashMap<Box<[u8]>, Option<Content>, foldhash::fast::FixedState>,
    /// All boundaries as they were; `None` while they still are.
    pub(super) boundaries: Option<Vec<(Vec<u8>, Boundary)>>,
}

impl Overlay {
    pub(super) fn new(prefix: &[u8], direction: Direction) -> Self {
        Self { prefix: prefix.into(), direction, state: RefCell::default() }
    }

    pub(super) fn state(&self) -> std::cell::Ref<'_, State> {
        self.state.borrow()
    }

    /// Notes how far the reader has come; versions behind it are dropped.
    pub(super) fn set_position(&self, position: &[u8]) {
        let mut state = self.state.borrow_mut();
        state.position.clear();
        state.position.extend_from_slice(position);
        let State { rows, position, .. } = &mut *state;
        rows.retain(|path, _| is_ahead(self.direction, position, path));
    }

    fn wants(&self, row_path: &[u8]) -> bool {
        let state = self.state.borrow();
        is_ahead(self.direction, &state.position, row_path) && !state.rows.contains_key(row_path)
    }
}

fn is_ahead(direction: Direction, position: &[u8], path: &[u8]) -> bool {
    match direction {
        Direction::Forward => path > position,
        Direction::Reverse => position.is_empty() || path < position,
    }
}

impl Memtable {
    pub(super) fn register(&self, overlay: &Rc<Overlay>) {
        self.overlays.borrow_mut().push(Rc::downgrade(overlay));
    }

    /// Saves for readers what a write is about to change in the partition of path `prefix`: rows with these clusterings,
    /// and range deletions or not.
    #[cold]
    pub(super) fn preserve<'c, V: AsRef<[u8]> + 'c>(
        &self,
        table: &TableMetadata,
        prefix: &[u8],
        clusterings: impl Iterator<Item = &'c [Option<V>]> + Clone,
        deletes_ranges: bool,
    ) {
        let mut overlays = self.overlays.borrow_mut();
        overlays.retain(|overlay| overlay.strong_count() > 0);
        let trie = self.trie.borrow();
        let mut key = Vec::new();
        for overlay in overlays.iter().filter_map(std::rc::Weak::upgrade) {
            if *overlay.prefix != *prefix {
                continue;
            }
            for clustering in clusterings.clone() {
                key.clear();
                key.extend_from_slice(prefix);
                path::put_row(table.comparator(), clustering, &mut key);
                let row_path = key.get(prefix.len()..).unwrap_or_default();
                if overlay.wants(row_path) {
                    let old = trie.get(&key).cloned();
                    overlay.state.borrow_mut().rows.insert(row_path.into(), old);
                }
            }
            if deletes_ranges && overlay.state.borrow().boundaries.is_none() {
                let boundaries = super::range_tombstones::all(&trie, prefix);
                overlay.state.borrow_mut().boundaries = Some(boundaries);
            }
        }
    }
}

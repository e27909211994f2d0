//! Prefetches the pages of several look-ups at once.
//!
//! A look-up waits for memory when it enters a page that is not in the processor's cache. Only that
//! page says which page is next. So the walks of all keys make one step in turn, and each walk
//! prefetches the memory of its next step. The walks have no other effect and count no page as
//! used. A walk ends at a page that is not in memory or not well-formed.

use espalier_trie::{
    memory::LOOK_AHEAD_KEYS,
    page::{Descent, Node, PrefixSearch},
    prefetch::prefetch_range,
};

use super::super::{Index, SSTableReader, index::TrieIndex};
use crate::{
    data::file::DataFile,
    index::bti::partition_index::{Candidate, IndexPosition},
    page_cache::{CachedPages, Slot},
};

/// Bytes at a partition's beginning that a look-up probably reads.
const LIKELY_BYTES: usize = 128;

/// Maximum number of steps of a walk (arbitrary). A walk in an index of some million keys takes ten
/// steps.
const MAX_STEPS: usize = 64;

/// The next step of a walk.
#[derive(Clone, Copy)]
enum Step<'pages> {
    /// Enter the page of the index that is in a slot of the cache.
    Enter(Slot),
    /// Descend in this page.
    Descend(&'pages [u8]),
    /// Prefetch an offset of the chunk of Data.db that is in a slot.
    Data(Slot, usize),
}

struct Walk<'key, 'pages> {
    search: PrefixSearch<'key>,
    step: Step<'pages>,
}

impl SSTableReader {
    /// Prefetches the memory that look-ups of these keys will read, for at most [`LOOK_AHEAD_KEYS`]
    /// keys. `paths` are the keys in the form of
    /// [`encode_decorated_key`](espalier_types::byte_comparable::encode_decorated_key).
    pub fn look_ahead<'key>(&self, paths: impl IntoIterator<Item = &'key [u8]>) {
        let Index::Trie(trie) = &self.0.index else { return };
        if !trie.keys.are_bytes() {
            return;
        }
        let pages = self.0.data.cached_pages(&[]);
        let search = PrefixSearch::new(trie.partitions.footer().root, &[]);
        let root = trie.partitions.source().key(search.page_number());
        // The cache cannot change before this function ends, so that slots stay valid.
        let Some(root) = pages.slot(root) else { return };
        let mut walks: [Option<Walk<'key, '_>>; LOOK_AHEAD_KEYS] = Default::default();
        for (walk, path) in walks.iter_mut().zip(paths) {
            let search = PrefixSearch::new(trie.partitions.footer().root, path);
            *walk = Some(Walk { search, step: Step::Enter(root) });
        }
        for _ in 0..MAX_STEPS {
            let mut is_any_left = false;
            for walk in &mut walks {
                if let Some(going) = walk {
                    match going.next(&pages, trie, &self.0.data) {
                        Some(step) => going.step = step,
                        None => *walk = None,
                    }
                    is_any_left = true;
                }
            }
            if !is_any_left {
                break;
            }
        }
    }
}

impl<'pages> Walk<'_, 'pages> {
    /// Takes a step. Returns the next step, or `None` after the last step.
    #[inline]
    fn next(
        &mut self,
        pages: &'pages CachedPages<'_>,
        trie: &TrieIndex,
        data: &DataFile,
    ) -> Option<Step<'pages>> {
        match self.step {
            Step::Enter(slot) => {
                let page = pages.peek(slot)?;
                self.search.prefetch_node(page);
                Some(Step::Descend(page))
            }
            Step::Descend(page) => {
                let number = self.search.page_number();
                match self.search.step(page).ok()? {
                    Descent::Page(next) if next == number => {
                        self.search.prefetch_node(page);
                        Some(Step::Descend(page))
                    }
                    Descent::Page(next) => {
                        pages.slot(trie.partitions.source().key(next)).map(Step::Enter)
                    }
                    Descent::Payload(node) => {
                        let candidate = Candidate::at(&Node::at(page, node).ok()?)?;
                        let IndexPosition::Data(position) = candidate.position else { return None };
                        let at = (position % data.chunk_length()) as usize;
                        pages.slot(data.key_of(position)).map(|slot| Step::Data(slot, at))
                    }
                    Descent::Nothing => None,
                }
            }
            Step::Data(slot, at) => {
                let chunk = pages.peek(slot)?;
                prefetch_range(chunk, at, (at + LIKELY_BYTES).min(chunk.len()));
                None
            }
        }
    }
}

//! Pages that several look-ups are about to take, asked for side by side.
//!
//! A look-up waits for memory where it enters a page that the processor has not seen lately, and only the page says which one is next. So each
//! of several keys takes one step, asks for what the next one needs, and lets the others go on. Nothing comes of it but that, and
//! nothing counts as used: what is not in memory, or not as it should be, ends the walk.

use espalier_trie::{
    memory::LOOK_AHEAD_KEYS,
    page::{Descent, Node, PrefixSearch},
    prefetch::prefetch_range,
};

use super::super::{Index, SSTableReader, index::TrieIndex};
use crate::{
    data::file::DataFile,
    index::bti::partition_index::{Candidate, IndexPosition},
    page_cache::{PagesAtHand, Slot},
};

/// What is likely to be looked at of a partition's beginning.
const LIKELY_BYTES: usize = 128;

/// Nobody waits for longer; a path of some million keys takes ten.
const MOST_STEPS: usize = 64;

/// What a walk does next.
#[derive(Clone, Copy)]
enum Step<'pages> {
    /// Enters the page of the index that is in a slot of the cache.
    Enter(Slot),
    /// Goes down in this one.
    Descend(&'pages [u8]),
    /// Looks at a place in the plain data, whose chunk is in a slot.
    Data(Slot, usize),
}

struct Walk<'key, 'pages> {
    search: PrefixSearch<'key>,
    step: Step<'pages>,
}

impl SSTableReader {
    /// Asks for the memory that looking up these keys takes, of [`LOOK_AHEAD_KEYS`] at most; `paths` are the keys as
    /// [`encode_decorated_key`](espalier_types::byte_comparable::encode_decorated_key) makes them.
    pub fn look_ahead<'key>(&self, paths: impl IntoIterator<Item = &'key [u8]>) {
        let Index::Trie(trie) = &self.0.index else { return };
        if !trie.keys.are_bytes() {
            return;
        }
        let pages = self.0.data.pages_at_hand(&[]);
        let search = PrefixSearch::new(trie.partitions.footer().root, &[]);
        let root = trie.partitions.source().key(search.page_number());
        // Nothing comes in or goes before this ends: what is in a slot stays there.
        let Some(root) = pages.slot(root) else { return };
        let mut walks: [Option<Walk<'key, '_>>; LOOK_AHEAD_KEYS] = Default::default();
        for (walk, path) in walks.iter_mut().zip(paths) {
            let search = PrefixSearch::new(trie.partitions.footer().root, path);
            *walk = Some(Walk { search, step: Step::Enter(root) });
        }
        for _ in 0..MOST_STEPS {
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
    /// Takes a step; gives the next one, unless this was the last.
    #[inline]
    fn next(
        &mut self,
        pages: &'pages PagesAtHand<'_>,
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

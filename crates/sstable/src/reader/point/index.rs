//! From a key to a place in Data.db, by what is in memory of the index.

use espalier_mutation::{DecoratedKeyRef, DeletionTime};
use espalier_types::byte_comparable::{TERMINATOR, encode_clustering};

use super::PointScratch;
use crate::{
    data::column_map::FileLayout,
    index::bti::{partition_index::IndexPosition, row_index::block_at_hand},
    page_cache::{CachedFile, PageKey, PagesAtHand},
    reader::{Index, SSTableReader, index::TrieIndex},
};

/// Where to begin to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// In the plain data.
    pub(super) position: u64,
    /// Whether another partition may begin there: a trie keeps prefixes of keys only. Where it may not, an index that nothing
    /// checks is wrong.
    pub(super) is_candidate: bool,
    /// Known where the place is not the partition's head: the deletion of the partition, and the range deletion that is
    /// open there.
    pub(super) deletions: Option<(DeletionTime, DeletionTime)>,
}

impl SSTableReader {
    /// `Some(None)`: the partition is not inside. `None`: it cannot be told here.
    #[inline]
    pub(super) fn place_at_hand<V: AsRef<[u8]>>(
        &self,
        pages: &PagesAtHand<'_>,
        layout: &FileLayout,
        key: DecoratedKeyRef<'_>,
        hash_byte: u8,
        clustering: &[Option<V>],
        scratch: &mut PointScratch,
    ) -> Option<Option<Place>> {
        match &self.0.index {
            Index::Trie(trie) => {
                if !trie.keys.encode_borrowed(key, &mut scratch.path) {
                    return None;
                }
                let file = trie.partitions.source();
                let page = |number| page_of(pages, file.key(number));
                let found = trie.partitions.candidate_at_hand(page, &scratch.path, hash_byte)?;
                match found {
                    None => Some(None),
                    Some(IndexPosition::Data(position)) => {
                        Some(Some(Place { position, is_candidate: true, deletions: None }))
                    }
                    Some(IndexPosition::RowIndex(entry)) => {
                        in_row_index(pages, layout, trie, entry, key, clustering, scratch)
                    }
                }
            }
            Index::Big(big) => {
                let file = big.file();
                let page = |number| page_of(pages, file.made_key(number));
                match big.exact_at_hand(page, key)? {
                    None => Some(None),
                    // Its blocks are for those who can wait.
                    Some(entry) if entry.promoted.is_some() => None,
                    Some(entry) => {
                        let position = entry.data_position;
                        Some(Some(Place { position, is_candidate: false, deletions: None }))
                    }
                }
            }
        }
    }
}

#[inline]
fn page_of<'p>(pages: &'p PagesAtHand<'_>, key: PageKey) -> Option<&'p [u8]> {
    pages.get(key).map(|page| &page[..])
}

fn in_row_index<V: AsRef<[u8]>>(
    pages: &PagesAtHand<'_>,
    layout: &FileLayout,
    trie: &TrieIndex,
    entry: u64,
    key: DecoratedKeyRef<'_>,
    clustering: &[Option<V>],
    scratch: &mut PointScratch,
) -> Option<Option<Place>> {
    let rows: &CachedFile = &trie.rows;
    // What nothing checks is compared with the rows by those who can wait.
    if !rows.has_checksums() {
        return None;
    }
    let PointScratch { path, joined, .. } = scratch;
    path.clear();
    encode_clustering(&layout.table.comparator().types, clustering, TERMINATOR, path);
    let page = |number| page_of(pages, rows.key(number));
    let Some(found) = block_at_hand(page, entry, key.key, path, joined)? else {
        return Some(None);
    };
    Some(Some(Place {
        position: found.data_position.checked_add(found.block.offset)?,
        is_candidate: false,
        deletions: Some((found.partition_deletion, found.block.open_deletion)),
    }))
}

//! Finds the place of a key in Data.db by the cached pages of the index.

use espalier_mutation::{DecoratedKeyRef, DeletionTime};
use espalier_trie::page::PrefixSearch;
use espalier_types::byte_comparable::{TERMINATOR, encode_ordered_clustering};

use super::{PointScratch, lookup::Step};
use crate::{
    data::column_map::FileLayout,
    index::bti::{partition_index::IndexPosition, row_index::cached_block},
    page_cache::{CachedFile, CachedPages, PageKey},
    reader::{Index, SSTableReader, index::TrieIndex},
};

/// The place where reading begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The position in Data.db before compression.
    pub(super) position: u64,
    /// True if another partition may begin at the place, because a trie stores only prefixes of
    /// keys. If this is false and another partition begins there, the index is damaged.
    pub(super) is_candidate: bool,
    /// Set if the place is not the partition's head.
    pub(super) block: Option<PlaceInBlock>,
}

/// The facts of the row index about a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceInBlock {
    /// The position of the partition's entry in Rows.db.
    pub(super) entry: u64,
    pub(super) partition_deletion: DeletionTime,
    /// The range deletion that is open at the place.
    pub(super) open_deletion: DeletionTime,
}

impl SSTableReader {
    /// Finds the place of a key. Continues from `step`, and updates `step`. Returns `Some(None)` if
    /// the SSTable lacks the partition, and `None` if a page is missing or only the general read
    /// can answer.
    #[inline]
    pub(super) fn cached_place<V: AsRef<[u8]>>(
        &self,
        pages: &CachedPages<'_>,
        layout: &FileLayout,
        (key, hash_byte): (DecoratedKeyRef<'_>, u8),
        clustering: &[Option<V>],
        step: &mut Step,
        scratch: &mut PointScratch,
    ) -> Option<Option<Place>> {
        match &self.0.index {
            Index::Trie(trie) => {
                let entry = match *step {
                    Step::Data(place) => return Some(Some(place)),
                    Step::RowIndex(entry) => entry,
                    Step::Begin | Step::Partitions { .. } => {
                        match find_partition(pages, trie, key, hash_byte, step, scratch)? {
                            None => return Some(None),
                            Some(IndexPosition::RowIndex(entry)) => entry,
                            Some(IndexPosition::Data(position)) => {
                                let place = Place { position, is_candidate: true, block: None };
                                return Some(Some(place));
                            }
                        }
                    }
                };
                *step = Step::RowIndex(entry);
                in_row_index(pages, layout, trie, entry, key, clustering, scratch)
            }
            Index::Big(big) => {
                if let Step::Data(place) = *step {
                    return Some(Some(place));
                }
                let file = big.file();
                let page = |number| page_of(pages, file.made_key(number));
                match big.exact_cached(page, key)? {
                    None => Some(None),
                    // [`SSTableReader::read_partition`] handles the blocks of such a partition.
                    Some(entry) if entry.promoted.is_some() => None,
                    Some(entry) => {
                        let position = entry.data_position;
                        Some(Some(Place { position, is_candidate: false, block: None }))
                    }
                }
            }
        }
    }
}

#[inline]
fn page_of<'p>(pages: &'p CachedPages<'_>, key: PageKey) -> Option<&'p [u8]> {
    pages.get(key).map(|page| &page[..])
}

#[inline]
fn find_partition(
    pages: &CachedPages<'_>,
    trie: &TrieIndex,
    key: DecoratedKeyRef<'_>,
    hash_byte: u8,
    step: &mut Step,
    scratch: &mut PointScratch,
) -> Option<Option<IndexPosition>> {
    if !trie.keys.encode_borrowed(key, &mut scratch.path) {
        return None;
    }
    let path = scratch.path.as_slice();
    let mut search = match *step {
        Step::Partitions { node, rest } => {
            PrefixSearch::new(node, path.get(path.len().checked_sub(rest)?..)?)
        }
        _ => PrefixSearch::new(trie.partitions.footer().root, path),
    };
    let file = trie.partitions.source();
    let page = |number| page_of(pages, file.key(number));
    let found = trie.partitions.cached_candidate(page, &mut search, hash_byte);
    if found.is_none() {
        let (node, rest) = search.place();
        *step = Step::Partitions { node, rest };
    }
    found
}

fn in_row_index<V: AsRef<[u8]>>(
    pages: &CachedPages<'_>,
    layout: &FileLayout,
    trie: &TrieIndex,
    entry: u64,
    key: DecoratedKeyRef<'_>,
    clustering: &[Option<V>],
    scratch: &mut PointScratch,
) -> Option<Option<Place>> {
    let rows: &CachedFile = &trie.rows;
    // Blocks of an index without checksums must be compared with the rows, which
    // [`SSTableReader::read_partition`] does.
    if !rows.has_checksums() {
        return None;
    }
    let PointScratch { path, joined, .. } = scratch;
    path.clear();
    encode_ordered_clustering(&layout.table.comparator().types, clustering, TERMINATOR, path);
    let page = |number| page_of(pages, rows.key(number));
    let Some(found) = cached_block(page, entry, key.key, path, joined)? else {
        return Some(None);
    };
    let block = PlaceInBlock {
        entry,
        partition_deletion: found.partition_deletion,
        open_deletion: found.block.open_deletion,
    };
    Some(Some(Place {
        position: found.data_position.checked_add(found.block.offset)?,
        is_candidate: false,
        block: Some(block),
    }))
}

//! What the cache knows at a place.

use std::{
    cell::{Cell, RefCell},
    num::NonZeroU32,
};

use espalier_mutation::DeletionTime;
use espalier_trie::prefetch::prefetch_range;

/// Rows up to this length lie in the entry itself; longer ones on the heap.
const INLINE_BYTES: usize = 22;

/// What is likely to be looked at of a row on the heap.
const LIKELY_BYTES: usize = 256;

const DELETION_BYTES: usize = 12;

/// The range from the entry before this one up to it is known: there is nothing in it but what is in the entries, and the
/// entry's deletion covers it. For an entry that is of a partition, or between partitions: from the one before of these.
const CONTINUOUS: u8 = 1;
/// There is a row here.
const ROW: u8 = 2;
/// The bytes begin with a deletion.
const DELETION: u8 = 4;
/// It was used since it was added. A header that cannot go takes after what is behind it, a row that a flush adds after its header.
const REUSED: u8 = 8;
/// It is the partition's own: its deletion, and its static row if it has one.
const HEADER: u8 = 16;
/// It is all of a partition: the only row, or that there is none.
const ONLY: u8 = 32;
/// It is of no partition, but an end of a known range of them.
const FENCE: u8 = 64;
/// What an entry is, and what is known before it; the rest is about its bytes and its age.
const KIND: u8 = CONTINUOUS | ROW | HEADER | ONLY | FENCE;

/// What is known at a place, and of the range before it. 32 bytes: a block of the trie.
///
/// The deletion is the partition's in a header; elsewhere that of range deletions over this place and, if the entry is continuous,
/// over the range before it. Of a place between rows that is not continuous it says nothing.
#[derive(Clone)]
pub(super) struct Entry {
    used_at: Cell<u32>,
    flags: Cell<u8>,
    data: Data,
}

enum Data {
    Inline {
        length: u8,
        bytes: [u8; INLINE_BYTES],
    },
    /// Counted for its owner; there is none before it is in a cache.
    Heap {
        owner: Option<Owner>,
        bytes: Box<[u8]>,
    },
}

/// A cache by a number of its thread. A shard has one cache, but a thread may have several shards, one after another or at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(NonZeroU32);

thread_local! {
    /// Bytes of the rows on the heap of each cache, by its number, those with them that only readers of older states still have.
    static HEAP_BYTES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Owner {
    /// A number that no other cache of this thread has.
    pub(super) fn new() -> Self {
        HEAP_BYTES.with_borrow_mut(|all| {
            all.push(0);
            // Beyond what can be: all of those share one.
            Self(u32::try_from(all.len()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
        })
    }

    /// Bytes that its entries take besides their slots in the trie.
    pub(super) fn heap_bytes(self) -> usize {
        let bytes_of = |all: &RefCell<Vec<usize>>| all.borrow().get(self.index()).copied();
        HEAP_BYTES.try_with(bytes_of).ok().flatten().unwrap_or_default()
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Where a thread ends, there is nothing to count any more.
    fn change(self, change: impl FnOnce(usize) -> usize) {
        let _ended = HEAP_BYTES.try_with(|all| {
            if let Some(bytes) = all.borrow_mut().get_mut(self.index()) {
                *bytes = change(*bytes);
            }
        });
    }
}

impl Data {
    /// Bytes on the heap, for their owner or for nobody so far.
    fn count_for(&mut self, new_owner: Option<Owner>) {
        if let Self::Heap { owner, bytes } = self {
            if let Some(old) = std::mem::replace(owner, new_owner) {
                old.change(|count| count.saturating_sub(bytes.len()));
            }
            if let Some(new) = new_owner {
                new.change(|count| count + bytes.len());
            }
        }
    }
}

impl Clone for Data {
    fn clone(&self) -> Self {
        match self {
            Self::Inline { length, bytes } => Self::Inline { length: *length, bytes: *bytes },
            Self::Heap { owner, bytes } => {
                let mut clone = Self::Heap { owner: None, bytes: bytes.clone() };
                clone.count_for(*owner);
                clone
            }
        }
    }
}

/// Also what was replaced counts, as long as it is there.
impl Drop for Data {
    fn drop(&mut self) {
        self.count_for(None);
    }
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    fn new(flags: u8, deletion: DeletionTime, row: &[u8]) -> Self {
        let has_deletion = !deletion.is_live();
        let flags = flags | if has_deletion { DELETION } else { 0 };
        let mut prefix = [0; DELETION_BYTES];
        prefix[..8].copy_from_slice(&deletion.marked_for_delete_at.to_le_bytes());
        prefix[8..].copy_from_slice(&deletion.local_deletion_time.to_le_bytes());
        let prefix = if has_deletion { &prefix[..] } else { &[] };
        let length = prefix.len() + row.len();
        let data = if length <= INLINE_BYTES {
            let mut bytes = [0; INLINE_BYTES];
            bytes[..prefix.len()].copy_from_slice(prefix);
            bytes[prefix.len()..length].copy_from_slice(row);
            Data::Inline { length: length as u8, bytes }
        } else {
            Data::Heap { owner: None, bytes: [prefix, row].concat().into_boxed_slice() }
        };
        Self { used_at: Cell::new(0), flags: Cell::new(flags), data }
    }

    /// Asks the processor for a row's bytes that are not here.
    pub(super) fn prefetch(&self) {
        if let Data::Heap { bytes, .. } = &self.data {
            prefetch_range(bytes, 0, bytes.len().min(LIKELY_BYTES));
        }
    }

    /// A row: its bytes as a memtable stores them.
    pub(super) fn row(is_continuous: bool, deletion: DeletionTime, row: &[u8]) -> Self {
        Self::new(ROW | if is_continuous { CONTINUOUS } else { 0 }, deletion, row)
    }

    /// A place between rows.
    pub(super) fn bound(is_continuous: bool, deletion: DeletionTime) -> Self {
        Self::new(if is_continuous { CONTINUOUS } else { 0 }, deletion, &[])
    }

    /// A partition's own. `static_row` is empty if there is none.
    pub(super) fn header(deletion: DeletionTime, static_row: &[u8]) -> Self {
        Self::new(HEADER, deletion, static_row)
    }

    /// All of a partition that has no more than a row; `None`: it has none.
    pub(super) fn only(row: Option<&[u8]>) -> Self {
        let flags = ONLY | if row.is_some() { ROW } else { 0 };
        Self::new(flags, DeletionTime::LIVE, row.unwrap_or_default())
    }

    /// An end of a known range of partitions.
    pub(super) fn fence() -> Self {
        Self::new(FENCE, DeletionTime::LIVE, &[])
    }

    /// The same entry with another deletion, and another row, or for a header another static row.
    pub(super) fn with(&self, deletion: DeletionTime, row: &[u8]) -> Self {
        Self::new(self.flags.get() & KIND, deletion, row).aged_as(self)
    }

    /// The same entry with a row that it did not have.
    pub(super) fn made_row(&self, row: &[u8]) -> Self {
        let made = self.with_row(row);
        made.set(ROW, true);
        made
    }

    pub(super) fn with_row(&self, row: &[u8]) -> Self {
        self.with(self.deletion(), row)
    }

    pub(super) fn with_deletion(&self, deletion: DeletionTime) -> Self {
        self.with(deletion, self.row_bytes())
    }

    /// The same entry, whose bytes count for this cache as long as they are there.
    pub(super) fn owned_by(mut self, owner: Owner) -> Self {
        self.data.count_for(Some(owner));
        self
    }

    /// The same entry as the end of a known range.
    pub(super) fn made_continuous(&self, deletion: DeletionTime) -> Self {
        let made = self.with_deletion(deletion);
        made.set(CONTINUOUS, true);
        made
    }

    /// With the age of another one, in whose place it comes.
    pub(super) fn aged_as(self, other: &Self) -> Self {
        self.used_at.set(other.used_at.get());
        self.set(REUSED, other.has(REUSED));
        self
    }

    /// What `Ages` knows of it.
    pub(super) fn age(&self) -> Self {
        Self::bound(false, DeletionTime::LIVE).aged_as(self)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.get() & flag != 0
    }

    fn set(&self, flag: u8, value: bool) {
        let flags = self.flags.get();
        self.flags.set(if value { flags | flag } else { flags & !flag });
    }

    pub(super) fn is_continuous(&self) -> bool {
        self.has(CONTINUOUS)
    }

    /// From now on the range before it is not known. Readers of older states may see it: they read more than they need.
    pub(super) fn forget_range(&self) {
        self.set(CONTINUOUS, false);
    }

    /// From now on the range of partitions before it is known. Who keeps an older state of a partition does not look at that.
    pub(super) fn set_partitions_known(&self, is_known: bool) {
        debug_assert!(self.is_of_partitions());
        self.set(CONTINUOUS, is_known);
    }

    /// Whether it stands in the line of partitions: for one of them, or between them.
    pub(super) fn is_of_partitions(&self) -> bool {
        self.flags.get() & (HEADER | ONLY | FENCE) != 0
    }

    /// Whether it stands for a partition.
    pub(super) fn is_partition(&self) -> bool {
        self.flags.get() & (HEADER | ONLY) != 0
    }

    pub(super) fn is_fence(&self) -> bool {
        self.has(FENCE)
    }

    pub(super) fn is_row(&self) -> bool {
        self.has(ROW)
    }

    pub(super) fn is_header(&self) -> bool {
        self.has(HEADER)
    }

    pub(super) fn is_reused(&self) -> bool {
        self.has(REUSED)
    }

    pub(super) fn set_reused(&self) {
        self.set(REUSED, true);
    }

    /// When it was added or used last, as `Ages` counts.
    pub(super) fn used_at(&self) -> u32 {
        self.used_at.get()
    }

    pub(super) fn set_used_at(&self, age: u32) {
        self.used_at.set(age);
    }

    fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Inline { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Data::Heap { bytes, .. } => bytes,
        }
    }

    pub(super) fn deletion(&self) -> DeletionTime {
        if !self.has(DELETION) {
            return DeletionTime::LIVE;
        }
        match self.bytes().first_chunk::<DELETION_BYTES>() {
            Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) => DeletionTime::new(
                i64::from_le_bytes([a, b, c, d, e, f, g, h]),
                u32::from_le_bytes([i, j, k, l]),
            ),
            None => DeletionTime::LIVE,
        }
    }

    /// The row, or the static row of a header; empty if there is none.
    #[inline]
    pub(super) fn row_bytes(&self) -> &[u8] {
        let bytes = self.bytes();
        if self.has(DELETION) { bytes.get(DELETION_BYTES..).unwrap_or_default() } else { bytes }
    }

    /// Bytes that it takes besides its slot in the trie.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.data {
            Data::Heap { bytes, .. } => bytes.len(),
            Data::Inline { .. } => 0,
        }
    }
}

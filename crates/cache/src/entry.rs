//! Entries of the cache: the value at a position, and the continuity of the range before it.

use std::{
    cell::{Cell, RefCell},
    num::NonZeroU32,
};

use espalier_mutation::DeletionTime;
use espalier_trie::prefetch::prefetch_range;

/// A deletion and a row are stored in the entry itself if they have at most this length together,
/// else on the heap.
const INLINE_BYTES: usize = 22;

/// The part of a row on the heap that a look-up is likely to read, and that is prefetched.
const LIKELY_BYTES: usize = 256;

const DELETION_BYTES: usize = 12;

/// The range from the previous entry up to this one is continuous: nothing lies between the two
/// entries, and this entry's deletion covers the range. In the entry of a partition or a fence, the
/// flag concerns the range from the previous entry of a partition or a fence.
const CONTINUOUS: u8 = 1;
/// The entry holds a row.
const ROW: u8 = 2;
/// The bytes begin with a deletion.
const DELETION: u8 = 4;
/// The entry was used again after it was added. A header that cannot be evicted takes the flag from
/// the entry behind the header; a row that a flush adds takes the flag from its header.
const REUSED: u8 = 8;
/// The entry is a partition's header: it holds the partition's deletion, and its static row if
/// there is one.
const HEADER: u8 = 16;
/// The entry represents a whole partition: it holds the partition's only row, or says that the
/// partition has no row.
const ONLY: u8 = 32;
/// The entry belongs to no partition: it marks an end of a continuous range of partitions.
const FENCE: u8 = 64;
/// The flags for the kind of an entry and for the continuity of the range before it. The other
/// flags concern its bytes and its age.
const KIND: u8 = CONTINUOUS | ROW | HEADER | ONLY | FENCE;

/// An entry: the value at a position, and the continuity of the range before it. An entry has 32
/// bytes, the size of a block of the trie.
///
/// In a header, the deletion is the partition's. In other entries, it is the range deletion over
/// this position and, if the entry is continuous, over the range before it. In an entry between
/// rows that is not continuous, the deletion has no meaning.
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
    /// The bytes are counted for `owner`, which is `None` until the entry is in a cache.
    Heap {
        owner: Option<Owner>,
        bytes: Box<[u8]>,
    },
}

/// A number that identifies a cache within its thread. A shard has one cache, but a thread may have
/// several shards, one after another or at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(NonZeroU32);

thread_local! {
    /// Bytes on the heap for each cache, by the cache's number. They include entries that only
    /// readers of older states retain.
    static HEAP_BYTES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Owner {
    /// Returns a number that no other cache of this thread has.
    pub(super) fn new() -> Self {
        HEAP_BYTES.with_borrow_mut(|all| {
            all.push(0);
            // Caches beyond number `u32::MAX` share that number; in practice no thread creates so
            // many.
            Self(u32::try_from(all.len()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
        })
    }

    /// Returns the bytes that the owner's entries take besides their slots in the trie.
    pub(super) fn heap_bytes(self) -> usize {
        let bytes_of = |all: &RefCell<Vec<usize>>| all.borrow().get(self.index()).copied();
        HEAP_BYTES.try_with(bytes_of).ok().flatten().unwrap_or_default()
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Changes the count of bytes. Does nothing while the thread ends, because the counts are gone.
    fn change(self, change: impl FnOnce(usize) -> usize) {
        let _ended = HEAP_BYTES.try_with(|all| {
            if let Some(bytes) = all.borrow_mut().get_mut(self.index()) {
                *bytes = change(*bytes);
            }
        });
    }
}

impl Data {
    /// Moves the count of the bytes on the heap to another owner, or to none.
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

/// Replaced data stays in its owner's count until this drop, because readers may retain it.
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

    /// Prefetches into the processor's caches the bytes of a row that are not in the entry.
    pub(super) fn prefetch(&self) {
        if let Data::Heap { bytes, .. } = &self.data {
            prefetch_range(bytes, 0, bytes.len().min(LIKELY_BYTES));
        }
    }

    /// Creates a row's entry. `row` holds the row's bytes as a memtable stores them.
    pub(super) fn row(is_continuous: bool, deletion: DeletionTime, row: &[u8]) -> Self {
        Self::new(ROW | if is_continuous { CONTINUOUS } else { 0 }, deletion, row)
    }

    /// Creates the entry of a position between rows.
    pub(super) fn bound(is_continuous: bool, deletion: DeletionTime) -> Self {
        Self::new(if is_continuous { CONTINUOUS } else { 0 }, deletion, &[])
    }

    /// Creates a partition's header. `static_row` is empty if there is none.
    pub(super) fn header(deletion: DeletionTime, static_row: &[u8]) -> Self {
        Self::new(HEADER, deletion, static_row)
    }

    /// Creates the entry of a partition that has at most one row. `row` is `None` if it has none.
    pub(super) fn only(row: Option<&[u8]>) -> Self {
        let flags = ONLY | if row.is_some() { ROW } else { 0 };
        Self::new(flags, DeletionTime::LIVE, row.unwrap_or_default())
    }

    /// Creates a fence: an end of a continuous range of partitions.
    pub(super) fn fence() -> Self {
        Self::new(FENCE, DeletionTime::LIVE, &[])
    }

    /// Returns a copy with another deletion and another row (in a header, another static row).
    pub(super) fn with(&self, deletion: DeletionTime, row: &[u8]) -> Self {
        Self::new(self.flags.get() & KIND, deletion, row).aged_as(self)
    }

    /// Returns a copy with a row, of an entry that had none.
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

    /// Counts the entry's bytes for this owner until they are dropped.
    pub(super) fn owned_by(mut self, owner: Owner) -> Self {
        self.data.count_for(Some(owner));
        self
    }

    /// Returns a copy that has this deletion and ends a continuous range.
    pub(super) fn made_continuous(&self, deletion: DeletionTime) -> Self {
        let made = self.with_deletion(deletion);
        made.set(CONTINUOUS, true);
        made
    }

    /// Returns this entry with the age of another entry.
    pub(super) fn aged_as(self, other: &Self) -> Self {
        self.used_at.set(other.used_at.get());
        self.set(REUSED, other.has(REUSED));
        self
    }

    /// Returns a copy of the fields that `EvictionAges` reads.
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

    /// Marks the range before the entry as not continuous. Readers of older states may see the
    /// change too; they then read more than they need.
    pub(super) fn forget_range(&self) {
        self.set(CONTINUOUS, false);
    }

    /// Sets whether the range of partitions before the entry is continuous. A reader that retains
    /// an older state of a partition ignores this.
    pub(super) fn set_partitions_continuous(&self, is_continuous: bool) {
        debug_assert!(self.is_of_partitions());
        self.set(CONTINUOUS, is_continuous);
    }

    /// Returns whether the entry is in the sequence of partitions: a partition's, or a fence
    /// between partitions.
    pub(super) fn is_of_partitions(&self) -> bool {
        self.flags.get() & (HEADER | ONLY | FENCE) != 0
    }

    /// Returns whether the entry represents a partition.
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

    /// Returns the step of the last use or of the insertion, as `EvictionAges` counts.
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

    /// Returns the row, or the static row of a header; empty if there is none.
    #[inline]
    pub(super) fn row_bytes(&self) -> &[u8] {
        let bytes = self.bytes();
        if self.has(DELETION) { bytes.get(DELETION_BYTES..).unwrap_or_default() } else { bytes }
    }

    /// Returns the bytes that the entry takes besides its slot in the trie.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.data {
            Data::Heap { bytes, .. } => bytes.len(),
            Data::Inline { .. } => 0,
        }
    }
}

//! Records of fixed length in pages. No record crosses a page, unless it is longer than a page.

use espalier_runtime::file::PAGE_BYTES;

/// The place of records in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Records {
    /// The position of the first record, at the beginning of a page.
    pub(super) start: u64,
    /// Bytes of a record.
    pub(super) length: usize,
}

impl Records {
    /// Returns the number of records of a page; 0 if a record takes more than a page.
    pub(super) fn per_page(self) -> usize {
        PAGE_BYTES / self.length.max(1)
    }

    /// Returns the number of the first page.
    pub(super) fn first_page(self) -> u64 {
        self.start / PAGE_BYTES as u64
    }

    /// Returns the number of pages that one record takes; 1 if a page has several records.
    pub(super) fn pages_of_one(self) -> u64 {
        self.length.div_ceil(PAGE_BYTES).max(1) as u64
    }

    /// Returns the page of a record, counted from the first page of the records, and the offset in
    /// that page.
    #[inline]
    pub(super) fn locate(self, index: usize) -> (u64, usize) {
        match self.per_page() {
            0 => (index as u64 * self.pages_of_one(), 0),
            per_page => ((index / per_page) as u64, index % per_page * self.length),
        }
    }

    /// Returns the number of pages of `count` records.
    pub(super) fn pages(self, count: usize) -> u64 {
        match self.per_page() {
            0 => count as u64 * self.pages_of_one(),
            per_page => count.div_ceil(per_page) as u64,
        }
    }

    /// Returns whether `count` records lie before a position of the file.
    pub(super) fn lie_before(self, count: usize, position: u64) -> bool {
        let bytes = self.pages(count).checked_mul(PAGE_BYTES as u64);
        let end = bytes.and_then(|bytes| self.start.checked_add(bytes));
        self.start.is_multiple_of(PAGE_BYTES as u64) && end.is_some_and(|end| end <= position)
    }
}

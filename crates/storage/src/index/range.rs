//! Searches for a range of values.
//!
//! The entries of a range are in the order of their values, but a read wants places in the order of
//! the table. So each *pass* reads all entries of the range, and keeps the first places behind the
//! last returned one. If the read wants more places, another pass follows, which keeps eight times
//! as many, up to [`MAX_KEPT_BYTES`]. That bounds the memory (`kept`).
//!
//! A pass counts the remaining places. If the remaining passes and look-ups cost more than a scan
//! of the table, the read scans the table. The table's view remembers the range
//! ([`CostlyRanges`](crate::table::CostlyRanges)), so that later pages scan at once.
//!
//! If the range has many rows, a scan for few rows ends early. So a pass gives up when it has taken
//! about twice as long as such a scan would. Then this read scans; later reads search again.

use espalier_mutation::put_entry_value;
use espalier_runtime::maybe_yield;

use super::{
    candidates::{FIRST_PLACES, Found, Places},
    entry::{self, BEHIND},
    kept::{Kept, MAX_KEPT_BYTES},
    source::{EntrySource, IndexFile},
};
use crate::{FormBound, StorageError};

/// The factor by which each pass keeps more places than the pass before (arbitrary).
const GROWTH: usize = 8;

/// Entries that a pass reads in the time in which a scan reads a row; an estimate.
const ENTRIES_PER_ROW: u64 = 4;
/// Rows that a scan reads in the time of a look-up of one row; an estimate.
const ROWS_PER_LOOK_UP: u64 = 4;

/// The factor by which a scan may read more rows than it would if the rows of the range were spread
/// evenly over the table (arbitrary).
const UNEVENNESS: u64 = 2;

/// A search for a range of values in all sources of an index.
pub(super) struct RangeSearch {
    sources: Vec<EntrySource>,
    /// The rows of the table. A scan reads all of them.
    table_rows: u64,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    /// The maximum number of places that the next pass keeps; `None` before the first pass.
    most: Option<usize>,
    pass: Pass,
    /// The number of entries that all passes together have read.
    passed: u64,
}

/// The counts of one pass.
#[derive(Clone, Copy, Default)]
struct Pass {
    /// The number of entries that it has read.
    passed: u64,
    /// The number of these entries that are within the bounds of the read.
    wanted: u64,
    /// The number of places that it has kept.
    kept: usize,
    kept_bytes: usize,
}

impl Pass {
    /// Returns whether the pass has taken [`UNEVENNESS`] times as long as a scan of the table would
    /// take to meet `rows` rows of the range. The estimate for the scan assumes that these rows are
    /// spread evenly over the table, because the table is in the order of tokens.
    fn is_slower_than_scan(&self, rows: usize, table_rows: u64) -> bool {
        let rows_of_scan = table_rows.saturating_mul(rows as u64) / self.wanted.max(1);
        self.passed / ENTRIES_PER_ROW > rows_of_scan.saturating_mul(UNEVENNESS)
    }

    /// Returns the number of passes that the rest takes if the next pass keeps `most` places.
    fn passes_left(&self, mut most: usize) -> u64 {
        let mut left = self.wanted.saturating_sub(self.kept as u64);
        let max = MAX_KEPT_BYTES * self.kept.max(1) / self.kept_bytes.max(1);
        let mut passes = 0;
        while left > 0 && most < max {
            left = left.saturating_sub(most as u64);
            most = most.saturating_mul(GROWTH);
            passes += 1;
        }
        passes + left.div_ceil(max.max(1) as u64)
    }
}

impl RangeSearch {
    /// Creates a search for the values between two bounds.
    pub(super) fn new(
        sources: Vec<EntrySource>,
        lower: Option<&FormBound>,
        upper: Option<&FormBound>,
        table_rows: u64,
    ) -> Self {
        Self {
            sources,
            table_rows,
            lower: lower.map_or_else(Vec::new, |bound| near(bound, false)),
            upper: upper.map(|bound| near(bound, true)),
            most: None,
            pass: Pass::default(),
            passed: 0,
        }
    }

    pub(super) fn stream_count(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut IndexFile> {
        self.sources.iter_mut().filter_map(EntrySource::file)
    }

    /// Records which SSTables have an entry of the range that `check` refuses.
    pub(super) async fn find_malformed(
        &mut self,
        check: impl Fn(&[u8]) -> Result<(), StorageError>,
    ) {
        let bounds = (self.lower.as_slice(), self.upper.as_deref());
        for source in &mut self.sources {
            source.find_malformed(bounds, &check).await;
        }
    }

    /// Returns the number of entries that all passes together have read.
    pub(super) fn passed_entries(&self) -> u64 {
        self.passed
    }

    /// Returns whether the remaining passes and look-ups cost more than a scan.
    fn is_costly(&self) -> bool {
        let passes = self.pass.passes_left(self.most.unwrap_or(FIRST_PLACES));
        let look_ups = self.pass.wanted.saturating_sub(self.pass.kept as u64);
        let rows_of_passes = passes.saturating_mul(self.pass.passed) / ENTRIES_PER_ROW;
        let rows_of_look_ups = look_ups.saturating_mul(ROWS_PER_LOOK_UP);
        rows_of_passes.saturating_add(rows_of_look_ups) > self.table_rows
    }

    /// Makes a pass over the range, and returns the first places from `from` to `end`, for a read
    /// that wants `rows` more rows.
    pub(super) async fn next(
        &mut self,
        from: &[u8],
        end: Option<&[u8]>,
        rows: usize,
    ) -> Result<Found, StorageError> {
        let most = self.most.unwrap_or(rows.max(FIRST_PLACES));
        self.most = Some(most.saturating_mul(GROWTH));
        // Beyond this number of places, the look-ups by themselves would cost more than a scan.
        let most_wanted = (self.table_rows / ROWS_PER_LOOK_UP).saturating_add(most as u64);
        let mut kept = Kept::new(most);
        self.pass = Pass::default();
        for source in &mut self.sources {
            source.seek(&self.lower).await?;
            while let Some(found) = source.entry() {
                if self.upper.as_deref().is_some_and(|upper| found >= upper) {
                    break;
                }
                self.pass.passed += 1;
                self.passed += 1;
                let place = found.get(entry::value_length(found)?..).unwrap_or_default();
                if place >= from && end.is_none_or(|end| place < end) {
                    self.pass.wanted += 1;
                    kept.add(place);
                    if kept.is_cut() && self.pass.wanted > most_wanted {
                        return Ok(Found::Scan { of_any_rows: true });
                    }
                }
                if self.pass.is_slower_than_scan(rows, self.table_rows) {
                    return Ok(Found::Scan { of_any_rows: false });
                }
                source.next().await?;
                maybe_yield().await;
            }
        }
        (self.pass.kept, self.pass.kept_bytes) = (kept.finish(), kept.memory_bytes());
        if kept.is_cut() && self.is_costly() {
            return Ok(Found::Scan { of_any_rows: true });
        }
        let mut places = Vec::with_capacity(self.pass.kept);
        for place in kept.places() {
            places.push(place.to_vec());
            maybe_yield().await;
        }
        Ok(Found::Places(Places { places, is_last: !kept.is_cut() }))
    }
}

/// Returns the entry at a bound: it lies behind all entries before the bound, and before all
/// others.
fn near(bound: &FormBound, is_upper: bool) -> Vec<u8> {
    let mut value = Vec::new();
    put_entry_value(&bound.form, &mut value);
    if bound.inclusive == is_upper {
        value.push(BEHIND);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_few_rows_does_not_pass_a_long_range() {
        let pass = |passed, wanted| Pass { passed, wanted, ..Pass::default() };
        let gives_up_at = |share: u64| {
            (1..).find(|passed| pass(*passed, passed / share).is_slower_than_scan(10, 4_000_000))
        };
        // A scan meets 10 rows of n in 40 million / n rows.
        let entries = gives_up_at(1).unwrap();
        assert!((17_800..18_000).contains(&entries), "{entries}");
        // Entries before the page do not count as rows that a scan meets.
        assert!(gives_up_at(4).unwrap() > 2 * entries - 100);
        // A pass ends in a range shorter than that, and in any range if the read wants all rows.
        assert!(!pass(4_000_000, 4_000_000).is_slower_than_scan(usize::MAX, 4_000_000));
    }

    #[test]
    fn passes_grow_until_the_memory_is_full() {
        let pass = |wanted| Pass { passed: wanted, wanted, kept: 32, kept_bytes: 32 * 100 };
        assert_eq!(pass(32).passes_left(256), 0);
        assert_eq!(pass(32 + 256).passes_left(256), 1);
        assert_eq!(pass(32 + 256 + 2048).passes_left(256), 2);
        // 41,943 places of 100 bytes fill the memory.
        assert_eq!(pass(32 + 256 + 2048 + 16_384 + 41_943).passes_left(256), 4);
        assert_eq!(pass(32 + 256 + 2048 + 16_384 + 41_944).passes_left(256), 5);
    }
}

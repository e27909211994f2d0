//! Limits of pages and chunks, and LIMIT.

use super::super::{
    PlannedSelect,
    group::{MAX_RESULT_BYTES, too_large},
};
use crate::{
    Error, Result,
    options::QueryOptions,
    term::{Bound, Evaluation, Term},
};

/// Rows per chunk (arbitrary) if not every row read is a row of the page (filters, aggregates).
pub const CHUNK_ROWS: usize = 4096;
/// Rows that a read by an index reads in addition to the rows that the page lacks, because index
/// entries may be stale and filters may drop rows. Arbitrary.
pub const STALE_ROWS: usize = 16;
/// Each chunk of a read by an index has this many times the rows of the chunk before, up to 16 ×
/// [`CHUNK_ROWS`]. Arbitrary.
pub const GROWTH: usize = 8;
/// Bytes of rows per chunk, and of encoded rows per page. A page ends with the row that reaches the
/// limit.
pub const CHUNK_BYTES: usize = 4 << 20;
/// A statement that may not return a short page ends its chunk after `CHUNK_PAGES` × the page
/// tombstone limit, because a chunk pins its sources, including memtables that are flushed while
/// the chunk is read.
const CHUNK_PAGES: usize = 10;
/// Tombstones per chunk if the page tombstone limit is disabled.
const CHUNK_TOMBSTONES: usize = 100_000;

/// The limits of a page, and of the chunks of its reads.
pub struct PageLimits {
    /// Result rows at which the page ends; `usize::MAX` without paging.
    pub rows: usize,
    /// Bytes of encoded rows at which the page ends.
    pub bytes: usize,
    /// Tombstones after which a chunk ends.
    pub tombstones: usize,
    /// True if the page ends with a chunk that reached the tombstone limit, even if the page is
    /// empty.
    pub ends_among_tombstones: bool,
}

impl PageLimits {
    /// Returns the limits of one page. `page_tombstones` is the page tombstone limit; 0 disables
    /// it.
    pub fn new(select: &PlannedSelect, options: &QueryOptions<'_>, page_tombstones: u32) -> Self {
        let rows = match options.page_size.and_then(|size| usize::try_from(size).ok()) {
            Some(size) if size > 0 => size,
            _ => usize::MAX,
        };
        let is_paged = rows != usize::MAX;
        let page_tombstones = page_tombstones as usize;
        let ends_among_tombstones = page_tombstones > 0 && is_paged && select.is_exact();
        Self {
            rows,
            bytes: options.answer_bytes.min(if is_paged { CHUNK_BYTES } else { MAX_RESULT_BYTES }),
            tombstones: match page_tombstones {
                0 => CHUNK_TOMBSTONES,
                most if ends_among_tombstones => most,
                most => most.saturating_mul(CHUNK_PAGES),
            },
            ends_among_tombstones,
        }
    }

    /// Refuses a result without paging that has more bytes than drivers accept, or than the
    /// client's answer may have now.
    ///
    /// # Errors
    /// The result is too large.
    pub fn check_unpaged(&self, bytes: usize) -> Result<()> {
        if bytes > MAX_RESULT_BYTES {
            return Err(too_large());
        }
        if bytes > self.bytes {
            return Err(Error::answer_too_large());
        }
        Ok(())
    }

    /// Returns whether the client asked for pages.
    pub fn is_paged(&self) -> bool {
        self.rows != usize::MAX
    }
}

/// Evaluates a limit. Returns `usize::MAX` if it is absent or unset.
///
/// # Errors
/// The limit is null or not positive, does not have 4 bytes, or cannot be evaluated.
pub fn evaluate_limit(
    term: Option<&Term>,
    evaluation: &Evaluation<'_>,
    name: &str,
) -> Result<usize> {
    let Some(term) = term else { return Ok(usize::MAX) };
    match term.evaluate(evaluation)? {
        Bound::Unset => Ok(usize::MAX),
        Bound::Null => Err(Error::invalid("Invalid null value of limit")),
        Bound::Value(bytes) => match <[u8; 4]>::try_from(bytes.as_ref()).map(i32::from_be_bytes) {
            Ok(limit) if limit > 0 => Ok(limit as usize),
            // Cassandra has the first text for both limits. Here, the second text names PER
            // PARTITION LIMIT.
            Ok(_) => Err(Error::invalid(match name {
                "LIMIT" => "LIMIT must be strictly positive".to_string(),
                name => format!("LIMIT must be strictly positive: {name}"),
            })),
            Err(_) => Err(Error::invalid(format!("Invalid value of {name}: an int has 4 bytes"))),
        },
    }
}

//! Verifies an SSTable: reads its components and compares them with each other.
//!
//! * every checksum: digest of Data.db, every chunk, the parts of Statistics.db, the files that
//!   Scylla.db lists, and the pages that Checksums.db lists;
//! * Data.db read front to back without any index: order of partitions, rows and cell paths,
//!   nesting of range deletions, lengths of the preceding items, values against their types;
//! * the partition index: each partition is found again by its key, in the filter and in the order
//!   of the index;
//! * the row indexes: the index leads from the first and the last row of each block to this block,
//!   and each block begins where a row begins, with the deletion that is open there;
//! * Statistics.db recomputed.
//!
//! Memory: a row, a second filter, a writer's memory for statistics, and a page cache of 8 MiB.

mod content;
mod files;
mod partition;
mod report;
mod row_index;
mod statistics;
mod words;

use espalier_runtime::file::FileSystem;

use crate::{
    components::{Component, Descriptor},
    error::{Result, SSTableError},
    page_cache::PageCache,
    reader::SSTableReader,
};
pub use report::{FileProblems, Problem, Severity, VerifyReport};

/// Bytes of index pages and chunks that a verification caches.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// Verifies an SSTable. The report lists its faults.
///
/// # Errors
///
/// Returns an error only for a failure that ends the verification early, such as an unsupported
/// version or a failing disk; the report is lost then.
pub async fn verify(file_system: &FileSystem, descriptor: &Descriptor) -> Result<VerifyReport> {
    verify_watched(file_system, descriptor, false, &mut |_, _| {}).await
}

/// Verifies an SSTable and calls `watch` repeatedly with the number of bytes that are checked and
/// the number of all bytes. If `quick` is set, it compares the files with TOC.txt and with their
/// checksums, and checks no partition.
///
/// # Errors
///
/// Returns an error only for a failure that ends the verification early, such as an unsupported
/// version or a failing disk; the report is lost then.
pub async fn verify_watched(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    quick: bool,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    files::check_files(file_system, descriptor, &mut report).await?;
    let cache = PageCache::new(CACHE_BYTES);
    let mut opened = SSTableReader::open(file_system, descriptor.clone(), None, &cache).await;
    // TOC.txt may be missing or damaged, or list a missing component. The components that exist are
    // checked all the same.
    if let Some(error) = opened.as_ref().err().filter(|error| is_about_toc(error, descriptor)) {
        report.take_error(error.clone())?;
        opened = SSTableReader::open_unlisted(file_system, descriptor.clone(), None, &cache).await;
    }
    match opened {
        Ok(reader) => {
            content::check_content(&reader, quick, watch, &mut report).await?;
            content::check_summary(&reader, &mut report)?;
        }
        Err(error) => report.take_error(error)?,
    }
    Ok(report)
}

/// Returns whether a component is missing, or TOC.txt is damaged.
fn is_about_toc(error: &SSTableError, descriptor: &Descriptor) -> bool {
    match error {
        SSTableError::Corrupt { file, .. } => *file == descriptor.name_in_errors(&Component::Toc),
        SSTableError::Io(error) => error.is_not_found(),
        _ => false,
    }
}

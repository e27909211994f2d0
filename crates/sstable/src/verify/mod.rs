//! Looks at everything an SSTable says, and whether all of it agrees.
//!
//! * every checksum: digest of Data.db, every chunk, the parts of Statistics.db;
//! * Data.db read front to back without any index: order of partitions, rows and cell paths, nesting of range deletions,
//!   lengths of the unfiltereds before, values against their types;
//! * every partition found again by its key, in the filter, in the order of the index; every row found in the block that
//!   the row index gives for it; every block where a row begins, with the deletion that is open there;
//! * Statistics.db recomputed.
//!
//! Memory: a row, and what a writer needs for statistics.

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

/// Bytes of index pages and chunks that a verification keeps.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// Verifies an SSTable. What is wrong with it is in the report; an error is only what kept the verification from going on,
/// and then the report would have said nothing more.
pub async fn verify(file_system: &FileSystem, descriptor: &Descriptor) -> Result<VerifyReport> {
    verify_watched(file_system, descriptor, false, &mut |_, _| {}).await
}

/// The same, with somebody who is told again and again how many bytes of how many have been looked at. `quick`: every
/// checksum, and nothing else.
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
    // Without the list of its components the rest is looked at all the same.
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

/// Whether TOC.txt, or something else, is missing, or TOC.txt is not what it should be.
fn is_about_toc(error: &SSTableError, descriptor: &Descriptor) -> bool {
    match error {
        SSTableError::Corrupt { file, .. } => *file == descriptor.name_in_errors(&Component::Toc),
        SSTableError::Io(error) => error.is_not_found(),
        _ => false,
    }
}

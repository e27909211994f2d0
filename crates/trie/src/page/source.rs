//! The source of pages.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::ops::Deref;

use super::error::ReadError;
use super::layout::PAGE_SIZE;

/// A source of the pages of one file: a page cache, a file or memory.
///
/// The dispatch is static: if the page is cached the future is ready at its first poll, and a
/// look-up costs no more than with a plain function.
pub trait PageSource {
    /// A page; holding it keeps the bytes alive.
    type Page: Deref<Target = [u8]>;
    /// The reason why a page could not be provided.
    type Error;

    /// Returns the page of [`PAGE_SIZE`] bytes that begins at `page_number * PAGE_SIZE`. The last
    /// page of a file may be shorter, and pages after the end are empty; neither is an error.
    fn page(&self, page_number: u64) -> impl Future<Output = Result<Self::Page, Self::Error>>;
}

impl<S: PageSource> PageSource for &S {
    type Page = S::Page;
    type Error = S::Error;

    fn page(&self, page_number: u64) -> impl Future<Output = Result<Self::Page, Self::Error>> {
        S::page(self, page_number)
    }
}

/// A whole file in memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPages<'file>(pub &'file [u8]);

impl<'file> PageSource for MemoryPages<'file> {
    type Page = &'file [u8];
    type Error = Infallible;

    fn page(&self, page_number: u64) -> impl Future<Output = Result<Self::Page, Self::Error>> {
        let start = usize::try_from(page_number).ok().and_then(|page| page.checked_mul(PAGE_SIZE));
        let rest = start.and_then(|start| self.0.get(start..)).unwrap_or_default();
        ready(Ok(rest.get(..PAGE_SIZE).unwrap_or(rest)))
    }
}

/// Appends the `length` bytes at `position` to `output`, across pages. Returns the number of bytes
/// read: fewer than `length` if the file ends before. Memory grows with the bytes read, not with
/// `length`.
///
/// # Errors
/// Fails if a page cannot be read.
pub async fn read_bytes<S: PageSource>(
    source: &S,
    position: u64,
    length: usize,
    output: &mut Vec<u8>,
) -> Result<usize, ReadError<S::Error>> {
    let mut position = position;
    let mut missing = length;
    while missing > 0 {
        let page = source.page(position / PAGE_SIZE as u64).await.map_err(ReadError::Source)?;
        let offset = (position % PAGE_SIZE as u64) as usize;
        let rest = page.get(offset..PAGE_SIZE.min(page.len())).unwrap_or_default();
        let part = rest.get(..missing).unwrap_or(rest);
        output.extend_from_slice(part);
        missing -= part.len();
        let Some(next) = position.checked_add(part.len() as u64) else { break };
        position = next;
        if part.is_empty() || offset + part.len() < PAGE_SIZE {
            break;
        }
    }
    Ok(length - missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::testing::block_on;

    #[test]
    fn bytes_are_read_across_pages_up_to_the_end_of_the_file() {
        let file: Vec<u8> = (0..3 * PAGE_SIZE + 100).map(|i| (i % 251) as u8).collect();
        let ranges = [(0, 10), (4090, 20), (100, 9000), (4096, 4096), (12_380, 50), (99_999, 1)];
        for (position, length) in ranges {
            let mut output = vec![7];
            let pages = MemoryPages(&file);
            let read = read_bytes(&pages, position as u64, length, &mut output);
            let read = block_on(read).unwrap();
            let end = file.len().min(position + length);
            let expected = file.get(position..end).unwrap_or_default();
            assert_eq!((read, &output[1..]), (expected.len(), expected));
        }
    }
}

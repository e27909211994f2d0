//! Reads the vectors of one index of an SSTable, through the page cache.

use std::ops::Range;

use bytes::Bytes;
use espalier_runtime::{file::PAGE_BYTES, maybe_yield};

use super::{
    layout::{Segment, VectorDescription},
    records::Records,
    search::{NearNodes, SegmentSearch},
    top::Top,
};
use crate::{
    error::{Result, SSTableError},
    page_cache::{CachedFile, Caching},
};

/// The vectors of one index of an SSTable, for one search. It holds no pages.
pub struct VectorIndex<'i> {
    pub(crate) file: CachedFile,
    pub(crate) description: &'i VectorDescription,
}

/// A vector that a search has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// The similarity to the query, of the vector or of its code.
    pub similarity: f32,
    /// The greatest likely error of the similarity; 0 if the vector itself was compared.
    pub error: f32,
    segment: u32,
    entry: u32,
}

impl Neighbor {
    fn number(&self) -> (u32, u32) {
        (self.segment, self.entry)
    }
}

/// The extent of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearestSearch {
    /// The number of vectors to return.
    pub count: usize,
    /// The minimum number of nodes whose links a search of a graph follows.
    pub width: usize,
    /// The factor by which the search multiplies the graph's width.
    pub widths: usize,
    /// See [`VectorLimits::graph_cost`](super::VectorLimits::graph_cost).
    pub graph_cost: usize,
}

/// The outcome of a search.
#[derive(Debug, Default)]
pub struct NearestNodes {
    /// The most similar vectors, in descending order.
    pub found: Vec<Neighbor>,
    /// The greatest likely error of a similarity: of the vectors found, and of those left out in
    /// segments that were searched without a graph.
    pub error: f32,
    /// True if the search may have left out vectors of the component.
    pub is_cut: bool,
}

impl<'i> VectorIndex<'i> {
    /// Returns the vectors for one search. With `bypass_cache`, the search leaves the page cache
    /// unchanged.
    pub(crate) fn new(
        file: &CachedFile,
        description: &'i VectorDescription,
        bypass_cache: bool,
    ) -> Self {
        let caching = if bypass_cache { Caching::Private } else { Caching::Shared };
        Self { file: file.for_one_read(caching), description }
    }

    /// Returns the number of vectors.
    pub fn count(&self) -> u64 {
        self.description.segments.iter().map(|segment| u64::from(segment.count)).sum()
    }

    /// Returns the number of segments that have a graph.
    pub fn graphs(&self) -> usize {
        self.description.segments.iter().filter(|segment| segment.links.is_some()).count()
    }

    /// Returns the vectors that are most similar to `query`. Codes and graphs make the result
    /// approximate.
    ///
    /// # Errors
    /// Fails if a page cannot be read or is damaged, or the query has another dimension.
    pub async fn nearest(&self, query: &[f32], search: NearestSearch) -> Result<NearestNodes> {
        if query.len() != self.description.dimension as usize {
            let reason = "its vectors have another dimension than the query".to_string();
            return Err(SSTableError::rejected(self.file.name(), reason));
        }
        let (mut top, mut max_error) = (Top::new(search.count), 0_f32);
        for (number, segment) in (0..).zip(&self.description.segments) {
            let segment_search = SegmentSearch::new(self, segment, query);
            let NearNodes { nodes, error } = segment_search.run(&search, &mut top).await?;
            max_error = max_error.max(error);
            let mut room = search.count;
            for (similarity, node) in nodes {
                let entries = self.entries(segment, node).await?;
                if entries.len() > room {
                    top.cut();
                }
                if room == 0 {
                    break;
                }
                let error = segment_search.error(similarity, node).await?;
                max_error = max_error.max(error);
                for entry in entries.take(room) {
                    top.push(similarity, Neighbor { similarity, error, segment: number, entry });
                    room -= 1;
                }
                maybe_yield().await;
            }
        }
        let by_number = |left: &Neighbor, right: &Neighbor| left.number().cmp(&right.number());
        let (found, bound) = top.finish_in_steps(by_number).await;
        let found = found.into_iter().map(|(_, neighbor)| neighbor).collect();
        Ok(NearestNodes { found, error: max_error, is_cut: bound.is_some() })
    }

    /// Reads the place of a vector.
    ///
    /// # Errors
    /// Fails if a page cannot be read or is damaged.
    pub async fn place(&self, found: &Neighbor) -> Result<Vec<u8>> {
        let segment = self.description.segments.get(found.segment as usize);
        let segment = segment.ok_or_else(|| self.corrupt(0, "it has no such segment"))?;
        let from = match found.entry.checked_sub(1) {
            Some(before) => self.end_of_place(segment, before).await?,
            None => 0,
        };
        let end = self.end_of_place(segment, found.entry).await?;
        if from > end || u64::from(end) > segment.places_length {
            return Err(self.corrupt(segment.ends, "the ends of its places are not in order"));
        }
        let (mut at, end) = (segment.places + u64::from(from), segment.places + u64::from(end));
        let mut place = Vec::with_capacity((end - at) as usize);
        while at < end {
            let page = self.file.page(at / PAGE_BYTES as u64).await?;
            let offset = (at % PAGE_BYTES as u64) as usize;
            let rest = page.get(offset..).unwrap_or_default();
            let part = &rest[..rest.len().min((end - at) as usize)];
            if part.is_empty() {
                return Err(self.corrupt(at, "a place lies behind the end of the file"));
            }
            place.extend_from_slice(part);
            at += part.len() as u64;
            maybe_yield().await;
        }
        Ok(place)
    }

    /// Returns the entries of a node.
    async fn entries(&self, segment: &Segment, node: u32) -> Result<Range<u32>> {
        let Some(records) = segment.first_records() else { return Ok(node..node + 1) };
        let first = self.number(records, node).await?;
        let end = match node + 1 {
            next if next < segment.nodes => self.number(records, next).await?,
            _ => segment.count,
        };
        if first >= end || end > segment.count {
            return Err(self.corrupt(records.start, "the entries of its nodes are not in order"));
        }
        Ok(first..end)
    }

    async fn end_of_place(&self, segment: &Segment, entry: u32) -> Result<u32> {
        self.number(segment.end_records(), entry).await
    }

    /// Reads a record that is a number.
    async fn number(&self, records: Records, index: u32) -> Result<u32> {
        let (page, offset) = records.locate(index as usize);
        let page = self.file.page(records.first_page() + page).await?;
        let number = page.get(offset..offset + records.length);
        let number = number.and_then(|number| number.try_into().ok()).map(u32::from_be_bytes);
        number.ok_or_else(|| self.corrupt(records.start, "it is too short"))
    }

    /// Reads a record that takes more than one page.
    pub(super) async fn long_record(&self, first: u64, pages: u64) -> Result<Bytes> {
        let mut record = Vec::with_capacity(pages as usize * PAGE_BYTES);
        for page in first..first + pages {
            record.extend_from_slice(&self.file.page(page).await?);
        }
        Ok(record.into())
    }

    pub(super) fn corrupt(&self, position: u64, reason: &str) -> SSTableError {
        SSTableError::corrupt(self.file.name(), position, reason)
    }
}

//! Searches one segment.
//!
//! 1. If there is no graph, or a search of the graph would cost as much as a comparison of all
//!    vectors, the search compares all vectors, page by page.
//! 2. Otherwise the search begins at the graph's entry node. Step by step it follows the links of
//!    the nearest node whose links it has not followed, until it has followed the links of the
//!    `width` nearest nodes that it has met.
//!
//! A search of a graph reads the codes of all links of a node together. It holds no other codes,
//! because the page cache keeps their pages.

use std::collections::HashSet;

use bytes::Bytes;
use espalier_runtime::maybe_yield;
use futures_util::future::try_join_all;

use super::{
    beam::Beam,
    codes::CodedQuery,
    layout::{FACT_BYTES, Form, Links, Segment},
    reader::{NearestSearch, VectorIndex},
    records::Records,
    scales::ScaleClasses,
    top::Top,
};
use crate::error::{Result, SSTableError};

/// The nodes of a segment that a search has found.
pub(super) struct NearNodes {
    /// Similarities and nodes, in descending order.
    pub(super) nodes: Vec<(f32, u32)>,
    /// The greatest likely error of the similarity of a node that was left out; 0 if the search has
    /// followed a graph.
    pub(super) error: f32,
}

pub(super) struct SegmentSearch<'s> {
    index: &'s VectorIndex<'s>,
    segment: &'s Segment,
    points: Records,
    query: &'s [f32],
    coded: CodedQuery,
}

impl<'s> SegmentSearch<'s> {
    pub(super) fn new(index: &'s VectorIndex<'s>, segment: &'s Segment, query: &'s [f32]) -> Self {
        let points = segment.point_records(index.description.dimension);
        let coded = CodedQuery::new(index.description.similarity, query, &segment.center);
        Self { index, segment, points, query, coded }
    }

    /// Returns the nodes that are most similar to the query, in descending order. If the search has
    /// left out nodes, records this in `top`.
    pub(super) async fn run<T>(
        &self,
        search: &NearestSearch,
        top: &mut Top<T>,
    ) -> Result<NearNodes> {
        let width = |links: &Links| {
            let of_graph = (links.width as usize).saturating_mul(search.widths);
            of_graph.max(search.width).max(search.count)
        };
        let is_quick = |links: &Links| {
            let compared = width(links).saturating_mul(search.graph_cost);
            compared < self.segment.nodes as usize
        };
        let links = self.segment.links.filter(is_quick);
        let similarity = self.index.description.similarity.with_query(self.query);
        if let Some(links) = links {
            top.cut();
            return Ok(NearNodes { nodes: self.follow(links, width(&links)).await?, error: 0.0 });
        }
        let mut scales = ScaleClasses::new();
        let mut own = Top::new(search.count);
        let mut floats = vec![0f32; self.query.len()];
        let records = self.points;
        let (mut node, count) = (0_u32, self.segment.nodes);
        while node < count {
            let (page, offset) = records.locate(node as usize);
            let bytes = self.page(page).await?;
            // A page has at least one record; a record longer than a page was read as a whole.
            let on_page = bytes.get(offset..).unwrap_or_default().chunks_exact(records.length);
            let before = node;
            for record in on_page.take((count - node) as usize).take(records.per_page().max(1)) {
                let found = match self.segment.form {
                    Form::Exact => {
                        let (components, _) = record.as_chunks::<4>();
                        for (to, from) in floats.iter_mut().zip(components) {
                            *to = f32::from_le_bytes(*from);
                        }
                        similarity.of(&floats).unwrap_or(f32::NAN)
                    }
                    Form::Codes => {
                        let (scale, similarity) = self.compare_code(record)?;
                        scales.add(scale, similarity);
                        similarity
                    }
                };
                own.push(found, node);
                node += 1;
            }
            if node == before {
                return Err(self.is_short());
            }
            maybe_yield().await;
        }
        let (nodes, bound) = own.finish_in_steps(u32::cmp).await;
        let Some(bound) = bound else { return Ok(NearNodes { nodes, error: 0.0 }) };
        top.cut();
        Ok(NearNodes { nodes, error: scales.error(&self.coded, bound) })
    }

    /// Returns the greatest likely error of a similarity that [`Self::run`] has returned; 0 for
    /// floats.
    pub(super) async fn error(&self, similarity: f32, node: u32) -> Result<f32> {
        if self.segment.form == Form::Exact {
            return Ok(0.0);
        }
        let (number, offset) = self.points.locate(node as usize);
        let page = self.page(number).await?;
        let scale = page.get(offset..).and_then(<[u8]>::first_chunk);
        let scale = scale.ok_or_else(|| self.is_short())?;
        Ok(self.coded.error(similarity, f32::from_le_bytes(*scale)))
    }

    /// Reads a page of vectors, or all pages of a record that is longer than a page.
    async fn page(&self, page: u64) -> Result<Bytes> {
        let number = self.points.first_page() + page;
        match self.points.pages_of_one() {
            1 => self.index.file.page(number).await,
            pages => self.index.long_record(number, pages).await,
        }
    }

    /// Searches the graph, and returns the `width` nearest nodes that it has met.
    async fn follow(&self, links: Links, width: usize) -> Result<Vec<(f32, u32)>> {
        let mut met: HashSet<u32, foldhash::fast::FixedState> = HashSet::default();
        let mut beam = Beam::new(width);
        met.insert(links.entry);
        let mut fresh = vec![links.entry];
        self.compare(&mut fresh, &mut beam).await?;
        let records = links.records();
        while let Some((_, node)) = beam.expand() {
            let (page, offset) = records.locate(node as usize);
            let page = self.index.file.page(records.first_page() + page).await?;
            let record = page.get(offset..offset + records.length).unwrap_or_default();
            let (numbers, _) = record.as_chunks::<4>();
            let Some((count, linked)) = numbers.split_first() else {
                return Err(self.index.corrupt(links.start, "a page of links is short"));
            };
            let count = u32::from_be_bytes(*count) as usize;
            fresh.clear();
            for link in linked.iter().take(count).map(|link| u32::from_be_bytes(*link)) {
                if link >= self.segment.nodes {
                    return Err(self.index.corrupt(links.start, "a link leads to no vector"));
                }
                if met.insert(link) {
                    fresh.push(link);
                }
            }
            self.compare(&mut fresh, &mut beam).await?;
            maybe_yield().await;
        }
        Ok(beam.nodes().map(|(distance, node)| (-distance, node)).collect())
    }

    /// Compares nodes with the query, and adds them to the beam. Reads their pages together,
    /// because each may have to come from the disk.
    async fn compare(&self, nodes: &mut [u32], beam: &mut Beam) -> Result<()> {
        nodes.sort_unstable();
        let page_of = |node: &u32| self.points.locate(*node as usize).0;
        let on_pages: Vec<&[u32]> =
            nodes.chunk_by(|left, right| page_of(left) == page_of(right)).collect();
        let firsts = on_pages.iter().filter_map(|nodes| nodes.first());
        let pages = try_join_all(firsts.map(|node| self.page(page_of(node)))).await?;
        for (page, nodes) in pages.iter().zip(on_pages) {
            for node in nodes {
                let (_, offset) = self.points.locate(*node as usize);
                let record = page.get(offset..offset + self.points.length);
                let record = record.ok_or_else(|| self.is_short())?;
                beam.add(-self.compare_code(record)?.1, *node);
            }
        }
        Ok(())
    }

    /// Returns the scale of the code in a record, and the similarity of the query to it.
    #[inline]
    fn compare_code(&self, record: &[u8]) -> Result<(f32, f32)> {
        let facts = record.split_at_checked(FACT_BYTES);
        let (facts, components) = facts.ok_or_else(|| self.is_short())?;
        let (facts, _) = facts.as_chunks::<4>();
        let [scale, square] = facts else { return Err(self.is_short()) };
        let (scale, square) = (f32::from_le_bytes(*scale), f32::from_le_bytes(*square));
        // Other numbers would disturb the order of all nodes.
        if !(scale.is_finite() && scale >= 0.0 && square.is_finite()) {
            return Err(self.index.corrupt(self.segment.points, "a code has an invalid scale"));
        }
        let components = components.iter().map(|component| component.cast_signed());
        Ok((scale, self.coded.similarity(scale, square, components)))
    }

    fn is_short(&self) -> SSTableError {
        self.index.corrupt(self.segment.points, "a page of vectors is short")
    }
}

//! Searches one segment.
//!
//! 1. If there is no graph, or a search of the graph would cost as much as a comparison of all
//!    vectors, the search compares all vectors, page by page.
//! 2. Otherwise the search begins at the graph's entry node. Step by step it follows the links of
//!    the nearest node whose links it has not followed, until it has followed the links of the
//!    `width` nearest nodes that it has met.
//!
//! A search of a graph reads the codes of all links of a node together. It holds no other codes,
//! because the page cache keeps their pages. If all these codes are cached, the search compares
//! them in the cache. It prefetches them before, because a search of a large graph mostly waits for
//! memory.

use bytes::Bytes;
use espalier_runtime::{maybe_yield, trace};
use espalier_trie::prefetch::prefetch_range;
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
use crate::{
    error::{Result, SSTableError},
    page_cache::Caching,
};

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
        let mut met = MetNodes::new(self.segment.nodes);
        let mut beam = Beam::new(width);
        met.insert(links.entry);
        let mut fresh = vec![links.entry];
        self.compare(&mut fresh, &mut beam).await?;
        while let Some((_, node)) = beam.expand() {
            fresh.clear();
            if !self.meet_cached(links, node, &mut met, &mut fresh)? {
                let page = Box::pin(self.index.file.page(links.locate(node).0)).await?;
                self.meet(links, node, &page, &mut met, &mut fresh)?;
            }
            // Usually no fresh node is nearer, so the search follows the links of this node next.
            if let Some(next) = beam.nearest() {
                self.prefetch_links(links, next);
            }
            self.compare(&mut fresh, &mut beam).await?;
            maybe_yield().await;
        }
        Ok(beam.nodes().map(|(distance, node)| (-distance, node)).collect())
    }

    /// Returns whether the search may borrow pages of the cache. A private read changes no
    /// frequencies, and a traced read reports each page.
    fn may_borrow_pages(&self) -> bool {
        self.index.file.caching() == Caching::Shared && !trace::is_on()
    }

    /// Calls [`Self::meet`] if the page of the links is cached. Otherwise returns false.
    fn meet_cached(
        &self,
        links: Links,
        node: u32,
        met: &mut MetNodes,
        fresh: &mut Vec<u32>,
    ) -> Result<bool> {
        if !self.may_borrow_pages() {
            return Ok(false);
        }
        let file = &self.index.file;
        let pages = file.cache().cached_pages(&[]);
        let Some(page) = pages.get(file.key(links.locate(node).0)) else { return Ok(false) };
        self.meet(links, node, page, met, fresh)?;
        Ok(true)
    }

    /// Marks the nodes to which a node links as met, and adds the newly met ones to `fresh`. `page`
    /// is the page of the node's links.
    fn meet(
        &self,
        links: Links,
        node: u32,
        page: &[u8],
        met: &mut MetNodes,
        fresh: &mut Vec<u32>,
    ) -> Result<()> {
        let (_, record) = links.locate(node);
        let (numbers, _) = page.get(record).unwrap_or_default().as_chunks::<4>();
        let Some((count, linked)) = numbers.split_first() else {
            return Err(self.index.corrupt(links.start, "a page of links is short"));
        };
        let count = u32::from_be_bytes(*count) as usize;
        for link in linked.iter().take(count).map(|link| u32::from_be_bytes(*link)) {
            if link >= self.segment.nodes {
                return Err(self.index.corrupt(links.start, "a link leads to no vector"));
            }
            if met.insert(link) {
                fresh.push(link);
            }
        }
        Ok(())
    }

    /// Prefetches the links of a node if their page is cached.
    fn prefetch_links(&self, links: Links, node: u32) {
        if !self.may_borrow_pages() {
            return;
        }
        let file = &self.index.file;
        let pages = file.cache().cached_pages(&[]);
        let (number, record) = links.locate(node);
        if let Some(page) = pages.look_at(file.key(number)) {
            prefetch_range(page, record.start, record.end);
        }
    }

    /// Compares nodes with the query, and adds them to the beam.
    async fn compare(&self, nodes: &mut [u32], beam: &mut Beam) -> Result<()> {
        nodes.sort_unstable();
        if self.compare_cached(nodes, beam)? {
            return Ok(());
        }
        // Boxed, because the future is large and the search seldom needs it.
        Box::pin(self.read_and_compare(nodes, beam)).await
    }

    /// Compares ascending nodes if all their pages are cached. Otherwise compares none, and returns
    /// false.
    fn compare_cached(&self, nodes: &[u32], beam: &mut Beam) -> Result<bool> {
        let records = self.points;
        if !self.may_borrow_pages() || records.pages_of_one() > 1 {
            return Ok(false);
        }
        let (file, first_page) = (&self.index.file, records.first_page());
        let pages = file.cache().cached_pages(&[]);
        let mut found = Vec::with_capacity(nodes.len());
        for node in nodes {
            let (page, offset) = records.locate(*node as usize);
            let key = file.key(first_page + page);
            let Some(slot) = pages.slot(key) else { return Ok(false) };
            let (page, end) = (pages.peek(slot).unwrap_or_default(), offset + records.length);
            prefetch_range(page, offset, end);
            found.push((key, slot, page.get(offset..end)));
        }
        let mut last = None;
        for (node, (key, slot, record)) in nodes.iter().zip(found) {
            if last.replace(key) != Some(key) {
                pages.count_use(key, slot);
            }
            let record = record.ok_or_else(|| self.is_short())?;
            beam.add(-self.compare_code(record)?.1, *node);
        }
        Ok(true)
    }

    /// Compares ascending nodes. Reads their pages together, because each may have to come from the
    /// disk.
    async fn read_and_compare(&self, nodes: &[u32], beam: &mut Beam) -> Result<()> {
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
        Ok((scale, self.coded.similarity(scale, square, components)))
    }

    fn is_short(&self) -> SSTableError {
        self.index.corrupt(self.segment.points, "a page of vectors is short")
    }
}

/// The nodes of a segment that a search has met: one bit for each node.
struct MetNodes(Vec<u64>);

impl MetNodes {
    fn new(nodes: u32) -> Self {
        Self(vec![0; nodes.div_ceil(u64::BITS) as usize])
    }

    /// Marks a node of the segment. Returns whether the search meets it for the first time.
    #[inline]
    fn insert(&mut self, node: u32) -> bool {
        let Some(marks) = self.0.get_mut((node / u64::BITS) as usize) else { return false };
        let mark = 1_u64 << (node % u64::BITS);
        let is_first = *marks & mark == 0;
        *marks |= mark;
        is_first
    }
}

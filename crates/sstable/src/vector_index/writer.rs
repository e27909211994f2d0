//! Writes the vectors of one index beside a new SSTable.
//!
//! Memory: the vectors and places of one segment, and its graph while it is built.

use espalier_runtime::{
    file::{FileSystem, PAGE_BYTES},
    maybe_yield,
};
use espalier_trie::page::Sink as _;
use espalier_types::Similarity;

use super::{
    graph::{self, MAX_LINKS},
    layout::{
        END_OF_PLACE_BYTES, FACT_BYTES, FIRST_ENTRY_BYTES, Form, Links, Segment, VectorDescription,
    },
    points::{Groups, VectorLimits, VectorPoints, Vectors},
    records::Records,
};
use crate::{
    append_file::{AppendFile, WrittenFile},
    components::{Component, Descriptor},
    error::{Result, SSTableError},
};

/// Number of records that are written between two chances to yield.
const AT_ONCE: usize = 16;

/// A writer of one component. The owner adds it to the SSTable's writer
/// ([`SSTableWriter::add_vector_index`](crate::SSTableWriter::add_vector_index)), which lists the
/// component, or drops it with the SSTable.
pub struct VectorIndexWriter {
    component: Component,
    file: AppendFile,
    description: VectorDescription,
    min_graph: usize,
}

impl VectorIndexWriter {
    /// Creates the file. `signature` is the text by which a reader recognises the entries.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be created.
    pub async fn create(
        file_system: &FileSystem,
        descriptor: &Descriptor,
        index: &str,
        signature: &str,
        (similarity, dimension): (Similarity, usize),
        limits: &VectorLimits,
        is_durable: bool,
    ) -> Result<Self> {
        let component = Component::SecondaryIndex(index.into());
        let path = descriptor.path(&component);
        let file = AppendFile::create(file_system, &path, is_durable).await?;
        let description = VectorDescription {
            signature: signature.into(),
            similarity,
            dimension: u32::try_from(dimension).unwrap_or(u32::MAX),
            segments: Vec::new(),
        };
        Ok(Self { component, file, description, min_graph: limits.min_graph })
    }

    /// Writes a segment, with a graph if it has many vectors and `may_build_graph` is set. The
    /// graph takes some hundred microseconds for each vector.
    ///
    /// # Errors
    /// Fails if a write fails, or if the places take 4 GiB.
    pub async fn write_segment(
        &mut self,
        mut points: VectorPoints,
        may_build_graph: bool,
    ) -> Result<()> {
        points.settle().await;
        let (count, dimension) = (points.len(), points.dimension);
        if count == 0 {
            return Ok(());
        }
        if points.places.total_length() >= u32::MAX as usize {
            let reason = "the primary keys of its rows take 4 GiB";
            return Err(SSTableError::rejected(self.file.name(), reason));
        }
        let groups = points.groups().await;
        let (form, center, nodes, at, links) = match points.vectors() {
            Vectors::Exact(vectors) => {
                let records = self.records(dimension * size_of::<f32>());
                let start = self.write(records, count, |index, out| {
                    for x in vectors.row(index) {
                        out.extend_from_slice(&x.to_le_bytes());
                    }
                });
                (Form::Exact, Vec::new(), count, start.await?, None)
            }
            Vectors::Codes(codes) => {
                let nodes = codes.len();
                let has_graph = may_build_graph && nodes >= self.min_graph;
                let records = self.records(FACT_BYTES + dimension);
                let start = self.write(records, nodes, |index, out| {
                    let code = codes.code_of(index as u32);
                    out.extend_from_slice(&code.scale.to_le_bytes());
                    out.extend_from_slice(&code.square.to_le_bytes());
                    out.extend_from_slice(code.components);
                });
                let start = start.await?;
                let links = if has_graph { Some(self.write_graph(codes).await?) } else { None };
                (Form::Codes, codes.center().to_vec(), nodes, start, links)
            }
        };
        let firsts = match &groups {
            Some(groups) => {
                let records = self.records(FIRST_ENTRY_BYTES);
                let start = self.write(records, nodes, |index, out| {
                    let first = groups.firsts.get(index).copied().unwrap_or(0);
                    out.extend_from_slice(&first.to_be_bytes());
                });
                Some(start.await?)
            }
            None => None,
        };
        let (ends, places) = self.write_places(&points, groups.as_ref()).await?;
        self.description.segments.push(Segment {
            form,
            center,
            count: count as u32,
            nodes: nodes as u32,
            firsts,
            points: at,
            links,
            ends,
            places,
            places_length: points.places.total_length() as u64,
        });
        Ok(())
    }

    /// Writes the ends of all places of a segment, then the places, in the order of `groups`.
    /// Returns the positions of the ends and of the places.
    async fn write_places(
        &mut self,
        points: &VectorPoints,
        groups: Option<&Groups>,
    ) -> Result<(u64, u64)> {
        let count = points.len();
        let place = |index: usize| {
            let added = match groups {
                Some(groups) => groups.order.get(index).map_or(0, |added| *added as usize),
                None => index,
            };
            points.places.get(added).unwrap_or_default()
        };
        let records = self.records(END_OF_PLACE_BYTES);
        let mut end = 0_u32;
        let ends = self.write(records, count, |index, out| {
            end += place(index).len() as u32;
            out.extend_from_slice(&end.to_be_bytes());
        });
        let ends = ends.await?;
        let places = self.file.position();
        for index in 0..count {
            self.file.append(place(index));
            self.file.flush_if_large().await?;
            maybe_yield().await;
        }
        Ok((ends, places))
    }

    async fn write_graph(&mut self, codes: &super::codes::Codes) -> Result<Links> {
        let graph = graph::build(codes).await;
        let most = MAX_LINKS as u32;
        let mut found = Links { start: 0, most, entry: graph.entry, width: graph.width };
        let records = self.records(found.records().length);
        let start = self.write(records, codes.len(), |index, out| {
            let links = graph.links(index as u32);
            out.extend_from_slice(&(links.len() as u32).to_be_bytes());
            links.iter().for_each(|link| out.extend_from_slice(&link.to_be_bytes()));
            out.resize(out.len() + (MAX_LINKS - links.len()) * size_of::<u32>(), 0);
        });
        found.start = start.await?;
        Ok(found)
    }

    /// Returns the place of records that begin at the next page.
    fn records(&self, length: usize) -> Records {
        Records { start: self.file.position().next_multiple_of(PAGE_BYTES as u64), length }
    }

    /// Writes records and fills the last page. `put` makes each record. Returns the position of the
    /// first record.
    async fn write(
        &mut self,
        records: Records,
        count: usize,
        mut put: impl FnMut(usize, &mut Vec<u8>),
    ) -> Result<u64> {
        let mut record = Vec::with_capacity(records.length);
        self.fill(records.start);
        for index in 0..count {
            let (page, offset) = records.locate(index);
            self.fill(records.start + page * PAGE_BYTES as u64 + offset as u64);
            record.clear();
            put(index, &mut record);
            self.file.append(&record);
            if index % AT_ONCE == 0 {
                self.file.flush_if_large().await?;
                maybe_yield().await;
            }
        }
        self.fill(records.start + records.pages(count) * PAGE_BYTES as u64);
        Ok(records.start)
    }

    /// Appends zeroes up to a position.
    fn fill(&mut self, position: u64) {
        let missing = position.saturating_sub(self.file.position()) as usize;
        const ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
        self.file.append(ZEROES.get(..missing).unwrap_or(&ZEROES));
    }

    /// Writes the description.
    pub(crate) async fn finish(mut self) -> Result<(Component, WrittenFile)> {
        let mut out = Vec::new();
        self.description.encode(self.file.position(), &mut out);
        self.file.append(&out);
        Ok((self.component, self.file.finish().await?))
    }
}

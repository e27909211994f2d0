//! Encodes and decodes the part of the file behind its segments: the description and the end.

use std::ops::Range;

use espalier_types::Similarity;

use super::records::Records;
use crate::error::{FileName, Result, SSTableError};

/// The last bytes of a component with vectors.
pub(crate) const MAGIC: [u8; 4] = *b"espv";
/// No release has written an earlier version, so the reader refuses them.
pub(crate) const VERSION: u32 = 3;

/// Bytes of a code's record before its components: its scale and a square.
pub(super) const FACT_BYTES: usize = 8;
/// Bytes of the number that is the end of a place.
pub(super) const END_OF_PLACE_BYTES: usize = 4;

/// Bytes of the number of a node's first entry.
pub(super) const FIRST_ENTRY_BYTES: usize = 4;

/// Bytes behind the description: its position, the version and the last bytes of the file.
#[cfg(test)]
pub(super) const END_BYTES: usize = 16;

const MAX_SEGMENTS: u32 = 1 << 20;
/// Maximum number of links of a node that a reader accepts (arbitrary). The writer makes fewer.
const MAX_LINKS: u32 = 1000;

/// The form of the vectors of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Floats, little-endian.
    Exact,
    /// Codes.
    Codes,
}

/// The graph of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) start: u64,
    /// Maximum number of links of a node.
    pub(super) most: u32,
    /// The node at which searches begin.
    pub(super) entry: u32,
    /// The least number of nodes whose links a search should follow.
    pub(super) width: u32,
}

/// Some vectors with their places.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) form: Form,
    /// The center of the codes; empty for floats.
    pub(super) center: Vec<f32>,
    /// The number of entries.
    pub(super) count: u32,
    /// The number of nodes. Entries with equal codes share a node.
    pub(super) nodes: u32,
    /// The position of the numbers of the nodes' first entries; `None` if node i has only entry i.
    pub(super) firsts: Option<u64>,
    /// The position of the vectors.
    pub(super) points: u64,
    pub(super) links: Option<Links>,
    /// The position of the ends of the places. Each end counts from the first place.
    pub(super) ends: u64,
    /// The position of the first place.
    pub(super) places: u64,
    /// Bytes of all places.
    pub(super) places_length: u64,
}

/// The description of a component with vectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VectorDescription {
    /// The target of the index, the type of its column and the similarity.
    pub(crate) signature: String,
    pub(super) similarity: Similarity,
    pub(super) dimension: u32,
    pub(super) segments: Vec<Segment>,
}

impl Segment {
    /// Returns the records of the vectors.
    pub(super) fn point_records(&self, dimension: u32) -> Records {
        let dimension = dimension as usize;
        let length = match self.form {
            Form::Exact => dimension * size_of::<f32>(),
            Form::Codes => FACT_BYTES + dimension,
        };
        Records { start: self.points, length }
    }

    /// Returns the records of the numbers of first entries.
    pub(super) fn first_records(&self) -> Option<Records> {
        self.firsts.map(|start| Records { start, length: FIRST_ENTRY_BYTES })
    }

    /// Returns the records of the ends of places.
    pub(super) fn end_records(&self) -> Records {
        Records { start: self.ends, length: END_OF_PLACE_BYTES }
    }

    /// Returns whether all parts lie before a position of the file.
    fn lies_before(&self, dimension: u32, position: u64) -> bool {
        let (count, nodes) = (self.count as usize, self.nodes as usize);
        let has_nodes = match self.first_records() {
            Some(firsts) => nodes <= count && firsts.lie_before(nodes, position),
            None => nodes == count,
        };
        let has_links = self.links.is_none_or(|links| {
            links.records().lie_before(nodes, position)
                && links.entry < self.nodes
                && (1..=MAX_LINKS).contains(&links.most)
        });
        let places_end = self.places.checked_add(self.places_length);
        has_nodes
            && has_links
            && self.point_records(dimension).lie_before(nodes, position)
            && self.end_records().lie_before(count, position)
            && places_end.is_some_and(|end| end <= position)
    }
}

impl Links {
    /// Returns the records of the links: their number, and as many numbers of nodes as fit.
    pub(super) fn records(&self) -> Records {
        Records { start: self.start, length: (self.most as usize + 1) * size_of::<u32>() }
    }

    /// Returns the number of the page that has the links of a node, and their range in that page.
    #[inline]
    pub(super) fn locate(&self, node: u32) -> (u64, Range<usize>) {
        let records = self.records();
        let (page, offset) = records.locate(node as usize);
        (records.first_page() + page, offset..offset + records.length)
    }
}

impl VectorDescription {
    /// Appends the description, which begins at `position`, and the end of the file.
    pub(super) fn encode(&self, position: u64, out: &mut Vec<u8>) {
        let be32 = |value: u32, out: &mut Vec<u8>| out.extend_from_slice(&value.to_be_bytes());
        let be64 = |value: u64, out: &mut Vec<u8>| out.extend_from_slice(&value.to_be_bytes());
        be32(self.signature.len() as u32, out);
        out.extend_from_slice(self.signature.as_bytes());
        be32(self.dimension, out);
        out.push(similarity_code(self.similarity));
        be32(self.segments.len() as u32, out);
        for segment in &self.segments {
            out.push(u8::from(segment.form == Form::Codes));
            segment.center.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
            be32(segment.count, out);
            be32(segment.nodes, out);
            be64(segment.firsts.unwrap_or(0), out);
            be64(segment.points, out);
            let links = segment.links.unwrap_or(Links { start: 0, most: 0, entry: 0, width: 0 });
            be64(links.start, out);
            be32(links.most, out);
            be32(links.entry, out);
            be32(links.width, out);
            be64(segment.ends, out);
            be64(segment.places, out);
            be64(segment.places_length, out);
        }
        be64(position, out);
        be32(VERSION, out);
        out.extend_from_slice(&MAGIC);
    }

    /// Decodes the description, which begins at `position`.
    pub(crate) fn decode(name: &FileName, bytes: &[u8], position: u64) -> Result<Self> {
        let corrupt = |reason: &str| SSTableError::corrupt(name, position, reason);
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (part, behind) =
                rest.split_at_checked(count).ok_or_else(|| corrupt("its description is cut"))?;
            rest = behind;
            Ok::<&[u8], SSTableError>(part)
        };
        let be32 = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_be_bytes);
        let be64 = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        let length = be32(take(4)?) as usize;
        let signature = String::from_utf8(take(length)?.to_vec())
            .map_err(|_| corrupt("its signature is no UTF-8"))?;
        let dimension = be32(take(4)?);
        let similarity = take(1)?.first().and_then(|code| similarity_of(*code));
        let similarity = similarity.ok_or_else(|| corrupt("its similarity is unknown"))?;
        let count = be32(take(4)?);
        if count > MAX_SEGMENTS {
            return Err(corrupt("it has too many segments"));
        }
        // No upper limit, because the writer has none: if the reader refused a file that the node
        // has just written, the node would rewrite the SSTable again and again.
        if dimension == 0 {
            return Err(corrupt("its vectors have no components"));
        }
        let mut segments = Vec::new();
        for _ in 0..count {
            let form = match take(1)? {
                [0] => Form::Exact,
                [1] => Form::Codes,
                _ => return Err(corrupt("the form of its vectors is unknown")),
            };
            let mut center = Vec::new();
            if form == Form::Codes {
                let (floats, _) = take(dimension as usize * size_of::<f32>())?.as_chunks::<4>();
                center.extend(floats.iter().map(|x| f32::from_le_bytes(*x)));
                if center.iter().any(|x| !x.is_finite()) {
                    return Err(corrupt("the center of its codes is not finite"));
                }
            }
            let (count, nodes) = (be32(take(4)?), be32(take(4)?));
            let (firsts, points) = (be64(take(8)?), be64(take(8)?));
            let links = Links {
                start: be64(take(8)?),
                most: be32(take(4)?),
                entry: be32(take(4)?),
                width: be32(take(4)?),
            };
            let segment = Segment {
                form,
                center,
                count,
                nodes,
                firsts: (firsts > 0).then_some(firsts),
                points,
                links: (links.most > 0).then_some(links),
                ends: be64(take(8)?),
                places: be64(take(8)?),
                places_length: be64(take(8)?),
            };
            if !segment.lies_before(dimension, position) {
                return Err(corrupt("a part of a segment lies behind the segments"));
            }
            segments.push(segment);
        }
        if rest.is_empty() {
            Ok(Self { signature, similarity, dimension, segments })
        } else {
            Err(corrupt("there are bytes behind its last segment"))
        }
    }
}

fn similarity_code(similarity: Similarity) -> u8 {
    match similarity {
        Similarity::Euclidean => 0,
        Similarity::DotProduct => 1,
        Similarity::Cosine => 2,
    }
}

fn similarity_of(code: u8) -> Option<Similarity> {
    Similarity::ALL.into_iter().find(|similarity| similarity_code(*similarity) == code)
}

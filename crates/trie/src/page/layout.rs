//! The layout of a node of a page trie: sixteen kinds of nodes, their distances and their sizes.
//!
//! The first byte of a node is `kind << 4 | payload bits`. A node refers to a child by its
//! distance, which is the position of the parent minus the position of the child. Children lie
//! before their parents, so that the writer knows their positions when it writes the parent.
//! Distances inside a branch stay the same wherever the branch lies, so that the writer can encode
//! a branch before it knows the branch's position.
//!
//! A node and its payload lie within one page. Pages have 4096 bytes and begin at multiples of 4096
//! in the file. The writer fills up pages with zero bytes; a reader never sees these, because it
//! follows distances from the root.
//!
//! The layout is Apache Cassandra's (CASSANDRA-18398, "BTI"), also written by ScyllaDB.

/// Bytes of a page. The format fixes the number: a reader loads one page for a node, so it could
/// not read a file whose nodes lie across the pages' boundaries.
pub const PAGE_SIZE: usize = 4096;

/// Bytes of the largest node body: a head of 3 bytes and 256 slots of 8 bytes.
pub const MAX_BODY_SIZE: usize = 3 + 256 * 8;

/// Bytes of the largest payload. A node with this payload fits in a page even if it has the largest
/// body.
pub const MAX_PAYLOAD_SIZE: usize = PAGE_SIZE - 1 - MAX_BODY_SIZE;

/// The length of the longest path that the writer accepts and the reader follows, in bytes of key.
///
/// The longest keys of a database are an escaped partition key of 2 × 65,535 bytes, and a
/// clustering of a few such columns. Without a limit, a hostile file could make the stack of a
/// cursor grow to the size of the file. The exact number is arbitrary.
pub const MAX_DEPTH: usize = 1 << 21;

/// The form in which a node stores its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// No children.
    Leaf,
    /// One child.
    Single,
    /// The transitions that have a child, in ascending order, and then their distances.
    Sparse,
    /// The first transition and the number of slots, and then a slot for each transition from the
    /// first to the last. A slot holds the distance of the child, or 0 if there is none.
    Dense,
}

/// The kind of a node. Its number is the upper half of the node's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum NodeKind {
    PayloadOnly,
    SingleNoPayload4,
    Single8,
    SingleNoPayload12,
    Single16,
    Sparse8,
    Sparse12,
    Sparse16,
    Sparse24,
    Sparse40,
    Dense12,
    Dense16,
    Dense24,
    Dense32,
    Dense40,
    LongDense,
}

use NodeKind::*;

/// The kinds in the order of their numbers.
pub const KINDS: [NodeKind; 16] = [
    PayloadOnly,
    SingleNoPayload4,
    Single8,
    SingleNoPayload12,
    Single16,
    Sparse8,
    Sparse12,
    Sparse16,
    Sparse24,
    Sparse40,
    Dense12,
    Dense16,
    Dense24,
    Dense32,
    Dense40,
    LongDense,
];

/// The kind of a node with one child, for each width class of the distance: 4, 8, 12, 16, 24, 32,
/// 40 and 64 bits. `SPARSES` and `DENSES` have the kinds of nodes with several children.
const SINGLES: [NodeKind; 8] =
    [SingleNoPayload4, Single8, SingleNoPayload12, Single16, Dense24, Dense32, Dense40, LongDense];
const SPARSES: [NodeKind; 8] =
    [Sparse8, Sparse8, Sparse12, Sparse16, Sparse24, Sparse40, Sparse40, LongDense];
const DENSES: [NodeKind; 8] =
    [Dense12, Dense12, Dense12, Dense16, Dense24, Dense32, Dense40, LongDense];

/// Returns the narrowest of the eight width classes that holds `distance`.
const fn width_class(distance: u64) -> usize {
    match u64::BITS - distance.leading_zeros() {
        0..=4 => 0,
        5..=8 => 1,
        9..=12 => 2,
        13..=16 => 3,
        17..=24 => 4,
        25..=32 => 5,
        33..=40 => 6,
        _ => 7,
    }
}

impl NodeKind {
    /// Returns the kind of a node from its first byte.
    #[inline]
    pub const fn of_header(header: u8) -> NodeKind {
        KINDS[(header >> 4) as usize]
    }

    /// Returns the form in which a node of this kind stores its children.
    #[inline]
    pub const fn shape(self) -> Shape {
        match self {
            PayloadOnly => Shape::Leaf,
            SingleNoPayload4 | Single8 | SingleNoPayload12 | Single16 => Shape::Single,
            Sparse8 | Sparse12 | Sparse16 | Sparse24 | Sparse40 => Shape::Sparse,
            _ => Shape::Dense,
        }
    }

    /// Returns whether the lower half of the first byte describes a payload.
    #[inline]
    pub const fn can_have_payload(self) -> bool {
        !matches!(self, SingleNoPayload4 | SingleNoPayload12)
    }

    /// Returns the number of bits of one distance.
    #[inline]
    pub const fn distance_bits(self) -> usize {
        match self {
            PayloadOnly => 0,
            SingleNoPayload4 => 4,
            Single8 | Sparse8 => 8,
            SingleNoPayload12 | Sparse12 | Dense12 => 12,
            Single16 | Sparse16 | Dense16 => 16,
            Sparse24 | Dense24 => 24,
            Dense32 => 32,
            Sparse40 | Dense40 => 40,
            LongDense => 64,
        }
    }

    /// Returns the number of bytes from the first byte of the node up to its payload. `slots` is
    /// the number of children of a sparse node and the span of transitions of a dense one.
    #[inline]
    pub const fn body_size(self, slots: usize) -> usize {
        let distances_size = (slots * self.distance_bits()).div_ceil(8);
        match self {
            PayloadOnly => 1,
            SingleNoPayload4 => 2,
            Single8 | SingleNoPayload12 => 3,
            Single16 => 4,
            Sparse8 | Sparse12 | Sparse16 | Sparse24 | Sparse40 => 2 + slots + distances_size,
            _ => 3 + distances_size,
        }
    }

    /// Returns the kind for a node with `children` children. `span` is the number of transitions
    /// from the first child's to the last child's, and `max_distance` is the distance of the
    /// farthest child in bytes. A node with several children is sparse if that takes fewer bytes
    /// than dense, else dense; this is Cassandra's rule.
    pub const fn choose(
        children: usize,
        span: usize,
        max_distance: u64,
        has_payload: bool,
    ) -> NodeKind {
        let class = width_class(max_distance);
        match children {
            0 => PayloadOnly,
            1 => match (SINGLES[class], has_payload) {
                (SingleNoPayload4, true) => Single8,
                (SingleNoPayload12, true) => Single16,
                (kind, _) => kind,
            },
            _ => {
                let (sparse, dense) = (SPARSES[class], DENSES[class]);
                if sparse.body_size(children) < dense.body_size(span) { sparse } else { dense }
            }
        }
    }

    /// Returns the number of slots that a node with these children has, for
    /// [`NodeKind::body_size`].
    #[inline]
    pub const fn slots(self, children: usize, span: usize) -> usize {
        match self.shape() {
            Shape::Dense => span,
            _ => children,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_format() {
        let table = [
            (PayloadOnly, 0, 1),
            (SingleNoPayload4, 1, 2),
            (Single8, 1, 3),
            (SingleNoPayload12, 1, 3),
            (Single16, 1, 4),
            (Sparse8, 3, 2 + 6),
            (Sparse12, 3, 2 + 3 + 5),
            (Sparse12, 4, 2 + 4 + 6),
            (Sparse16, 3, 2 + 9),
            (Sparse24, 3, 2 + 12),
            (Sparse40, 3, 2 + 18),
            (Dense12, 3, 3 + 5),
            (Dense16, 3, 3 + 6),
            (Dense24, 1, 6),
            (Dense32, 3, 3 + 12),
            (Dense40, 256, 3 + 5 * 256),
            (LongDense, 256, MAX_BODY_SIZE),
        ];
        for (kind, slots, size) in table {
            assert_eq!(kind.body_size(slots), size, "{kind:?} {slots}");
        }
        const { assert!(MAX_BODY_SIZE + MAX_PAYLOAD_SIZE < PAGE_SIZE) };
    }

    #[test]
    fn the_narrowest_kind_is_chosen() {
        let single = |distance| NodeKind::choose(1, 1, distance, false);
        assert_eq!(single(15), SingleNoPayload4);
        assert_eq!(single(16), Single8);
        assert_eq!(single(256), SingleNoPayload12);
        assert_eq!(single(4096), Single16);
        assert_eq!(single(1 << 16), Dense24);
        assert_eq!(single(1 << 24), Dense32);
        assert_eq!(single(1 << 32), Dense40);
        assert_eq!(single(1 << 40), LongDense);
        assert_eq!(NodeKind::choose(1, 1, 3, true), Single8);
        assert_eq!(NodeKind::choose(1, 1, 300, true), Single16);
        // A node is sparse if its children are far apart. It is dense if its children are
        // neighbours, or if both kinds have equal sizes.
        assert_eq!(NodeKind::choose(2, 100, 10, false), Sparse8);
        assert_eq!(NodeKind::choose(2, 3, 10, false), Sparse8);
        assert_eq!(NodeKind::choose(2, 2, 10, false), Dense12);
        assert_eq!(NodeKind::choose(2, 2, 300, false), Dense12);
        assert_eq!(NodeKind::choose(200, 256, 1 << 16, false), Dense24);
        assert_eq!(NodeKind::choose(2, 200, 1 << 40, false), LongDense);
    }
}

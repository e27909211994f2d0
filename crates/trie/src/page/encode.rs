//! Encodes a node as bytes.

use super::layout::{NodeKind, Shape};

/// A child as its parent's bytes describe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub transition: u8,
    /// Position of the child's first byte, in the coordinates of the node being written.
    pub child: u64,
}

/// Returns kind and body size of a node at `position` with these children, which are ordered by
/// transition.
pub(super) fn measure(edges: &[Edge], position: u64, has_payload: bool) -> (NodeKind, usize) {
    let (Some(first), Some(last)) = (edges.first(), edges.last()) else {
        return (NodeKind::PayloadOnly, 1);
    };
    let span = usize::from(last.transition - first.transition) + 1;
    let nearest_to_start = edges.iter().map(|edge| edge.child).min().unwrap_or(position);
    let kind = NodeKind::choose(edges.len(), span, position - nearest_to_start, has_payload);
    (kind, kind.body_size(kind.slots(edges.len(), span)))
}

/// Appends the node at `position`, of the kind that [`measure`] chose.
pub(super) fn encode(
    output: &mut Vec<u8>,
    kind: NodeKind,
    edges: &[Edge],
    position: u64,
    payload_bits: u8,
    payload: &[u8],
) {
    debug_assert!(kind.can_have_payload() || payload_bits == 0);
    let header = (kind as u8) << 4;
    match (kind.shape(), edges) {
        (Shape::Leaf, _) | (_, []) => output.push(header | payload_bits),
        (Shape::Single, [edge, ..]) => {
            single(output, kind, edge.transition, position - edge.child, payload_bits)
        }
        (Shape::Sparse, edges) => {
            output.extend([header | payload_bits, edges.len() as u8]);
            output.extend(edges.iter().map(|edge| edge.transition));
            let distances = edges.iter().map(|edge| position - edge.child);
            pack(output, kind.distance_bits(), distances);
        }
        (Shape::Dense, [first, .., last]) => {
            let length_less_one = last.transition - first.transition;
            output.extend([header | payload_bits, first.transition, length_less_one]);
            let mut rest = edges.iter().peekable();
            let distances = (first.transition..=last.transition).map(|transition| {
                match rest.next_if(|edge| edge.transition == transition) {
                    Some(edge) => position - edge.child,
                    None => 0,
                }
            });
            pack(output, kind.distance_bits(), distances);
        }
        (Shape::Dense, [only]) => {
            output.extend([header | payload_bits, only.transition, 0]);
            pack(output, kind.distance_bits(), [position - only.child].into_iter());
        }
    }
    output.extend_from_slice(payload);
}

fn single(output: &mut Vec<u8>, kind: NodeKind, transition: u8, distance: u64, payload_bits: u8) {
    let header = (kind as u8) << 4;
    match kind {
        NodeKind::SingleNoPayload4 => output.extend([header | distance as u8, transition]),
        NodeKind::SingleNoPayload12 => {
            output.extend([header | (distance >> 8) as u8, distance as u8, transition])
        }
        NodeKind::Single8 => output.extend([header | payload_bits, transition, distance as u8]),
        _ => output.extend([
            header | payload_bits,
            transition,
            (distance >> 8) as u8,
            distance as u8,
        ]),
    }
}

/// Appends big-endian distances of `bits` bits each, the last byte filled up with zero bits.
fn pack(output: &mut Vec<u8>, bits: usize, mut distances: impl Iterator<Item = u64>) {
    if bits == 12 {
        while let Some(even) = distances.next() {
            output.push((even >> 4) as u8);
            let high = (even << 4) as u8;
            match distances.next() {
                Some(odd) => output.extend([high | (odd >> 8) as u8, odd as u8]),
                None => output.push(high),
            }
        }
    } else {
        for distance in distances {
            output.extend_from_slice(&distance.to_be_bytes()[8 - bits / 8..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::layout::{KINDS, PAGE_SIZE};
    use crate::page::{Node, Search};
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    /// Encodes a node, puts it at its position in a page of other bytes, and reads it back.
    fn check(edges: &[Edge], position: u64, payload_bits: u8, payload: &[u8]) -> NodeKind {
        let (kind, body_size) = measure(edges, position, payload_bits != 0);
        let mut bytes = Vec::new();
        encode(&mut bytes, kind, edges, position, payload_bits, payload);
        assert_eq!(bytes.len(), body_size + payload.len());
        let mut page = vec![0xEE; (position % PAGE_SIZE as u64) as usize];
        page.extend_from_slice(&bytes);
        let node = Node::at(&page, position).unwrap();
        assert_eq!((node.kind(), node.body_size()), (kind, body_size));
        assert_eq!((node.payload_bits(), node.payload()), (payload_bits, payload));
        let children: Vec<(u8, u64)> = (0..node.slots())
            .filter_map(|slot| Some((node.transition(slot), node.child(slot).unwrap()?)))
            .collect();
        let expected: Vec<(u8, u64)> =
            edges.iter().map(|edge| (edge.transition, edge.child)).collect();
        assert_eq!(children, expected);
        for transition in 0..=255 {
            let exact = expected.iter().find(|(other, _)| *other == transition);
            let lesser = expected.iter().rfind(|(other, _)| *other < transition);
            let greater = expected.iter().find(|(other, _)| *other > transition);
            let child = |found: Option<&(u8, u64)>| found.map(|(_, child)| *child);
            assert_eq!(node.child_for(transition).unwrap(), child(exact));
            let search = node.search(transition);
            let (Search::Found(slot) | Search::Missing(slot)) = search;
            let found = matches!(search, Search::Found(_));
            assert_eq!(found, exact.is_some());
            let before = node.child_before(slot).unwrap().map(|(_, child)| child);
            assert_eq!(before, child(lesser));
            let after = node.child_from(slot + usize::from(found)).unwrap();
            assert_eq!(after.map(|(_, child)| child), child(greater));
        }
        kind
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and there is no unsafe code in it")]
    fn every_kind_comes_back() {
        let mut seen = std::collections::HashSet::new();
        let shapes: [&[u8]; 6] =
            [&[], &[7], &[0xFF], &[0, 0xFF], &[3, 4, 5, 7], &[0, 0x10, 0x20, 0x7F, 0xF0]];
        for transitions in shapes {
            for distance_bits in 1..60 {
                for payload_bits in [0, 9] {
                    let payload: &[u8] = if payload_bits == 0 { &[] } else { b"payload" };
                    if transitions.is_empty() && payload.is_empty() {
                        continue;
                    }
                    let position = (1 << 61) + 100;
                    let mut distance: u64 = 1 << distance_bits;
                    let edge = |&transition| {
                        distance = distance.saturating_sub(1).max(1);
                        Edge { transition, child: position - distance }
                    };
                    let edges: Vec<Edge> = transitions.iter().map(edge).collect();
                    seen.insert(check(&edges, position, payload_bits, payload) as u8);
                }
            }
        }
        let all: Vec<Edge> = (0..=255).map(|transition| Edge { transition, child: 9 }).collect();
        for position in [300, 5000, 70_000, 1 << 24, 1 << 32] {
            // The node must fit into the page. With 256 distances of 8 bytes, it is longer than 2
            // KiB.
            let position = position / PAGE_SIZE as u64 * PAGE_SIZE as u64 + 11;
            seen.insert(check(&all, position, 3, b"abc") as u8);
        }
        assert_eq!(seen.len(), KINDS.len());
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "slow, and there is no unsafe code in it")]
        fn nodes_come_back(
            children in btree_map(any::<u8>(), 1_u64..1 << 40, 1..100),
            shift in 0_u32..40,
            position in 1_u64 << 40..1 << 42,
            payload_bits in 0_u8..16,
        ) {
            // The node begins in the first half of a page, so it fits into the page.
            let position = position & !0xFFF | position & 0x7FF;
            let edges: Vec<Edge> = children
                .iter()
                .map(|(&transition, distance)| {
                    Edge { transition, child: position - (distance >> shift).max(1) }
                })
                .collect();
            let payload: &[u8] = if payload_bits == 0 { &[] } else { b"xyz" };
            check(&edges, position, payload_bits, payload);
        }
    }
}

//! Node to bytes.

use super::layout::{NodeKind, Shape};

/// A child as its parent's bytes tell it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub transition: u8,
    /// Position of the child's first byte, in the coordinates of the node being written.
    pub child: u64,
}

/// Kind and body size of a node at `position` with these children, which are ordered by transition.
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

/// Big-endian distances of `bits` bits each, the last byte filled up with zero bits.
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

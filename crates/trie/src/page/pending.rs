//! Branches that are finished but not yet in the file.
//!
//! A branch is a node with its descendants. Nodes are finished in post-order, so everything pending
//! lies on one stack, and a branch is a range at its top. Distances inside a branch do not depend
//! on the branch's later position: as long as all descendants are pending too, the branch is kept
//! as the very bytes that will be written, and its parent's bytes are appended after it. Only nodes
//! above an already placed branch, one in a few hundred, must wait until their own position is
//! known; a branch that holds such nodes is a list of pieces in post-order, evaluated with a stack
//! of root positions. There is no object per node.

use std::ops::Range;

use super::encode::{Edge, encode, measure};
use super::layout::{NodeKind, PAGE_SIZE};

/// A step of a branch in post-order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    /// A branch that is in the file, its root at `position`.
    Placed { position: u64 },
    /// A branch in its final form; its root is the last `root_size` bytes.
    Bytes { start: usize, length: u16, root_size: u16 },
    /// A node above the `children` branches before this piece. Its transitions start at `start`,
    /// and its payload follows them.
    Node { start: usize, children: u16, payload_size: u16, payload_bits: u8 },
    /// A chain of `length` nodes with one child each, above the branch before this piece. Its
    /// transitions start at `start`, in key order.
    Chain { start: usize, length: u16 },
}

/// The lengths of `pieces` and `bytes`; [`Pending::truncate`] returns to them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub pieces: usize,
    pub bytes: usize,
}

/// The place of a branch, or the place that it would have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub root: u64,
    /// Position after the root, the branch's last node.
    pub end: u64,
}

/// The stack of pending branches. The pieces refer to ranges of `bytes`.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub pieces: Vec<Piece>,
    pub bytes: Vec<u8>,
    // Buffers of `evaluate`, kept for reuse.
    roots: Vec<u64>,
    edges: Vec<Edge>,
}

/// Returns the bytes that a vector has allocated.
pub(super) fn bytes_of<T>(vec: &Vec<T>) -> usize {
    vec.capacity() * size_of::<T>()
}

impl Pending {
    /// Returns the bytes that are allocated.
    pub fn memory_bytes(&self) -> usize {
        let stacks = bytes_of(&self.pieces) + bytes_of(&self.bytes);
        stacks + bytes_of(&self.roots) + bytes_of(&self.edges)
    }

    pub fn truncate(&mut self, mark: Mark) {
        self.pieces.truncate(mark.pieces);
        self.bytes.truncate(mark.bytes);
    }

    /// Returns the place that the branch of these pieces would have if it were written at
    /// `position`.
    pub fn measure(&mut self, pieces: Range<usize>, position: u64) -> Placement {
        self.evaluate(pieces, position, None, false)
    }

    /// Writes the branch for `position` to `output`.
    pub fn write(
        &mut self,
        pieces: Range<usize>,
        position: u64,
        output: &mut Vec<u8>,
    ) -> Placement {
        self.evaluate(pieces, position, Some(output), false)
    }

    /// Writes a branch that does not fit in a page, with padding before each piece that would cross
    /// a boundary.
    pub fn write_scattered(
        &mut self,
        pieces: Range<usize>,
        position: u64,
        output: &mut Vec<u8>,
    ) -> Placement {
        self.evaluate(pieces, position, Some(output), true)
    }

    fn evaluate(
        &mut self,
        pieces: Range<usize>,
        position: u64,
        mut output: Option<&mut Vec<u8>>,
        scatter: bool,
    ) -> Placement {
        let Pending { pieces: all, bytes, roots, edges } = self;
        let mut position = position;
        // If `scatter` is set and the piece does not fit in the rest of the page, pads to the next
        // page. Returns the piece's position. The caller measures again, because the size may
        // depend on the position.
        let settle = |position: u64, output: &mut Option<&mut Vec<u8>>, size: usize| {
            let left = PAGE_SIZE - (position % PAGE_SIZE as u64) as usize;
            if !scatter || size <= left {
                return position;
            }
            if let Some(output) = output {
                output.resize(output.len() + left, 0);
            }
            position + left as u64
        };
        roots.clear();
        for piece in &all[pieces] {
            match *piece {
                Piece::Placed { position } => roots.push(position),
                Piece::Bytes { start, length, root_size } => {
                    position = settle(position, &mut output, usize::from(length));
                    if let Some(output) = &mut output {
                        output.extend_from_slice(&bytes[start..start + usize::from(length)]);
                    }
                    position += u64::from(length);
                    roots.push(position - u64::from(root_size));
                }
                Piece::Node { start, children, payload_size, payload_bits } => {
                    let (children, payload_size) =
                        (usize::from(children), usize::from(payload_size));
                    let first_child = roots.len() - children;
                    let transitions = &bytes[start..start + children];
                    edges.clear();
                    edges.extend(
                        transitions
                            .iter()
                            .zip(roots.drain(first_child..))
                            .map(|(&transition, child)| Edge { transition, child }),
                    );
                    let has_payload = payload_bits != 0;
                    let (_, body) = measure(edges, position, has_payload);
                    position = settle(position, &mut output, body + payload_size);
                    let (kind, body) = measure(edges, position, has_payload);
                    if let Some(output) = &mut output {
                        let payload = &bytes[start + children..start + children + payload_size];
                        encode(output, kind, edges, position, payload_bits, payload);
                    }
                    roots.push(position);
                    position += (body + payload_size) as u64;
                }
                Piece::Chain { start, length } => {
                    let child = roots.pop().unwrap_or(position);
                    let length = usize::from(length);
                    position =
                        settle(position, &mut output, chain_size(position - child, length).size);
                    let chain = chain_size(position - child, length);
                    if let Some(output) = &mut output {
                        let transitions = &bytes[start..start + length];
                        write_chain(output, transitions, position - child);
                    }
                    position += chain.size as u64;
                    roots.push(position - chain.root_size as u64);
                }
            }
        }
        Placement { root: roots.pop().unwrap_or(position), end: position }
    }
}

/// Sizes of a chain of nodes with one child each.
pub(super) struct ChainSize {
    pub size: usize,
    pub root_size: usize,
}

/// Size of a node that refers to its neighbour in a chain.
const LINK_SIZE: usize = 2;

/// Returns the size of the lowest node of a chain, which lies `distance` bytes after its child.
pub(super) fn chain_foot_size(distance: u64) -> usize {
    let kind = NodeKind::choose(1, 1, distance, false);
    kind.body_size(kind.slots(1, 1))
}

/// Returns the sizes of a chain of `length` nodes, at least 1, of which the lowest lies `distance`
/// bytes after its child.
pub(super) fn chain_size(distance: u64, length: usize) -> ChainSize {
    let foot = chain_foot_size(distance);
    let size = foot + LINK_SIZE * (length - 1);
    ChainSize { size, root_size: if length == 1 { foot } else { LINK_SIZE } }
}

/// Returns the number of nodes of a chain that fit in `room` bytes.
pub(super) fn chain_length_within(room: usize, distance: u64) -> usize {
    match room.checked_sub(chain_foot_size(distance)) {
        Some(rest) => 1 + rest / LINK_SIZE,
        None => 0,
    }
}

/// Appends a chain, lowest node first; `transitions` are in key order.
pub(super) fn write_chain(output: &mut Vec<u8>, transitions: &[u8], distance: u64) {
    let mut distance = distance;
    for &transition in transitions.iter().rev() {
        let kind = NodeKind::choose(1, 1, distance, false);
        let start = output.len();
        // Uses the node's own coordinates, with its child at 0.
        encode(output, kind, &[Edge { transition, child: 0 }], distance, 0, &[]);
        distance = (output.len() - start) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Node;

    /// Returns a branch. The root has two transitions: '-' leads to a node whose two children are
    /// placed branches, and 'c' leads through a chain "def" to a leaf.
    fn branch() -> Pending {
        let mut pending = Pending { bytes: b"\x01LEAFab-cdef".to_vec(), ..Pending::default() };
        pending.pieces = vec![
            Piece::Placed { position: 10 },
            Piece::Placed { position: 70_000 },
            Piece::Node { start: 5, children: 2, payload_size: 0, payload_bits: 0 },
            Piece::Bytes { start: 0, length: 5, root_size: 5 },
            Piece::Chain { start: 9, length: 3 },
            Piece::Node { start: 7, children: 2, payload_size: 0, payload_bits: 0 },
        ];
        pending
    }

    fn check(file: &[u8], base: u64, root: u64) {
        let node = |position: u64| {
            let page = position / PAGE_SIZE as u64 * PAGE_SIZE as u64;
            Node::at(&file[(page - base) as usize..], position).unwrap()
        };
        let child = |position, transition| node(position).child_for(transition).unwrap().unwrap();
        let fork = child(root, b'-');
        assert_eq!((child(fork, b'a'), child(fork, b'b')), (10, 70_000));
        let leaf = b"cdef".iter().fold(root, |position, &transition| child(position, transition));
        assert!(node(leaf).payload().starts_with(b"LEAF"));
    }

    #[test]
    fn a_written_branch_has_the_measured_root_and_end() {
        for base in [1 << 20, 1 << 30] {
            for position in [base, base + 77] {
                let mut pending = branch();
                let measured = pending.measure(0..6, position);
                let mut file = vec![0; (position - base) as usize];
                let written = pending.write(0..6, position, &mut file);
                assert_eq!((measured.root, measured.end), (written.root, written.end));
                assert_eq!(written.end - base, file.len() as u64);
                check(&file, base, written.root);
            }
        }
    }

    #[test]
    fn a_scattered_branch_keeps_its_nodes_within_pages() {
        let base = 1 << 20;
        for left in 1..40 {
            let position = base + PAGE_SIZE as u64 - left;
            let mut pending = branch();
            let mut file = vec![0; PAGE_SIZE - left as usize];
            let written = pending.write_scattered(0..6, position, &mut file);
            assert_eq!(written.end - base, file.len() as u64);
            check(&file, base, written.root);
        }
    }
}

//! The page-aware writer takes keys in increasing order and writes packed pages.
//!
//! Only the path to the last key is open. A node is finished when a key leaves it. It stays pending
//! if it takes less than a page together with its pending descendants. Otherwise the branches of
//! its children are written first: always the largest branch that fits in the rest of the page, so
//! that most branches lie within one page. Bytes of a key between two nodes that branch or carry a
//! payload need no node of their own until they are written, so long shared prefixes cost one
//! comparison.
//!
//! Memory: the last key, and for each open node at most 256 pending branches of less than a page.
//! It does not grow with the number of keys.
//!
//! The rules of packing are those of Cassandra's `IncrementalTrieWriterPageAware`, so that files
//! have the same size. The data structures differ.

use super::encode::{Edge, encode, measure};
use super::error::WriteError;
use super::layout::{MAX_DEPTH, MAX_PAYLOAD_SIZE, PAGE_SIZE};
use super::pending::{
    Mark, Pending, Piece, bytes_of as of, chain_length_within, chain_size, write_chain,
};
use super::sink::Sink;

/// Writes tries into one file, one after another.
#[derive(Debug, Default)]
pub struct PageTrieWriter {
    /// Length of the file so far.
    position: u64,
    /// The last key.
    key: Vec<u8>,
    /// The number of keys.
    key_count: u64,
    /// Open nodes from the root down: the nodes of the last key that branch or carry a payload.
    open: Vec<OpenNode>,
    /// Finished children of open nodes. The children of the deepest node come last.
    children: Vec<Child>,
    /// Payloads of open nodes.
    payloads: Vec<u8>,
    pending: Pending,
    scratch: Scratch,
}

#[derive(Debug)]
struct OpenNode {
    /// Bytes of the key above it.
    depth: usize,
    first_child: usize,
    payload_start: usize,
    payload_bits: u8,
    mark: Mark,
}

#[derive(Debug)]
struct Child {
    transition: u8,
    /// Bytes still to be written; an estimate where distances to placed nodes are part of it.
    size: usize,
    first_piece: usize,
}

#[derive(Debug, Default)]
struct Scratch {
    edges: Vec<Edge>,
    /// Sizes and indexes of children to be placed, in order.
    waiting: Vec<(usize, usize)>,
    placed: Vec<u64>,
    output: Vec<u8>,
}

impl PageTrieWriter {
    /// Creates a writer whose first byte comes at `position` of its file.
    pub fn new(position: u64) -> PageTrieWriter {
        PageTrieWriter { position, ..PageTrieWriter::default() }
    }

    /// Returns the length of the file so far, without the pending branches.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Records that the caller appended `length` other bytes to the file. Legal between tries only.
    pub fn skip(&mut self, length: u64) {
        debug_assert!(self.key_count == 0, "in the middle of a trie");
        self.position += length;
    }

    /// Returns the number of keys in the trie being written.
    pub fn key_count(&self) -> u64 {
        self.key_count
    }

    /// Returns the bytes that the writer has allocated.
    pub fn memory_bytes(&self) -> usize {
        let scratch = of(&self.scratch.edges) + of(&self.scratch.waiting);
        let scratch = scratch + of(&self.scratch.placed) + of(&self.scratch.output);
        let stacks = of(&self.open) + of(&self.children) + of(&self.payloads) + of(&self.key);
        scratch + stacks + self.pending.memory_bytes()
    }

    /// Adds a key, which must be above the last one. `payload_bits` is 1..=15; the payload's length
    /// must follow from it (and from the payload), because the node does not store it.
    ///
    /// # Errors
    /// Fails if key or payload is too long, the bits are out of range, or the key is not above the
    /// last one. The trie is then as before.
    pub fn add(
        &mut self,
        sink: &mut impl Sink,
        key: &[u8],
        payload_bits: u8,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        if !(1..=15).contains(&payload_bits) || payload.len() > MAX_PAYLOAD_SIZE {
            return Err(WriteError::Payload { length: payload.len(), bits: payload_bits });
        }
        if key.len() > MAX_DEPTH {
            return Err(WriteError::KeyTooLong { length: key.len() });
        }
        let common = common_prefix_length(&self.key, key);
        // At the byte where the keys part, "no byte" is below every byte.
        if self.key_count > 0 && key.get(common) <= self.key.get(common) {
            return Err(WriteError::OutOfOrder { number: self.key_count, depth: common });
        }
        self.close_down_to(sink, common);
        self.key.truncate(common);
        self.key.extend_from_slice(&key[common..]);
        self.key_count += 1;
        let mark = Mark { pieces: self.pending.pieces.len(), bytes: self.pending.bytes.len() };
        self.open.push(OpenNode {
            depth: key.len(),
            first_child: self.children.len(),
            payload_start: self.payloads.len(),
            payload_bits,
            mark,
        });
        self.payloads.extend_from_slice(payload);
        Ok(())
    }

    /// Writes the pending branches and returns the root's position. The writer is then ready for
    /// the next trie of the file.
    ///
    /// # Errors
    /// Fails if no key was added.
    pub fn complete(&mut self, sink: &mut impl Sink) -> Result<u64, WriteError> {
        self.close_down_to(sink, 0);
        let Some(root) = self.open.pop() else { return Err(WriteError::NoKeys) };
        let size = self.close_node(sink, &root);
        let position = self.place(sink, root.mark, size);
        self.abandon();
        Ok(position)
    }

    /// Forgets the trie being written. The parts of it in the file stay there, unreachable.
    pub fn abandon(&mut self) {
        self.pending.truncate(Mark::default());
        self.open.clear();
        self.children.clear();
        self.payloads.clear();
        self.key.clear();
        self.key_count = 0;
    }

    /// Finishes all open nodes deeper than `depth`.
    fn close_down_to(&mut self, sink: &mut impl Sink, depth: usize) {
        while let Some(node) = self.open.pop_if(|node| node.depth > depth) {
            let parent_depth = self.open.last().map_or(depth, |parent| parent.depth.max(depth));
            let size = self.close_node(sink, &node);
            let size = self.close_chain(sink, node.mark, parent_depth + 1..node.depth, size);
            if self.open.last().is_none_or(|parent| parent.depth < parent_depth) {
                self.open.push(OpenNode {
                    depth: parent_depth,
                    first_child: self.children.len(),
                    payload_start: self.payloads.len(),
                    payload_bits: 0,
                    mark: node.mark,
                });
            }
            let transition = self.key[parent_depth];
            self.children.push(Child { transition, size, first_piece: node.mark.pieces });
        }
    }

    /// Makes one pending branch of the node and its children; returns its size.
    fn close_node(&mut self, sink: &mut impl Sink, node: &OpenNode) -> usize {
        let branches = &self.pending.pieces[node.mark.pieces..];
        // A branch has at least one piece, so that equal counts mean one piece each.
        let whole = branches.len() == self.children.len() - node.first_child
            && branches.iter().all(|piece| matches!(piece, Piece::Bytes { .. }));
        let kept = if whole { self.append_node(node) } else { self.push_node_if_small(node) };
        let size = kept.unwrap_or_else(|| {
            self.place_children(sink, node.first_child, node.mark);
            self.push_node(node)
        });
        self.children.truncate(node.first_child);
        self.payloads.truncate(node.payload_start);
        size
    }

    /// Appends the node's bytes to its children's bytes, if they take less than a page together.
    fn append_node(&mut self, node: &OpenNode) -> Option<usize> {
        let Pending { pieces, bytes, .. } = &mut self.pending;
        let position = bytes.len();
        let mut start = position;
        let edges = &mut self.scratch.edges;
        edges.clear();
        for (child, piece) in
            self.children[node.first_child..].iter().zip(&pieces[node.mark.pieces..])
        {
            if let Piece::Bytes { start: child_start, length, root_size } = *piece {
                start = start.min(child_start);
                let root = child_start + usize::from(length) - usize::from(root_size);
                edges.push(Edge { transition: child.transition, child: root as u64 });
            }
        }
        let payload = &self.payloads[node.payload_start..];
        let (kind, body) = measure(edges, position as u64, node.payload_bits != 0);
        let root_size = body + payload.len();
        let size = position - start + root_size;
        if size >= PAGE_SIZE {
            return None;
        }
        encode(bytes, kind, edges, position as u64, node.payload_bits, payload);
        pieces.truncate(node.mark.pieces);
        pieces.push(Piece::Bytes { start, length: size as u16, root_size: root_size as u16 });
        Some(size)
    }

    /// Puts the node on top of its children, to be encoded when its position is known.
    fn push_node(&mut self, node: &OpenNode) -> usize {
        let children = &self.children[node.first_child..];
        let payload = &self.payloads[node.payload_start..];
        let start = self.pending.bytes.len();
        self.pending.bytes.extend(children.iter().map(|child| child.transition));
        self.pending.bytes.extend_from_slice(payload);
        self.pending.pieces.push(Piece::Node {
            start,
            children: children.len() as u16,
            payload_size: payload.len() as u16,
            payload_bits: node.payload_bits,
        });
        self.estimate(node.mark.pieces).0
    }

    fn push_node_if_small(&mut self, node: &OpenNode) -> Option<usize> {
        let Pending { pieces, bytes, .. } = &self.pending;
        let before = Mark { pieces: pieces.len(), bytes: bytes.len() };
        let size = self.push_node(node);
        if size < PAGE_SIZE {
            return Some(size);
        }
        self.pending.truncate(before);
        None
    }

    /// Returns the size of the topmost branch, which begins with `first_piece`, and the distance
    /// from its end back to its root, both estimated for about the position where it will be
    /// written.
    fn estimate(&mut self, first_piece: usize) -> (usize, u64) {
        let position = self.position + self.pending.bytes.len() as u64;
        let placement = self.pending.measure(first_piece..self.pending.pieces.len(), position);
        ((placement.end - position) as usize, placement.end - placement.root)
    }

    /// Puts a chain of nodes for these bytes of the key on the topmost branch, which begins at
    /// `mark` and has `size`; returns its new size.
    fn close_chain(
        &mut self,
        sink: &mut impl Sink,
        mark: Mark,
        bytes_of_key: std::ops::Range<usize>,
        size: usize,
    ) -> usize {
        let (start, mut end) = (bytes_of_key.start, bytes_of_key.end);
        let mut size = size;
        while end > start {
            let room = PAGE_SIZE - 1 - size;
            if let [Piece::Bytes { length, root_size, .. }] =
                &mut self.pending.pieces[mark.pieces..]
            {
                let distance = u64::from(*root_size);
                let count = chain_length_within(room, distance).min(end - start);
                if count > 0 {
                    let chain = chain_size(distance, count);
                    write_chain(&mut self.pending.bytes, &self.key[end - count..end], distance);
                    *length += chain.size as u16;
                    *root_size = chain.root_size as u16;
                    size += chain.size;
                    end -= count;
                }
            } else {
                let (_, distance) = self.estimate(mark.pieces);
                let count = chain_length_within(room, distance).min(end - start);
                if count > 0 {
                    let start = self.pending.bytes.len();
                    self.pending.bytes.extend_from_slice(&self.key[end - count..end]);
                    self.pending.pieces.push(Piece::Chain { start, length: count as u16 });
                    size += chain_size(distance, count).size;
                    end -= count;
                }
            }
            if end > start {
                self.place(sink, mark, size);
                size = 0;
            }
        }
        size
    }

    /// Puts the topmost branch into the file.
    fn place(&mut self, sink: &mut impl Sink, mark: Mark, size: usize) -> u64 {
        let first_child = self.children.len();
        self.children.push(Child { transition: 0, size, first_piece: mark.pieces });
        self.place_children(sink, first_child, mark);
        self.children.truncate(first_child);
        self.scratch.placed.first().copied().unwrap_or(self.position)
    }

    /// Puts the branches of the children from `first_child` on into the file. Always takes the
    /// largest branch that fits in the rest of the page.
    fn place_children(&mut self, sink: &mut impl Sink, first_child: usize, mark: Mark) {
        let mut waiting = std::mem::take(&mut self.scratch.waiting);
        let mut placed = std::mem::take(&mut self.scratch.placed);
        waiting.clear();
        placed.clear();
        for index in 0..self.children.len() - first_child {
            match self.pending.pieces[self.pieces_of(first_child + index)] {
                [Piece::Placed { position }] => placed.push(position),
                _ => {
                    waiting.push((self.children[first_child + index].size, index));
                    placed.push(0);
                }
            }
        }
        waiting.sort_unstable();
        while !waiting.is_empty() {
            let left = PAGE_SIZE - (self.position % PAGE_SIZE as u64) as usize;
            let fitting = waiting.partition_point(|&(size, _)| size <= left);
            if fitting == 0 && left < PAGE_SIZE {
                sink.pad(left);
                self.position += left as u64;
                continue;
            }
            let chosen = if fitting == 0 { waiting.len() - 1 } else { fitting - 1 };
            let (_, index) = waiting.remove(chosen);
            match self.place_branch(sink, first_child + index, left) {
                Ok(root) => placed[index] = root,
                Err(size) => {
                    let at = waiting.partition_point(|&entry| entry < (size, index));
                    waiting.insert(at, (size, index));
                }
            }
        }
        self.pending.truncate(mark);
        for (index, &position) in placed.iter().enumerate() {
            let child = &mut self.children[first_child + index];
            child.first_piece = self.pending.pieces.len();
            child.size = 0;
            self.pending.pieces.push(Piece::Placed { position });
        }
        self.scratch.waiting = waiting;
        self.scratch.placed = placed;
    }

    /// Writes one branch to the file. If the branch does not fit in the rest of a page that is
    /// partly filled, writes nothing and returns the branch's true size as the error.
    fn place_branch(
        &mut self,
        sink: &mut impl Sink,
        child: usize,
        left: usize,
    ) -> Result<u64, usize> {
        let range = self.pieces_of(child);
        if let [Piece::Bytes { start, length, root_size }] = self.pending.pieces[range.clone()] {
            sink.append(&self.pending.bytes[start..start + usize::from(length)]);
            self.position += u64::from(length);
            return Ok(self.position - u64::from(root_size));
        }
        let measured = self.pending.measure(range.clone(), self.position);
        let size = (measured.end - self.position) as usize;
        if size > left && left < PAGE_SIZE {
            return Err(size);
        }
        let output = &mut self.scratch.output;
        output.clear();
        let placement = if size > left {
            // Distances have grown since the branch was found to be smaller than a page. This
            // happens about once for each width of distances, when the file becomes too long for
            // the width.
            self.pending.write_scattered(range, self.position, output)
        } else {
            self.pending.write(range, self.position, output)
        };
        sink.append(output);
        debug_assert_eq!(placement.end, self.position + output.len() as u64);
        self.position = placement.end;
        Ok(placement.root)
    }

    fn pieces_of(&self, child: usize) -> std::ops::Range<usize> {
        let end = match self.children.get(child + 1) {
            Some(next) => next.first_piece,
            None => self.pending.pieces.len(),
        };
        self.children[child].first_piece..end
    }
}

/// Returns the length of the longest common prefix, in bytes. Compares words, because the processor
/// cannot predict at which byte a loop over bytes would end.
pub fn common_prefix_length(left: &[u8], right: &[u8]) -> usize {
    const WORD: usize = size_of::<u64>();
    let mut start = 0;
    for (left, right) in left.as_chunks::<WORD>().0.iter().zip(right.as_chunks::<WORD>().0) {
        let difference = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if difference != 0 {
            return start + difference.trailing_zeros() as usize / 8;
        }
        start += WORD;
    }
    let end = left.len().min(right.len());
    let difference = short_word(&left[start..end]) ^ short_word(&right[start..end]);
    // Equal words have 64 zeros, which are more bytes than these.
    end.min(start + difference.trailing_zeros() as usize / 8)
}

/// Returns up to seven bytes as a word. The first byte is the lowest one.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<4>().zip(bytes.last_chunk::<4>()) {
        Some((first, last)) => {
            // The two halves overlap; both have the same bytes there.
            let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
            first | last << (8 * (bytes.len() - 4))
        }
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::common_prefix_length;

    #[test]
    fn common_prefixes_end_at_the_first_differing_byte() {
        let bytes: Vec<u8> = (0..36).map(|index| index * 7).collect();
        for left in 0..=bytes.len() {
            for right in 0..=bytes.len() {
                for differing in 0..=left.min(right) {
                    for (changed, bit) in [(1, 0x01), (1, 0x80), (usize::MAX, 0x01)] {
                        let mut other = bytes[..right].to_vec();
                        let behind = other.iter_mut().skip(differing).take(changed);
                        behind.for_each(|byte| *byte ^= bit);
                        let found = common_prefix_length(&bytes[..left], &other);
                        assert_eq!(found, differing, "{left} {right} {changed}");
                    }
                }
            }
        }
    }
}

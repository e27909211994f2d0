//! The union of any number of tries: a binary heap of cursors, the earliest on top.
//!
//! A step finds the cursors that are at the top's position: it follows the heap down from the root
//! for as long as positions are equal. So a step does not compare all cursors.

use super::{Cursor, PathReceiver, Position};

/// A walk over the union of many tries. `merge` makes the content of a key from the contents of the
/// tries: it gets at least one, in no order, and may also return none.
pub struct UnionMany<C, F> {
    cursors: Vec<C>,
    /// A min-heap of positions, each with the index of its cursor.
    heap: Vec<(Position, u32)>,
    merge: F,
    exhausted: Position,
}

impl<C, F, T> UnionMany<C, F>
where
    C: Cursor,
    F: Fn(&mut dyn Iterator<Item = C::Content>) -> Option<T>,
{
    /// Creates the union. All cursors must walk in `direction` and be at the root. Without cursors,
    /// the walk is exhausted.
    pub fn new(
        direction: super::Direction,
        cursors: impl IntoIterator<Item = C>,
        merge: F,
    ) -> UnionMany<C, F> {
        let cursors: Vec<C> = cursors.into_iter().collect();
        debug_assert!(cursors.iter().all(|cursor| cursor.direction() == direction));
        let heap = (0..).zip(&cursors).map(|(index, c)| (c.position(), index)).collect();
        let mut union =
            UnionMany { cursors, heap, merge, exhausted: Position::exhausted(direction) };
        for index in (0..union.heap.len() / 2).rev() {
            union.sift_down(index);
        }
        union
    }

    fn sift_down(&mut self, mut index: usize) {
        let heap = &mut self.heap[..];
        loop {
            let left = 2 * index + 1;
            if left >= heap.len() {
                return;
            }
            let right = left + 1;
            let child =
                if right < heap.len() && heap[right].0 < heap[left].0 { right } else { left };
            if heap[index].0 <= heap[child].0 {
                return;
            }
            heap.swap(index, child);
            index = child;
        }
    }

    /// Moves each cursor whose position `is_leader` accepts, and restores the heap. `is_leader`
    /// must accept all positions up to some bound, so that these cursors form a connected part
    /// around the root of the heap.
    fn move_leaders(
        &mut self,
        index: usize,
        is_leader: impl Fn(Position) -> bool + Copy,
        step: impl Fn(&mut C) -> Position + Copy,
    ) {
        if index >= self.heap.len() || !is_leader(self.heap[index].0) {
            return;
        }
        self.move_leaders(2 * index + 1, is_leader, step);
        self.move_leaders(2 * index + 2, is_leader, step);
        let cursor = self.heap[index].1 as usize;
        self.heap[index].0 = step(&mut self.cursors[cursor]);
        self.sift_down(index);
    }

    fn second_position(&self) -> Position {
        let at = |index: usize| self.heap.get(index).map_or(self.exhausted, |entry| entry.0);
        at(1).min(at(2))
    }
}

impl<C, F, T> Cursor for UnionMany<C, F>
where
    C: Cursor,
    F: Fn(&mut dyn Iterator<Item = C::Content>) -> Option<T>,
{
    type Content = T;

    fn position(&self) -> Position {
        self.heap.first().map_or(self.exhausted, |entry| entry.0)
    }

    fn content(&self) -> Option<T> {
        let mut contents = Leaders { union: self, pending: Pending::new() }.peekable();
        contents.peek()?;
        (self.merge)(&mut contents)
    }

    fn advance(&mut self) -> Position {
        let lead = self.position();
        self.move_leaders(0, move |position| position == lead, C::advance);
        self.position()
    }

    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        let lead = self.position();
        if lead.is_exhausted() || self.second_position() == lead {
            return self.advance();
        }
        let cursor = self.heap[0].1 as usize;
        self.heap[0].0 = self.cursors[cursor].advance_multiple(path);
        self.sift_down(0);
        self.position()
    }

    fn skip_children(&mut self) -> Position {
        let lead = self.position();
        self.move_leaders(0, move |position| position == lead, C::skip_children);
        self.position()
    }

    fn skip_to(&mut self, target: Position) -> Position {
        let lead = self.position();
        if lead.is_at_or_after(target) {
            return lead;
        }
        // A cursor that is not at the node whose child is the target is already after the target.
        let into_children = target.depth() > lead.depth();
        self.move_leaders(
            0,
            move |position| if into_children { position == lead } else { position < target },
            move |cursor| cursor.skip_to(target),
        );
        self.position()
    }
}

/// Indices of the heap still to visit. A depth-first walk over a binary heap needs at most one
/// index more than the height, so 33 would suffice for 2^32 cursors.
struct Pending {
    indices: [u32; 40],
    count: usize,
}

impl Pending {
    fn new() -> Pending {
        let mut pending = Pending { indices: [0; 40], count: 0 };
        pending.push(0);
        pending
    }

    fn push(&mut self, index: u32) {
        self.indices[self.count] = index;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        Some(self.indices[self.count])
    }
}

struct Leaders<'a, C, F> {
    union: &'a UnionMany<C, F>,
    pending: Pending,
}

impl<C: Cursor, F> Iterator for Leaders<'_, C, F> {
    type Item = C::Content;

    fn next(&mut self) -> Option<C::Content> {
        let heap = &self.union.heap;
        let lead = heap.first()?.0;
        loop {
            let index = self.pending.pop()?;
            match heap.get(index as usize) {
                Some(&(position, cursor)) if position == lead => {
                    self.pending.push(2 * index + 1);
                    self.pending.push(2 * index + 2);
                    if let Some(content) = self.union.cursors[cursor as usize].content() {
                        return Some(content);
                    }
                }
                _ => {}
            }
        }
    }
}

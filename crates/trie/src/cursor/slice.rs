//! A slice restricts a walk to the keys between two bounds.
//!
//! Transitions can leave the range only at nodes on the path of a bound (paper, figure 2), so the
//! slice compares bytes only there. The walk first meets the *near* bound, which is the left one in
//! a forward walk, and ends at the *far* bound. The slice lists the nodes on the path of the near
//! bound, because the paths of the keys in the range begin with them, but leaves out contents that
//! are not in the range.

use super::{Cursor, Direction, PathReceiver, Position};
use std::cmp::Ordering;
use std::ops::Bound;

#[derive(Clone)]
struct Edge {
    key: Box<[u8]>,
    inclusive: bool,
}

impl Edge {
    fn new(bound: Bound<&[u8]>) -> Option<Edge> {
        match bound {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(Edge { key: key.into(), inclusive: true }),
            Bound::Excluded(key) => Some(Edge { key: key.into(), inclusive: false }),
        }
    }
}

/// The relation of the walk's position to the near bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Near {
    /// The path is a proper prefix of the bound.
    Before,
    /// The path is the bound.
    At,
    Past,
}

/// A walk over the keys between two bounds, either of which may be open.
#[derive(Clone)]
pub struct Slice<C> {
    cursor: C,
    near: Option<Edge>,
    near_state: Near,
    far: Option<Edge>,
    /// The number of bytes at the beginning of the path that equal the far bound's.
    far_matched: usize,
    /// The position that the slice reports: the position of `cursor`, or the end if `cursor` is
    /// beyond the far bound.
    position: Position,
}

impl<C: Cursor> Slice<C> {
    /// Restricts `cursor` to the keys from `left` to `right`, with or without the bounds
    /// themselves. `cursor` must be at its root. A range whose bounds are in the wrong order is
    /// empty.
    pub fn new(cursor: C, left: Bound<&[u8]>, right: Bound<&[u8]>) -> Slice<C> {
        let (near, far) = match cursor.direction() {
            Direction::Forward => (Edge::new(left), Edge::new(right)),
            Direction::Reverse => (Edge::new(right), Edge::new(left)),
        };
        let position = cursor.position();
        let near_state = match &near {
            Some(edge) if edge.key.is_empty() => Near::At,
            Some(_) if !position.is_returning() => Near::Before,
            _ => Near::Past,
        };
        let mut slice = Slice { cursor, near, near_state, far, far_matched: 0, position };
        slice.arrive(position);
        slice
    }

    /// Records the position of `cursor`. Ends the walk if the position is beyond the far bound.
    fn arrive(&mut self, position: Position) -> Position {
        self.position = position;
        if position.is_exhausted() || self.far.is_none() {
            return position;
        }
        let depth = position.depth() as usize;
        let parent = depth.saturating_sub(1);
        self.far_matched = self.far_matched.min(parent);
        if depth > 0 && self.far_matched == parent && self.compare_with_far(parent).is_gt() {
            return self.finish();
        }
        // In reverse, a proper prefix of the left bound comes after it.
        let far_length = self.far.as_ref().map_or(0, |far| far.key.len());
        if position.is_returning() && self.far_matched == depth && depth < far_length {
            return self.finish();
        }
        position
    }

    /// Compares the present node with the path to the far bound in the order of the walk. The
    /// node's parent, at depth `parent`, must be on that path. The result is `Less` before the
    /// path, `Equal` on it and `Greater` beyond it.
    fn compare_with_far(&mut self, parent: usize) -> Ordering {
        let position = self.position.descending();
        match self.far.as_ref().and_then(|far| far.key.get(parent)) {
            Some(&byte) => {
                let bound = Position::new(position.direction(), position.depth(), byte);
                if position == bound {
                    self.far_matched = parent + 1;
                }
                position.cmp(&bound)
            }
            // An extension of the bound is after it in a forward walk, before it in a reverse one.
            None if position.direction().is_reverse() => Ordering::Less,
            None => Ordering::Greater,
        }
    }

    fn finish(&mut self) -> Position {
        self.position = Position::exhausted(self.position.direction());
        self.position
    }

    fn at_far_bound(&self) -> Option<&Edge> {
        let far = self.far.as_ref()?;
        let depth = self.position.depth() as usize;
        (self.far_matched == depth && depth == far.key.len()).then_some(far)
    }

    /// Returns whether nothing below the present node is in the range. This is so if the node is at
    /// the right bound, which is the far bound in a forward walk and the near one in a reverse
    /// walk: extensions of the right bound are greater than the bound.
    fn children_are_beyond(&self) -> bool {
        match self.position.direction() {
            Direction::Forward => self.at_far_bound().is_some(),
            Direction::Reverse => self.near_state == Near::At,
        }
    }

    /// Returns the position of the child that leads to the near bound.
    fn near_child(&self) -> Option<Position> {
        match (&self.near, self.near_state) {
            (Some(near), Near::Before) => {
                Some(self.position.child(near.key[self.position.depth() as usize]))
            }
            _ => None,
        }
    }

    fn descend_towards_near(&mut self, bound: Position, target: Position) -> Position {
        let position = self.cursor.skip_to(target);
        let near_length = self.near.as_ref().map_or(0, |near| near.key.len());
        self.near_state = if position.descending() != bound {
            Near::Past
        } else if position.depth() as usize == near_length {
            Near::At
        } else if position.is_returning() {
            Near::Past // a leaf on the path to the bound
        } else {
            Near::Before
        };
        self.arrive(position)
    }

    fn leave_node(&mut self) -> Position {
        if self.children_are_beyond() && !self.position.direction().is_reverse() {
            return self.finish();
        }
        let node = self.position;
        let position = self.cursor.skip_children();
        // The returning position of the near bound itself still counts as at the bound.
        if !(self.near_state == Near::At && position == node.returning()) {
            self.near_state = Near::Past;
        }
        self.arrive(position)
    }
}

impl<C: Cursor> Cursor for Slice<C> {
    type Content = C::Content;

    fn position(&self) -> Position {
        self.position
    }

    fn content(&self) -> Option<C::Content> {
        let excluded_by_near = match self.near_state {
            Near::Before => true,
            Near::At => self.near.as_ref().is_some_and(|near| !near.inclusive),
            Near::Past => false,
        };
        if self.position.is_exhausted()
            || excluded_by_near
            || self.at_far_bound().is_some_and(|far| !far.inclusive)
        {
            return None;
        }
        self.cursor.content()
    }

    fn advance(&mut self) -> Position {
        if self.position.is_exhausted() {
            return self.position;
        }
        if let Some(bound) = self.near_child() {
            if self.children_are_beyond() {
                return self.finish();
            }
            return self.descend_towards_near(bound, bound);
        }
        if self.children_are_beyond() {
            return self.leave_node();
        }
        self.near_state = Near::Past;
        let position = self.cursor.advance();
        self.arrive(position)
    }

    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        let on_far_path = self.far.is_some() && self.far_matched == self.position.depth() as usize;
        if self.near_state != Near::Past || on_far_path || self.position.is_exhausted() {
            return self.advance();
        }
        let position = self.cursor.advance_multiple(path);
        self.arrive(position)
    }

    fn skip_children(&mut self) -> Position {
        if self.position.is_exhausted() { self.position } else { self.leave_node() }
    }

    fn skip_to(&mut self, target: Position) -> Position {
        if self.position.is_at_or_after(target) {
            return self.position;
        }
        let into_children = target.depth() > self.position.depth();
        if into_children {
            if self.children_are_beyond() {
                return self.leave_node();
            }
            if let Some(bound) = self.near_child() {
                return self.descend_towards_near(bound, bound.max(target));
            }
        }
        let node = self.position;
        let position = self.cursor.skip_to(target);
        if !(self.near_state == Near::At && position == node.returning()) {
            self.near_state = Near::Past;
        }
        self.arrive(position)
    }
}

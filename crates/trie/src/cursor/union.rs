//! The union of two tries: both cursors walk in step, and the earlier one leads.
//!
//! By induction, whenever the union is at a position, each cursor is at that position or at its
//! first later one. So the smaller of the two positions is the union's, and if they are equal both
//! cursors are on the same path (paper, section 5.2).

use super::{Cursor, PathReceiver, Position};

/// A walk over the union of two tries. `merge` makes the content of a key from the contents of both
/// tries, of which at least one is present; it may also return none.
pub struct Union<A, B, F> {
    first: A,
    second: B,
    merge: F,
}

impl<A, B, F, T> Union<A, B, F>
where
    A: Cursor,
    B: Cursor,
    F: Fn(Option<A::Content>, Option<B::Content>) -> Option<T>,
{
    /// Creates the union. Both cursors must have the same direction and be at the root.
    pub fn new(first: A, second: B, merge: F) -> Union<A, B, F> {
        debug_assert_eq!(first.direction(), second.direction());
        Union { first, second, merge }
    }
}

impl<A, B, F, T> Cursor for Union<A, B, F>
where
    A: Cursor,
    B: Cursor,
    F: Fn(Option<A::Content>, Option<B::Content>) -> Option<T>,
{
    type Content = T;

    fn position(&self) -> Position {
        self.first.position().min(self.second.position())
    }

    fn content(&self) -> Option<T> {
        let (first, second) = (self.first.position(), self.second.position());
        let first_content = if first <= second { self.first.content() } else { None };
        let second_content = if second <= first { self.second.content() } else { None };
        if first_content.is_none() && second_content.is_none() {
            return None;
        }
        (self.merge)(first_content, second_content)
    }

    fn advance(&mut self) -> Position {
        let (mut first, mut second) = (self.first.position(), self.second.position());
        let (lead_first, lead_second) = (first <= second, second <= first);
        if lead_first {
            first = self.first.advance();
        }
        if lead_second {
            second = self.second.advance();
        }
        first.min(second)
    }

    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        let (first, second) = (self.first.position(), self.second.position());
        // A cursor that leads alone meets no node of the other one while it goes deeper.
        match first.cmp(&second) {
            std::cmp::Ordering::Less => self.first.advance_multiple(path).min(second),
            std::cmp::Ordering::Greater => self.second.advance_multiple(path).min(first),
            std::cmp::Ordering::Equal => self.first.advance().min(self.second.advance()),
        }
    }

    fn skip_children(&mut self) -> Position {
        let (mut first, mut second) = (self.first.position(), self.second.position());
        let (lead_first, lead_second) = (first <= second, second <= first);
        if lead_first {
            first = self.first.skip_children();
        }
        if lead_second {
            second = self.second.skip_children();
        }
        first.min(second)
    }

    fn skip_to(&mut self, target: Position) -> Position {
        let (first, second) = (self.first.position(), self.second.position());
        let lead = first.min(second);
        if lead.is_at_or_after(target) {
            return lead;
        }
        // A cursor that is not at the node whose child is the target is already after the target.
        let into_children = target.depth() > lead.depth();
        let moves = |at: Position| if into_children { at == lead } else { at < target };
        let new_first = if moves(first) { self.first.skip_to(target) } else { first };
        let new_second = if moves(second) { self.second.skip_to(target) } else { second };
        new_first.min(new_second)
    }
}

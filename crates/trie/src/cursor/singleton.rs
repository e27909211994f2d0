//! A cursor over a trie of one key, to merge one more entry into a walk.

use super::{Cursor, Direction, PathReceiver, Position};

/// A walk over the path of a single key.
#[derive(Clone, Debug)]
pub struct Singleton<T> {
    key: Box<[u8]>,
    content: T,
    position: Position,
}

impl<T: Clone> Singleton<T> {
    /// Creates a walk that maps `key` to `content`.
    pub fn new(direction: Direction, key: &[u8], content: T) -> Singleton<T> {
        let mut singleton =
            Singleton { key: key.into(), content, position: Position::root(direction) };
        singleton.arrive(0);
        singleton
    }

    fn arrive(&mut self, depth: usize) -> Position {
        let byte = if depth == 0 { 0 } else { self.key[depth - 1] };
        let position = Position::new(self.position.direction(), depth as u32, byte);
        // A leaf is listed at its returning position only.
        let leaf_in_reverse = depth == self.key.len() && position.direction().is_reverse();
        self.position = if leaf_in_reverse { position.returning() } else { position };
        self.position
    }

    fn exhaust(&mut self) -> Position {
        self.position = Position::exhausted(self.position.direction());
        self.position
    }

    fn has_child(&self) -> bool {
        !self.position.is_exhausted() && self.depth() < self.key.len()
    }
}

impl<T: Clone> Cursor for Singleton<T> {
    type Content = T;

    fn position(&self) -> Position {
        self.position
    }

    fn content(&self) -> Option<T> {
        (!self.position.is_exhausted() && self.depth() == self.key.len())
            .then(|| self.content.clone())
    }

    fn advance(&mut self) -> Position {
        if self.has_child() { self.arrive(self.depth() + 1) } else { self.exhaust() }
    }

    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        if !self.has_child() {
            return self.exhaust();
        }
        path.add_bytes(&self.key[self.depth()..self.key.len() - 1]);
        self.arrive(self.key.len())
    }

    fn skip_children(&mut self) -> Position {
        self.exhaust()
    }

    fn skip_to(&mut self, target: Position) -> Position {
        if self.position.is_at_or_after(target) {
            return self.position;
        }
        if target.depth() as usize == self.depth() + 1 && self.has_child() {
            let position = self.arrive(self.depth() + 1);
            if position >= target {
                return position;
            }
        }
        self.exhaust()
    }
}

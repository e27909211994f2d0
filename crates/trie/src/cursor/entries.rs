//! Presents a walk as a list of (key, content), with a seek.
//!
//! A seek costs at most a step for each byte of the new key after its common prefix with the
//! present path, however many keys it skips. So a merge can pass over ranges that a tombstone
//! covers.

use super::{Cursor, PathReceiver, Position};

/// The contents of a walk with their keys. Not an `Iterator`, because it lends the key.
pub struct Entries<C> {
    cursor: C,
    path: Vec<u8>,
    /// True if the content at the cursor's position was not returned yet.
    pending: bool,
}

impl<C: Cursor> Entries<C> {
    /// Makes the list of a walk. `cursor` must be at its root.
    pub fn new(cursor: C) -> Entries<C> {
        Entries { cursor, path: Vec::new(), pending: true }
    }

    /// Returns the next key and its content, in the direction of the walk; `None` at the end.
    pub fn next_entry(&mut self) -> Option<(&[u8], C::Content)> {
        loop {
            if self.pending {
                self.pending = false;
            } else {
                let position = self.cursor.advance_multiple(&mut self.path);
                self.follow(position);
            }
            if let Some(content) = self.cursor.content() {
                return Some((&self.path, content));
            }
            if self.cursor.is_exhausted() {
                return None;
            }
        }
    }

    /// Returns the key of the last [`Entries::next_entry`]; meaningless after a seek.
    pub fn key(&self) -> &[u8] {
        &self.path
    }

    /// Skips to the first key that is not before `key` in the direction of the walk: the next entry
    /// has a key >= `key` in a forward walk, <= `key` in a reverse one. A seek never goes back.
    pub fn seek(&mut self, key: &[u8]) {
        let start = self.cursor.position();
        if start.is_exhausted() {
            return;
        }
        let common = self.path.iter().zip(key).take_while(|(a, b)| a == b).count();
        if common == key.len() && common < self.path.len() {
            // The present path extends the key: the key is passed (forward), or is the returning
            // position of a node on this path (reverse).
            if start.direction().is_reverse() {
                self.skip_to(Self::position_on(start, key, key.len()).returning());
            }
            return;
        }
        if common < self.path.len()
            && Self::position_on(start, key, common + 1)
                < Self::position_on(start, &self.path, common + 1)
        {
            return;
        }
        // Leaves the present path if the key does, and follows the rest of the key.
        let mut followed = common;
        if common < self.path.len() {
            let target = Self::position_on(start, key, common + 1);
            if self.skip_to(target) != target {
                return;
            }
            followed += 1;
        }
        let before = self.cursor.position();
        let rest = &key[followed..];
        let found = self.cursor.skip_along(rest);
        let position = self.cursor.position();
        if position != before {
            self.path.extend_from_slice(&rest[..found]);
            self.follow(position);
            self.pending = true;
        }
        if found < rest.len() {
            return;
        }
        if start.direction().is_reverse() && !self.cursor.position().is_returning() {
            self.skip_to(self.cursor.position().returning());
        }
    }

    fn position_on(like: Position, key: &[u8], depth: usize) -> Position {
        let byte = if depth == 0 { 0 } else { key[depth - 1] };
        Position::new(like.direction(), depth as u32, byte)
    }

    fn skip_to(&mut self, target: Position) -> Position {
        let before = self.cursor.position();
        let position = self.cursor.skip_to(target);
        if position != before {
            self.follow(position);
            self.pending = true;
        }
        position
    }

    fn follow(&mut self, position: Position) {
        let depth = position.depth() as usize;
        self.path.truncate(depth.saturating_sub(1));
        if depth > 0 {
            self.path.add_bytes(&[position.byte()]);
        }
    }

    /// Puts the cursor into a box, for lists of walks of different kinds.
    pub fn boxed<'a>(self) -> Entries<Box<dyn Cursor<Content = C::Content> + 'a>>
    where
        C: 'a,
    {
        Entries { cursor: Box::new(self.cursor), path: self.path, pending: self.pending }
    }

    /// Returns the cursor at its present position.
    pub fn into_cursor(self) -> C {
        self.cursor
    }
}

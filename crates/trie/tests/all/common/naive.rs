//! A cursor over a sorted list of all positions: obviously right, and slow.

use super::Model;
use espalier_trie::cursor::{Cursor, Direction, Position};
use std::collections::BTreeSet;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

#[derive(Clone, Debug)]
struct Listed {
    path: Vec<u8>,
    returning: bool,
    content: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Naive {
    direction: Direction,
    list: Vec<Listed>,
    at: usize,
}

/// Returns a key by which paths sort as the walk lists them: forward by the bytes, in reverse by
/// the complemented bytes. The way down sorts before all extensions of the path, and the way back
/// after them.
fn sort_key(direction: Direction, path: &[u8], returning: bool) -> Vec<u16> {
    let in_order = |&byte: &u8| u16::from(if direction.is_reverse() { !byte } else { byte });
    path.iter().map(in_order).chain(returning.then_some(1000)).collect()
}

impl Naive {
    pub fn new(model: &Model, direction: Direction) -> Naive {
        let nodes: BTreeSet<&[u8]> =
            model.keys().flat_map(|key| (0..=key.len()).map(|length| &key[..length])).collect();
        let mut list = Vec::new();
        for path in &nodes {
            let has_children = nodes
                .range::<[u8], _>((std::ops::Bound::Excluded(*path), std::ops::Bound::Unbounded));
            let has_children = has_children.take(1).any(|next| next.starts_with(path));
            let content = model.get(*path).copied();
            let listed = |returning, content| Listed { path: path.to_vec(), returning, content };
            match (direction, content) {
                (Direction::Forward, content) => list.push(listed(false, content)),
                (Direction::Reverse, None) => list.push(listed(false, None)),
                (Direction::Reverse, Some(content)) => {
                    if has_children {
                        list.push(listed(false, None));
                    }
                    list.push(listed(true, Some(content)));
                }
            }
        }
        if list.is_empty() {
            list.push(Listed { path: Vec::new(), returning: false, content: None });
        }
        list.sort_by_key(|listed| sort_key(direction, &listed.path, listed.returning));
        Naive { direction, list, at: 0 }
    }

    /// Restricts the walk as a slice does: to the nodes in the range, and to those that lead to the
    /// left bound, the latter only on the way down. Only nodes in the range have contents.
    pub fn sliced(mut self, left: Bound<&[u8]>, right: Bound<&[u8]>) -> Naive {
        let leads_to = |path: &[u8], bound: Bound<&[u8]>| match bound {
            Included(key) | Excluded(key) => key.starts_with(path),
            Unbounded => false,
        };
        let is_left = |path: &[u8]| match left {
            Included(key) | Excluded(key) => path < key,
            Unbounded => false,
        };
        let is_right = |path: &[u8]| match right {
            Included(key) | Excluded(key) => path > key,
            Unbounded => false,
        };
        self.list.retain(|listed| {
            let path = &listed.path[..];
            let on_the_way = leads_to(path, left) && !listed.returning;
            (!is_left(path) || on_the_way) && !is_right(path)
        });
        for listed in &mut self.list {
            let path = &listed.path[..];
            if is_left(path) || left == Excluded(path) || right == Excluded(path) {
                listed.content = None;
            }
        }
        self
    }

    /// Returns the continuation of the present path in one of the paths below, if `ahead` selects
    /// one.
    pub fn path_ahead(&self, ahead: usize) -> Option<Vec<u8>> {
        let below = self.list.get(self.at + ahead % 40)?;
        Some(below.path.strip_prefix(self.path()?)?.to_vec()).filter(|_| !ahead.is_multiple_of(3))
    }

    pub fn path(&self) -> Option<&[u8]> {
        self.list.get(self.at).map(|listed| &listed.path[..])
    }
}

impl Cursor for Naive {
    type Content = u32;

    fn position(&self) -> Position {
        let Some(listed) = self.list.get(self.at) else {
            return Position::exhausted(self.direction);
        };
        let byte = listed.path.last().copied().unwrap_or(0);
        let position = Position::new(self.direction, listed.path.len() as u32, byte);
        if listed.returning { position.returning() } else { position }
    }

    fn content(&self) -> Option<u32> {
        self.list.get(self.at)?.content
    }

    fn advance(&mut self) -> Position {
        self.at = (self.at + 1).min(self.list.len());
        self.position()
    }

    fn skip_children(&mut self) -> Position {
        if let Some(from) = self.list.get(self.at).cloned() {
            let is_below = |listed: &Listed| {
                listed.path.len() > from.path.len() && listed.path.starts_with(&from.path)
            };
            self.at += 1;
            while self.list.get(self.at).is_some_and(is_below) {
                self.at += 1;
            }
        }
        self.position()
    }

    fn skip_to(&mut self, target: Position) -> Position {
        if let Some(from) = self.path() {
            let depth = target.depth() as usize;
            assert!(depth <= from.len() + 1, "the target is at most a child of the present node");
            let mut path = from[..depth.saturating_sub(1)].to_vec();
            path.extend((depth > 0).then_some(target.byte()));
            let target = sort_key(self.direction, &path, target.is_returning());
            while self.list.get(self.at).is_some_and(|listed| {
                sort_key(self.direction, &listed.path, listed.returning) < target
            }) {
                self.at += 1;
            }
        }
        self.position()
    }
}

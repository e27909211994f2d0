//! The nearest nodes that a search of a graph has met.

/// A node that the search has met. It is expanded once the search has followed its links.
#[derive(Clone, Copy, Debug)]
struct Met {
    distance: f32,
    node: u32,
    is_expanded: bool,
}

/// Some nodes by ascending distance.
#[derive(Debug)]
pub(super) struct Beam {
    width: usize,
    met: Vec<Met>,
    /// All nodes before this one are expanded.
    next: usize,
}

impl Beam {
    /// Makes an empty beam of up to `width` nodes.
    pub(super) fn new(width: usize) -> Self {
        Self { width, met: Vec::with_capacity(width + 1), next: 0 }
    }

    /// Removes all nodes.
    pub(super) fn clear(&mut self) {
        self.met.clear();
        self.next = 0;
    }

    /// Adds a node that the search meets for the first time. A full beam keeps the nearest nodes.
    #[inline]
    pub(super) fn add(&mut self, distance: f32, node: u32) {
        if self.met.len() >= self.width
            && self.met.last().is_none_or(|last| distance >= last.distance)
        {
            return;
        }
        let at = self.met.partition_point(|met| met.distance <= distance);
        self.met.insert(at, Met { distance, node, is_expanded: false });
        self.met.truncate(self.width);
        self.next = self.next.min(at);
    }

    /// Returns the nearest node that is not expanded, with its distance. Marks it as expanded.
    pub(super) fn expand(&mut self) -> Option<(f32, u32)> {
        while let Some(met) = self.met.get_mut(self.next) {
            self.next += 1;
            if !met.is_expanded {
                met.is_expanded = true;
                return Some((met.distance, met.node));
            }
        }
        None
    }

    /// Returns the nearest node that is not expanded.
    pub(super) fn nearest(&self) -> Option<u32> {
        let rest = self.met.get(self.next..).unwrap_or_default();
        rest.iter().find(|met| !met.is_expanded).map(|met| met.node)
    }

    /// Returns the nodes by ascending distance.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (f32, u32)> {
        self.met.iter().map(|met| (met.distance, met.node))
    }
}

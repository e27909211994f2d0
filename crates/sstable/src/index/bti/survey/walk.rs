//! This module walks one trie depth first and visits every node once.

use bytes::Bytes;
use espalier_trie::page::{Node, PAGE_SIZE, layout::MAX_DEPTH};

use crate::{
    error::{Result, SSTableError},
    page_cache::CachedFile,
};

/// A node on the path of the walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) position: u64,
    /// Number of bytes of key from the root.
    pub(super) depth: u32,
    /// Number of pages from the root, the node's own page included.
    pub(super) pages: u32,
}

struct Frame {
    place: Place,
    next_slot: usize,
}

/// A walk over one trie. It holds one page and the path to the current node.
pub(super) struct Walk<'file> {
    file: &'file CachedFile,
    page: Option<(u64, Bytes)>,
    way: Vec<Frame>,
    root: Option<u64>,
}

impl<'file> Walk<'file> {
    pub(super) fn new(file: &'file CachedFile, root: u64) -> Self {
        Self { file, page: None, way: Vec::new(), root: Some(root) }
    }

    /// Returns the next node, a parent before its children, or `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Place>> {
        if let Some(position) = self.root.take() {
            return self.enter(Place { position, depth: 0, pages: 1 }).await.map(Some);
        }
        while let Some(frame) = self.way.last_mut() {
            let (place, slot) = (frame.place, frame.next_slot);
            frame.next_slot += 1;
            self.load(place.position).await?;
            let node = self.node(place.position)?;
            if slot >= node.slots() {
                self.way.pop();
                continue;
            }
            let child = node.child(slot).map_err(|error| self.corrupt(place.position, error))?;
            let Some(position) = child else { continue };
            if place.depth as usize >= MAX_DEPTH {
                return Err(self.corrupt(position, "a way that is longer than any key"));
            }
            let is_other_page = position / PAGE_SIZE as u64 != place.position / PAGE_SIZE as u64;
            let pages = place.pages + u32::from(is_other_page);
            return self.enter(Place { position, depth: place.depth + 1, pages }).await.map(Some);
        }
        Ok(None)
    }

    async fn enter(&mut self, place: Place) -> Result<Place> {
        self.load(place.position).await?;
        if self.node(place.position)?.slots() > 0 {
            self.way.push(Frame { place, next_slot: 0 });
        }
        Ok(place)
    }

    async fn load(&mut self, position: u64) -> Result<()> {
        let number = position / PAGE_SIZE as u64;
        if self.page.as_ref().is_none_or(|(held, _)| *held != number) {
            self.page = Some((number, self.file.page(number).await?));
        }
        Ok(())
    }

    /// Returns the node at a position. The position must lie in the page that was loaded last.
    pub(super) fn node(&self, position: u64) -> Result<Node<'_>> {
        let page = self.page.as_ref().map_or(&[][..], |(_, page)| page);
        Node::at(page, position).map_err(|error| self.corrupt(position, error))
    }

    fn corrupt(&self, position: u64, reason: impl ToString) -> SSTableError {
        SSTableError::corrupt(self.file.name(), position, reason.to_string())
    }
}

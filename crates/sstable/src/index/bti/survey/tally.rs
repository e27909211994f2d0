//! This module defines the counters of one file.

use espalier_trie::page::{
    Node, PAGE_SIZE,
    layout::{KINDS, NodeKind},
};

use super::walk::Place;
use crate::{
    components::Component,
    error::{FileName, Result, SSTableError},
};

/// The nodes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindTally {
    /// Number of nodes.
    pub nodes: u64,
    /// Bytes of the nodes, without payloads.
    pub body_bytes: u64,
    /// Number of nodes with a payload.
    pub payloads: u64,
    /// Bytes of the payloads.
    pub payload_bytes: u64,
}

/// The content of a page of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageTally {
    /// Bytes of nodes by kind, without payloads, in the order of [`KINDS`].
    pub body_bytes: [u16; 16],
    /// Bytes of payloads.
    pub payload_bytes: u16,
    /// Bytes of keys, footers and entries.
    pub other_bytes: u16,
    /// Number of pages that a look-up has read when it reaches this one, itself included. It is 0
    /// if the page has no node, and the minimum if nodes of the page are reached by different
    /// numbers of pages.
    pub level: u16,
}

/// The survey of one file of an index.
#[derive(Clone, Debug)]
pub struct TrieSurvey {
    /// The component that was surveyed.
    pub component: Component,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Number of tries in the file.
    pub tries: u64,
    /// Nodes by kind, in the order of [`KINDS`].
    pub kinds: [KindTally; 16],
    /// Bytes that are in no trie: keys, footer, entries.
    pub other_bytes: u64,
    /// Pages in the order of the file.
    pub pages: Vec<PageTally>,
    /// For each depth, which is the number of bytes of key below the root, the number of nodes with
    /// a payload.
    pub depths: Vec<u64>,
    /// For each number of pages, the number of nodes with a payload for which a look-up reads this
    /// number of pages.
    pub pages_of_look_ups: Vec<u64>,
}

impl PageTally {
    /// Returns the number of bytes that are not padding.
    pub fn used_bytes(&self) -> u64 {
        let bodies: u64 = self.body_bytes.iter().map(|&bytes| u64::from(bytes)).sum();
        bodies + u64::from(self.payload_bytes) + u64::from(self.other_bytes)
    }
}

impl TrieSurvey {
    pub(super) fn new(component: Component, file_bytes: u64) -> Self {
        let pages = usize::try_from(file_bytes.div_ceil(PAGE_SIZE as u64)).unwrap_or(0);
        Self {
            component,
            file_bytes,
            tries: 0,
            kinds: Default::default(),
            other_bytes: 0,
            pages: vec![PageTally::default(); pages],
            depths: Vec::new(),
            pages_of_look_ups: Vec::new(),
        }
    }

    pub(super) fn add_node(&mut self, node: &Node<'_>, payload_size: usize, place: Place) {
        let kind = node.kind() as usize;
        let body = node.body_size();
        if let Some(tally) = self.kinds.get_mut(kind) {
            tally.nodes += 1;
            tally.body_bytes += body as u64;
            if payload_size > 0 {
                tally.payloads += 1;
                tally.payload_bytes += payload_size as u64;
            }
        }
        if let Some(page) = self.pages.get_mut((place.position / PAGE_SIZE as u64) as usize) {
            if let Some(bytes) = page.body_bytes.get_mut(kind) {
                *bytes = bytes.saturating_add(body as u16);
            }
            page.payload_bytes = page.payload_bytes.saturating_add(payload_size as u16);
            let level = u16::try_from(place.pages).unwrap_or(u16::MAX);
            page.level = if page.level == 0 { level } else { page.level.min(level) };
        }
        if payload_size > 0 {
            count(&mut self.depths, place.depth as usize);
            count(&mut self.pages_of_look_ups, place.pages as usize);
        }
    }

    /// Counts bytes outside of nodes that begin at `position`. They may lie in several pages.
    pub(super) fn add_other(&mut self, position: u64, length: u64) {
        self.other_bytes += length;
        let (mut at, end) = (position, position.saturating_add(length).min(self.file_bytes));
        while at < end {
            let page_end = (at / PAGE_SIZE as u64 + 1) * PAGE_SIZE as u64;
            let part = page_end.min(end) - at;
            if let Some(page) = self.pages.get_mut((at / PAGE_SIZE as u64) as usize) {
                page.other_bytes = page.other_bytes.saturating_add(part as u16);
            }
            at += part;
        }
    }

    /// Fails if the nodes have more bytes than the file. In a hostile file, parents may share
    /// children, and a few bytes can encode more paths than a walk could ever finish.
    pub(super) fn check_not_endless(&self, file: &FileName) -> Result<()> {
        if self.used_bytes() > self.file_bytes {
            Err(SSTableError::corrupt(file, 0, "nodes have more than one parent"))
        } else {
            Ok(())
        }
    }

    /// Returns the number of bytes that are not padding.
    pub fn used_bytes(&self) -> u64 {
        self.node_bytes() + self.payload_bytes() + self.other_bytes
    }

    /// Returns the number of nodes of all kinds.
    pub fn nodes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.nodes).sum()
    }

    /// Returns the number of bytes of nodes, without payloads.
    pub fn node_bytes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.body_bytes).sum()
    }

    /// Returns the number of nodes with a payload, which are keys or separators.
    pub fn payloads(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.payloads).sum()
    }

    /// Returns the number of bytes of payloads.
    pub fn payload_bytes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.payload_bytes).sum()
    }

    /// Returns the number of bytes of padding.
    pub fn padding_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(self.used_bytes())
    }

    /// Returns the length of page `number` in bytes: 4096, or less for the last page.
    pub fn page_length(&self, number: usize) -> u64 {
        let start = number as u64 * PAGE_SIZE as u64;
        self.file_bytes.saturating_sub(start).min(PAGE_SIZE as u64)
    }

    /// Returns the kinds with their tallies.
    pub fn by_kind(&self) -> impl Iterator<Item = (NodeKind, &KindTally)> {
        KINDS.into_iter().zip(&self.kinds)
    }
}

fn count(histogram: &mut Vec<u64>, value: usize) {
    if histogram.len() <= value {
        histogram.resize(value + 1, 0);
    }
    if let Some(bucket) = histogram.get_mut(value) {
        *bucket += 1;
    }
}

//! Simulates a crash: it keeps the durable state and a random part of the rest.

use super::SimulatedDisk;
use super::content::Content;
use super::disk::{Change, DirectoryNode, DiskState, FileNode, Node, NodeId, ROOT};
use crate::random::Generator;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The treatment of changes that were not durable, in a crash.
#[derive(Clone, Copy)]
enum Mood {
    /// All of them are lost.
    Harsh,
    /// All of them had just been written back.
    Lucky,
    /// Each change of a file is kept, torn or lost on its own. Of the changes of names, those
    /// before some moment are kept, as with a journal.
    Journal,
    /// Each change of a file is kept, torn or lost on its own, and each change of names is kept or
    /// lost on its own.
    Reorder,
}

impl SimulatedDisk {
    /// Returns the disk as it is after a crash at this moment. This disk is left undisturbed, so
    /// that one state can crash many times. The new disk has no faults and no limits.
    pub fn crash(&self, seed: u64) -> SimulatedDisk {
        let state = self.lock();
        let mut random = Generator::from_seed(seed);
        let mood = match random.below(8) {
            0 => Mood::Harsh,
            1 => Mood::Lucky,
            2..5 => Mood::Journal,
            _ => Mood::Reorder,
        };
        let mut after = DiskState::new(random.next_u64());
        after.nodes = state.nodes.clone();
        after.next_node = state.next_node;
        let names = state.unsynced_names.clone();
        drop(state);
        let mut journal_goes_on = true;
        for change in &names {
            let kept = match mood {
                Mood::Harsh => false,
                Mood::Lucky => true,
                Mood::Journal => {
                    journal_goes_on &= random.below(4) != 0;
                    journal_goes_on
                }
                Mood::Reorder => random.below(2) == 0,
            };
            if kept {
                after.make_durable(change);
            }
        }
        for node in after.nodes.values_mut() {
            match node {
                Node::Directory(directory) => directory.entries = directory.durable.clone(),
                Node::File(file) => file.crash(mood, &mut random),
            }
        }
        after.drop_unreachable();
        SimulatedDisk::of(after)
    }

    /// Flips one random bit of a file on the disk; returns `false` if the file is empty.
    ///
    /// # Errors
    /// Fails if there is no such file.
    pub fn flip_random_bit(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        let mut state = self.lock();
        let node = state.lookup(path.as_ref())?;
        let length = state.file(node)?.content.len();
        if length == 0 {
            return Ok(false);
        }
        let bit = state.random.below(length as u64 * 8) as usize;
        let file = state.file(node)?;
        file.content.flip_bit(bit);
        file.durable.flip_bit(bit);
        Ok(true)
    }
}

impl FileNode {
    fn crash(&mut self, mood: Mood, random: &mut Generator) {
        let mut image = std::mem::take(&mut self.durable);
        for change in std::mem::take(&mut self.unsynced) {
            match mood {
                Mood::Harsh => {}
                Mood::Lucky => change.apply(&mut image),
                Mood::Journal | Mood::Reorder => match random.below(3) {
                    0 => {}
                    1 => change.apply(&mut image),
                    _ => apply_torn(&change, &mut image, random),
                },
            }
        }
        self.content = image.clone();
        self.durable = image;
    }
}

/// Applies a random part of a change, cut at sectors of the disk.
fn apply_torn(change: &Change, image: &mut Content, random: &mut Generator) {
    let Change::Write { offset, bytes } = change else {
        change.apply(image);
        return;
    };
    let sector = if random.below(2) == 0 { 512 } else { 4096 };
    let mut at = 0;
    while at < bytes.len() {
        let end = ((offset + at + 1).next_multiple_of(sector) - offset).min(bytes.len());
        if random.below(2) == 0 {
            let part = bytes[at..end].to_vec();
            Change::Write { offset: offset + at, bytes: part }.apply(image);
        }
        at = end;
    }
}

impl DiskState {
    /// Makes a file's content durable.
    pub(super) fn sync_content(&mut self, node: NodeId) -> io::Result<()> {
        let file = self.file(node)?;
        for change in file.unsynced.drain(..) {
            change.apply(&mut file.durable);
        }
        Ok(())
    }

    /// Simulates a failed sync. Some changes become durable; the others never do, because the
    /// kernel marks their pages clean all the same. The content still shows all changes.
    pub(super) fn half_sync_content(&mut self, node: NodeId) -> io::Result<()> {
        let changes = std::mem::take(&mut self.file(node)?.unsynced);
        for change in changes {
            if self.random.below(2) == 0 {
                change.apply(&mut self.file(node)?.durable);
            }
        }
        Ok(())
    }

    fn drop_unreachable(&mut self) {
        let mut links: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut reached = BTreeSet::from([ROOT]);
        let mut next = vec![ROOT];
        while let Some(id) = next.pop() {
            let Some(Node::Directory(DirectoryNode { entries, .. })) = self.nodes.get(&id) else {
                continue;
            };
            for &child in entries.values() {
                *links.entry(child).or_default() += 1;
                if reached.insert(child) {
                    next.push(child);
                }
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
        let mut used = 0;
        for (id, node) in &mut self.nodes {
            if let Node::File(file) = node {
                file.links = links.get(id).copied().unwrap_or_default();
                used += file.content.len() as u64;
            }
        }
        self.set_used(used);
    }
}

//! The operations on names of the simulated disk: look up, open, create, rename, link, remove, list
//! and sync.

use super::super::error::{FileError, Operation};
use super::super::{DirectoryEntry, File, Metadata, Result};
use super::disk::{Change, DirectoryNode, DiskState, FileNode, NameChange, Node, NodeId, ROOT};
use super::{SimulatedDisk, SimulatedFile};
use rustix::io::Errno;
use std::io;
use std::path::{Component, Path};

/// Returns the names that lead to `path` from the root. "." and a leading "/" have no meaning here.
fn components(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL.into()),
        }
    }
    Ok(names)
}

impl DiskState {
    fn directory(&mut self, id: NodeId) -> io::Result<&mut DirectoryNode> {
        match self.nodes.get_mut(&id) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(Errno::NOTDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn walk(&mut self, names: &[String]) -> io::Result<NodeId> {
        let mut id = ROOT;
        for name in names {
            id = *self.directory(id)?.entries.get(name).ok_or(Errno::NOENT)?;
        }
        Ok(id)
    }

    pub(super) fn lookup(&mut self, path: &Path) -> io::Result<NodeId> {
        self.walk(&components(path)?)
    }

    /// Returns the directory that has (or will have) the last name of `path`, and that name.
    fn place(&mut self, path: &Path) -> io::Result<(NodeId, String)> {
        let mut names = components(path)?;
        let name = names.pop().ok_or(Errno::INVAL)?;
        let directory = self.walk(&names)?;
        self.directory(directory)?;
        Ok((directory, name))
    }

    fn entry(&mut self, place: &(NodeId, String)) -> io::Result<Option<NodeId>> {
        Ok(self.directory(place.0)?.entries.get(&place.1).copied())
    }

    /// Changes the visible names and records the change as not durable.
    fn change_names(&mut self, parts: Vec<(NodeId, String, Option<NodeId>)>) -> io::Result<()> {
        for (directory, name, leads_to) in &parts {
            if let Some(Node::File(file)) = leads_to.and_then(|id| self.nodes.get_mut(&id)) {
                file.links += 1;
            }
            let entries = &mut self.directory(*directory)?.entries;
            let before = match leads_to {
                Some(id) => entries.insert(name.clone(), *id),
                None => entries.remove(name),
            };
            if let Some(Node::File(file)) = before.and_then(|id| self.nodes.get_mut(&id)) {
                file.links -= 1;
            }
        }
        self.unsynced_names.push(NameChange { parts });
        Ok(())
    }

    /// Makes all changes that touch `directory` durable. A rename between directories is one
    /// transaction of the journal, so it becomes durable whole.
    fn sync_names(&mut self, directory: NodeId) -> io::Result<()> {
        let mut kept = Vec::new();
        for change in std::mem::take(&mut self.unsynced_names) {
            if change.parts.iter().any(|(touched, ..)| *touched == directory) {
                self.make_durable(&change);
            } else {
                kept.push(change);
            }
        }
        self.unsynced_names = kept;
        Ok(())
    }

    pub(super) fn make_durable(&mut self, change: &NameChange) {
        for (directory, name, leads_to) in &change.parts {
            if let Ok(directory) = self.directory(*directory) {
                match leads_to {
                    Some(id) => directory.durable.insert(name.clone(), *id),
                    None => directory.durable.remove(name),
                };
            }
        }
    }

    /// Returns whether `inner` is `outer` or lies below it.
    fn holds(&mut self, outer: NodeId, inner: NodeId) -> bool {
        if outer == inner {
            return true;
        }
        let Ok(directory) = self.directory(outer) else { return false };
        let children: Vec<NodeId> = directory.entries.values().copied().collect();
        children.into_iter().any(|child| self.holds(child, inner))
    }

    fn require_file(&mut self, id: NodeId) -> io::Result<u64> {
        Ok(self.file(id)?.content.len() as u64)
    }
}

impl SimulatedDisk {
    /// Runs one operation on names, with its faults.
    async fn names<R>(
        &self,
        path: &Path,
        operation: Operation,
        act: impl FnOnce(&mut DiskState) -> io::Result<R>,
    ) -> Result<R> {
        self.interleave().await;
        let mut state = self.lock();
        let done = state.admit(operation, path).and_then(|_| act(&mut state));
        done.map_err(|why| FileError::new(path, operation, why))
    }

    fn opened(&self, node: NodeId, path: &Path, access: Access, end: u64) -> File {
        let Access { direct, writable } = access;
        File::simulated(SimulatedFile::new(self.clone(), node, path, direct, writable, end))
    }

    pub(in super::super) async fn open_read(&self, path: &Path, direct: bool) -> Result<File> {
        let open = |state: &mut DiskState| {
            let node = state.lookup(path)?;
            state.require_file(node)?;
            Ok(node)
        };
        let node = self.names(path, Operation::Open, open).await?;
        Ok(self.opened(node, path, Access { direct, writable: false }, 0))
    }

    pub(in super::super) async fn open_write(&self, path: &Path) -> Result<File> {
        let open = |state: &mut DiskState| {
            let node = state.lookup(path)?;
            Ok((node, state.require_file(node)?))
        };
        let (node, end) = self.names(path, Operation::Open, open).await?;
        Ok(self.opened(node, path, Access::WRITE, end))
    }

    pub(in super::super) async fn create(&self, path: &Path, new: bool) -> Result<File> {
        let create = |state: &mut DiskState| {
            let place = state.place(path)?;
            match state.entry(&place)? {
                Some(_) if new => Err(Errno::EXIST.into()),
                Some(node) => {
                    state.change(node, Change::SetLength(0))?;
                    Ok(node)
                }
                None => create_at(state, place),
            }
        };
        let node = self.names(path, Operation::Create, create).await?;
        Ok(self.opened(node, path, Access::WRITE, 0))
    }

    pub(in super::super) async fn create_append(&self, path: &Path) -> Result<File> {
        let create = |state: &mut DiskState| {
            let place = state.place(path)?;
            let node = match state.entry(&place)? {
                Some(node) => node,
                None => create_at(state, place)?,
            };
            Ok((node, state.require_file(node)?))
        };
        let (node, end) = self.names(path, Operation::Create, create).await?;
        Ok(self.opened(node, path, Access::WRITE, end))
    }

    pub(in super::super) async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let rename = |state: &mut DiskState| {
            let (old, new) = (state.place(from)?, state.place(to)?);
            let node = state.entry(&old)?.ok_or(Errno::NOENT)?;
            let replaced = state.entry(&new)?;
            if replaced == Some(node) {
                // Two names of one file both stay.
                return Ok(());
            }
            let is_directory = state.directory(node).is_ok();
            if is_directory && state.holds(node, new.0) {
                return Err(Errno::INVAL.into());
            }
            if replaced.is_some_and(|id| state.holds(id, old.0)) {
                return Err(Errno::NOTEMPTY.into());
            }
            match replaced.map(|id| state.directory(id).map(|held| held.entries.is_empty())) {
                Some(Ok(true)) if is_directory => {}
                Some(Ok(false)) if is_directory => return Err(Errno::NOTEMPTY.into()),
                Some(Ok(_)) => return Err(Errno::ISDIR.into()),
                Some(Err(_)) if is_directory => return Err(Errno::NOTDIR.into()),
                _ => {}
            }
            state.change_names(vec![(old.0, old.1, None), (new.0, new.1, Some(node))])
        };
        let renamed = self.names(from, Operation::Rename, rename).await;
        renamed.map_err(|error| error.towards(to))
    }

    pub(in super::super) async fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let link = |state: &mut DiskState| {
            let node = state.lookup(from)?;
            let place = state.place(to)?;
            if state.entry(&place)?.is_some() {
                return Err(Errno::EXIST.into());
            }
            state.require_file(node).map_err(|_| Errno::PERM)?;
            state.change_names(vec![(place.0, place.1, Some(node))])
        };
        let linked = self.names(from, Operation::HardLink, link).await;
        linked.map_err(|error| error.towards(to))
    }

    pub(in super::super) async fn remove_file(&self, path: &Path) -> Result<()> {
        let remove = |state: &mut DiskState| {
            let place = state.place(path)?;
            let node = state.entry(&place)?.ok_or(Errno::NOENT)?;
            state.require_file(node)?;
            state.change_names(vec![(place.0, place.1, None)])
        };
        self.names(path, Operation::Remove, remove).await
    }

    pub(in super::super) async fn create_dir_all(&self, path: &Path) -> Result<()> {
        let create = |state: &mut DiskState| {
            let mut directory = ROOT;
            for name in components(path)? {
                let existing = state.directory(directory)?.entries.get(&name).copied();
                directory = match existing {
                    Some(id) => {
                        state.directory(id)?;
                        id
                    }
                    None => {
                        let id = state.insert(Node::Directory(DirectoryNode::default()));
                        state.change_names(vec![(directory, name, Some(id))])?;
                        state.sync_names(directory)?;
                        id
                    }
                };
            }
            Ok(())
        };
        self.names(path, Operation::CreateDirectory, create).await
    }

    pub(in super::super) async fn remove_dir_all(&self, path: &Path) -> Result<()> {
        let remove = |state: &mut DiskState| {
            let place = state.place(path)?;
            let node = state.entry(&place)?.ok_or(Errno::NOENT)?;
            empty_directory(state, node)?;
            state.change_names(vec![(place.0, place.1, None)])
        };
        self.names(path, Operation::RemoveDirectory, remove).await
    }

    pub(in super::super) async fn remove_empty_dir(&self, path: &Path) -> Result<()> {
        let remove = |state: &mut DiskState| {
            let place = state.place(path)?;
            let node = state.entry(&place)?.ok_or(Errno::NOENT)?;
            if state.directory(node)?.entries.is_empty() {
                state.change_names(vec![(place.0, place.1, None)])
            } else {
                Err(Errno::NOTEMPTY.into())
            }
        };
        self.names(path, Operation::RemoveDirectory, remove).await
    }

    pub(in super::super) async fn read_dir(
        &self,
        path: &Path,
        mut keep: impl FnMut(&str) -> bool,
    ) -> Result<Vec<DirectoryEntry>> {
        let list = |state: &mut DiskState| {
            let node = state.lookup(path)?;
            let entries = state.directory(node)?.entries.clone();
            Ok(entries
                .into_iter()
                .filter(|(name, _)| keep(name))
                .map(|(name, id)| DirectoryEntry {
                    path: path.join(&name),
                    is_directory: state.directory(id).is_ok(),
                    is_link: false,
                    name,
                })
                .collect())
        };
        self.names(path, Operation::ReadDirectory, list).await
    }

    pub(in super::super) async fn first_existing(
        &self,
        directory: &Path,
        names: Vec<String>,
    ) -> Result<Option<String>> {
        let look = |state: &mut DiskState| {
            for name in names {
                match state.lookup(&directory.join(&name)) {
                    Ok(_) => return Ok(Some(name)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        };
        self.names(directory, Operation::Metadata, look).await
    }

    pub(in super::super) async fn sync_dir(&self, path: &Path) -> Result<()> {
        let sync = |state: &mut DiskState| {
            let node = state.lookup(path)?;
            state.directory(node)?;
            state.sync_names(node)
        };
        self.names(path, Operation::SyncDirectory, sync).await
    }

    pub(in super::super) async fn metadata(&self, path: &Path) -> Result<Metadata> {
        let look = |state: &mut DiskState| {
            let id = state.lookup(path)?;
            match state.nodes.get(&id) {
                Some(Node::File(file)) => Ok(Metadata {
                    length: file.content.len() as u64,
                    is_directory: false,
                    modified_ms: file.modified_ms,
                    links: file.links,
                    device: 0,
                    inode: id,
                }),
                Some(Node::Directory(_)) => Ok(Metadata {
                    length: 0,
                    is_directory: true,
                    modified_ms: 0,
                    links: 1,
                    device: 0,
                    inode: id,
                }),
                None => Err(Errno::NOENT.into()),
            }
        };
        self.names(path, Operation::Metadata, look).await
    }
}

struct Access {
    direct: bool,
    writable: bool,
}

impl Access {
    const WRITE: Access = Access { direct: false, writable: true };
}

fn create_at(state: &mut DiskState, place: (NodeId, String)) -> io::Result<NodeId> {
    let modified_ms = crate::time::now_millis();
    let node = state.insert(Node::File(FileNode { modified_ms, ..FileNode::default() }));
    state.change_names(vec![(place.0, place.1, Some(node))])?;
    Ok(node)
}

fn empty_directory(state: &mut DiskState, directory: NodeId) -> io::Result<()> {
    let entries = state.directory(directory)?.entries.clone();
    for (name, id) in entries {
        if state.directory(id).is_ok() {
            empty_directory(state, id)?;
        }
        state.change_names(vec![(directory, name, None)])?;
    }
    Ok(())
}

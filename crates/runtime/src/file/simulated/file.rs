//! An open file on the simulated disk.

use super::super::error::{FileError, Operation};
use super::super::io_bytes::IoBytes;
use super::super::page_buffer::{PageBuffer, PageBufferMut};
use super::super::{PAGE_BYTES, Result};
use super::SimulatedDisk;
use super::disk::{Change, DiskState, NodeId};
use super::fault::Effect;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

pub(in super::super) struct SimulatedFile {
    disk: SimulatedDisk,
    node: NodeId,
    path: PathBuf,
    direct: bool,
    writable: bool,
    end: Cell<u64>,
}

impl SimulatedFile {
    pub(super) fn new(
        disk: SimulatedDisk,
        node: NodeId,
        path: &Path,
        direct: bool,
        writable: bool,
        end: u64,
    ) -> Self {
        SimulatedFile { disk, node, path: path.to_owned(), direct, writable, end: Cell::new(end) }
    }

    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    pub(in super::super) fn is_direct(&self) -> bool {
        self.direct
    }

    pub(in super::super) fn append_position(&self) -> u64 {
        self.end.get()
    }

    pub(in super::super) fn reserve(&self, length: u64) -> u64 {
        let offset = self.end.get();
        self.end.set(offset.saturating_add(length));
        offset
    }

    pub(in super::super) fn give_back(&self, offset: u64) {
        self.end.set(offset);
    }

    pub(in super::super) async fn read_at(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
    ) -> Result<PageBuffer> {
        self.disk.interleave().await;
        let mut state = self.disk.lock();
        let read = |state: &mut DiskState| {
            let effect = state.admit(Operation::Read, &self.path)?;
            let content = &state.file(self.node)?.content;
            let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            let end = begin.saturating_add(length).min(content.len());
            let mut bytes = content.read(begin..end);
            if effect == Some(Effect::FlipBit) && !bytes.is_empty() {
                let at = state.random.below(bytes.len() as u64 * 8) as usize;
                bytes[at / 8] ^= 1 << (at % 8);
            }
            Ok(bytes)
        };
        let bytes = read(&mut state)
            .map_err(|why| FileError::at(&self.path, Operation::Read, offset, length, why))?;
        drop(state);
        // As from the real disk, the bytes of a direct read lie at their offset within the page.
        let before = if self.direct { (offset % PAGE_BYTES as u64) as usize } else { 0 };
        let mut buffer = PageBufferMut::reusing(spare, before + bytes.len());
        buffer.resize(before);
        buffer.extend_from_slice(&bytes);
        Ok(buffer.freeze().slice(before..))
    }

    pub(in super::super) async fn read_exact_at(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
    ) -> Result<PageBuffer> {
        let buffer = self.read_at(offset, length, spare).await?;
        if buffer.len() == length {
            return Ok(buffer);
        }
        let why = io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file ends before the last byte requested",
        );
        Err(FileError::at(&self.path, Operation::Read, offset, length, why))
    }

    pub(in super::super) async fn write_at<B: IoBytes>(&self, offset: u64, buffer: B) -> Result<B> {
        self.disk.interleave().await;
        if !buffer.io_bytes().is_empty() {
            self.write(offset, buffer.io_bytes())?;
        }
        Ok(buffer)
    }

    pub(in super::super) async fn write_vectored_at<B: IoBytes>(
        &self,
        offset: u64,
        buffers: Vec<B>,
    ) -> Result<Vec<B>> {
        self.disk.interleave().await;
        let parts: Vec<&[u8]> = buffers.iter().map(IoBytes::io_bytes).collect();
        self.write(offset, &parts.concat())?;
        Ok(buffers)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.lock();
        let write = |state: &mut DiskState| {
            let effect = state.admit(Operation::Write, &self.path)?;
            if !self.writable {
                return Err(Errno::BADF.into());
            }
            let at = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
            at.checked_add(bytes.len())
                .filter(|&end| end < isize::MAX as usize)
                .ok_or(Errno::FBIG)?;
            let torn = effect == Some(Effect::Torn);
            let bytes = if torn { &bytes[..bytes.len() / 2] } else { bytes };
            if !bytes.is_empty() {
                state.change(self.node, Change::Write { offset: at, bytes: bytes.to_vec() })?;
            }
            if torn { Err(Errno::NOSPC.into()) } else { Ok(()) }
        };
        write(&mut state)
            .map_err(|why| FileError::at(&self.path, Operation::Write, offset, bytes.len(), why))
    }

    pub(in super::super) async fn sync(&self, _data_only: bool) -> Result<()> {
        self.disk.interleave().await;
        let mut state = self.disk.lock();
        let admitted = state.admit(Operation::Sync, &self.path);
        let failed = admitted.is_err();
        let synced = admitted.and_then(|_| state.sync_content(self.node));
        if failed {
            let _ = state.half_sync_content(self.node);
        }
        synced.map_err(|why| FileError::new(&self.path, Operation::Sync, why))
    }

    pub(in super::super) async fn allocate(&self, length: u64) -> Result<()> {
        let grow = |state: &mut DiskState| {
            let wanted = usize::try_from(length).map_err(|_| Errno::FBIG)?;
            if state.file(self.node)?.content.len() < wanted {
                state.change(self.node, Change::SetLength(wanted))?;
            }
            Ok(())
        };
        self.resize(Operation::Allocate, Errno::BADF, grow).await
    }

    pub(in super::super) async fn truncate(&self, length: u64) -> Result<()> {
        let set = |state: &mut DiskState| {
            let wanted = usize::try_from(length).map_err(|_| Errno::FBIG)?;
            state.change(self.node, Change::SetLength(wanted))
        };
        self.resize(Operation::Truncate, Errno::INVAL, set).await?;
        self.end.set(length);
        Ok(())
    }

    async fn resize(
        &self,
        operation: Operation,
        not_writable: Errno,
        act: impl FnOnce(&mut DiskState) -> io::Result<()>,
    ) -> Result<()> {
        self.disk.interleave().await;
        let mut state = self.disk.lock();
        let admitted = state.admit(operation, &self.path);
        let done = admitted
            .and_then(|_| if self.writable { act(&mut state) } else { Err(not_writable.into()) });
        done.map_err(|why| FileError::new(&self.path, operation, why))
    }

    pub(in super::super) async fn length(&self) -> Result<u64> {
        self.disk.interleave().await;
        let mut state = self.disk.lock();
        let length = state
            .admit(Operation::Metadata, &self.path)
            .and_then(|_| Ok(state.file(self.node)?.content.len() as u64));
        length.map_err(|why| FileError::new(&self.path, Operation::Metadata, why))
    }
}

//! Copying an SSTable under another name.

use espalier_runtime::file::FileSystem;

use super::{Component, Descriptor, components_found, remove_sstable};
use crate::error::{Result, SSTableError};

const PIECE_BYTES: usize = 1 << 20;

/// Copies all files of an SSTable, TOC.txt last: what a crash leaves of the copy is garbage to whoever lists the directory.
/// The version of both is the same. On an error nothing is left. Gives the bytes that were copied.
///
/// Memory: a piece of 1 MiB.
pub async fn copy_sstable(
    file_system: &FileSystem,
    from: &Descriptor,
    to: &Descriptor,
) -> Result<u64> {
    if (from.version, from.format) != (to.version, to.format) {
        let name = to.name_in_errors(&Component::Data);
        return Err(SSTableError::rejected(&name, format!("it is to be a copy of {from}")));
    }
    let outcome = copy(file_system, from, to).await;
    if outcome.is_err() {
        // The first error is the one to tell.
        let _ = remove_sstable(file_system, to).await;
    }
    outcome
}

async fn copy(file_system: &FileSystem, from: &Descriptor, to: &Descriptor) -> Result<u64> {
    let mut components = components_found(file_system, from).await?;
    components.remove(&Component::TemporaryToc);
    components.remove(&Component::Toc);
    let (toc, temporary) = (to.path(&Component::Toc), to.path(&Component::TemporaryToc));
    let mut copied = copy_file(file_system, from, &Component::Toc, &temporary).await?;
    file_system.sync_dir(&to.directory).await?;
    for component in &components {
        copied += copy_file(file_system, from, component, &to.path(component)).await?;
    }
    file_system.sync_dir(&to.directory).await?;
    file_system.rename(&temporary, &toc).await?;
    file_system.sync_dir(&to.directory).await?;
    Ok(copied)
}

async fn copy_file(
    file_system: &FileSystem,
    from: &Descriptor,
    component: &Component,
    to: &std::path::Path,
) -> Result<u64> {
    let source = file_system.open_read(from.path(component)).await?;
    let copy = file_system.create_new(to).await?;
    let mut offset = 0;
    loop {
        let piece = source.read_at(offset, PIECE_BYTES).await?;
        if piece.is_empty() {
            copy.sync_all().await?;
            return Ok(offset);
        }
        offset += piece.len() as u64;
        copy.append(piece).await?;
        espalier_runtime::maybe_yield().await;
    }
}

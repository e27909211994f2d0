//! This module copies an SSTable under another name, or links its files under another name.

use std::path::Path;

use espalier_runtime::file::{FileSystem, TrickleSync};

use super::{Component, Descriptor, check_name_is_free, components_found, take_back_if_failed};
use crate::error::{Result, SSTableError};

const PIECE_BYTES: usize = 1 << 20;

/// Copies all files of an SSTable and returns the number of bytes copied. Until [`seal`], a
/// directory listing reports the copy as garbage, which the next start removes. Both names must
/// have the same version. The copy is removed after an error.
///
/// Memory: a piece of 1 MiB.
///
/// # Errors
/// Fails if a file of the new name exists, if the versions differ, or if a file operation fails.
pub async fn copy_unsealed(
    file_system: &FileSystem,
    from: &Descriptor,
    to: &Descriptor,
) -> Result<u64> {
    under_another_name(file_system, from, to, How::Copy).await
}

/// Gives an SSTable a second name with a hard link for each file, and returns the length of the
/// files in bytes. Both names must be on one disk, where they share the blocks of the files. The
/// links are unsealed, as after [`copy_unsealed`].
///
/// # Errors
/// Fails if a file of the new name exists, if the versions differ, or if a file operation fails.
pub async fn link_unsealed(
    file_system: &FileSystem,
    from: &Descriptor,
    to: &Descriptor,
) -> Result<u64> {
    under_another_name(file_system, from, to, How::Link).await
}

/// Seals a copy: renames its temporary TOC to TOC.txt. The copy is removed after an error.
///
/// # Errors
/// Fails if a file operation fails.
pub async fn seal(file_system: &FileSystem, copy: &Descriptor) -> Result<()> {
    let (toc, temporary) = (copy.path(&Component::Toc), copy.path(&Component::TemporaryToc));
    let sealed = async {
        file_system.rename(&temporary, &toc).await?;
        file_system.sync_dir(&copy.directory).await
    };
    Ok(take_back_if_failed(file_system, copy, sealed.await).await?)
}

#[derive(Clone, Copy)]
enum How {
    Copy,
    Link,
}

async fn under_another_name(
    file_system: &FileSystem,
    from: &Descriptor,
    to: &Descriptor,
    how: How,
) -> Result<u64> {
    if (from.version, from.format) != (to.version, to.format) {
        let name = to.name_in_errors(&Component::Data);
        return Err(SSTableError::rejected(&name, format!("its version is not that of {from}")));
    }
    check_name_is_free(file_system, to).await?;
    take_back_if_failed(file_system, to, all_files(file_system, from, to, how).await).await
}

async fn all_files(
    file_system: &FileSystem,
    from: &Descriptor,
    to: &Descriptor,
    how: How,
) -> Result<u64> {
    let mut components = components_found(file_system, from).await?;
    components.remove(&Component::TemporaryToc);
    components.remove(&Component::Toc);
    let temporary = to.path(&Component::TemporaryToc);
    let mut copied = one_file(file_system, &from.path(&Component::Toc), &temporary, how).await?;
    file_system.sync_dir(&to.directory).await?;
    for component in &components {
        let (from, to) = (from.path(component), to.path(component));
        copied += one_file(file_system, &from, &to, how).await?;
    }
    file_system.sync_dir(&to.directory).await?;
    Ok(copied)
}

async fn one_file(file_system: &FileSystem, from: &Path, to: &Path, how: How) -> Result<u64> {
    if matches!(how, How::Link) {
        file_system.hard_link(from, to).await?;
        return Ok(file_system.metadata(to).await?.length);
    }
    let source = file_system.open_read(from).await?;
    let copy = file_system.create_new(to).await?;
    let mut syncs = TrickleSync::new(true);
    let mut offset = 0;
    loop {
        let piece = source.read_at(offset, PIECE_BYTES).await?;
        if piece.is_empty() {
            syncs.finish(&copy).await?;
            return Ok(offset);
        }
        offset += piece.len() as u64;
        copy.append(piece).await?;
        syncs.after(&copy, offset).await?;
        espalier_runtime::maybe_yield().await;
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{
        block_on,
        file::{
            Operation, TRICKLE_SYNC_BYTES,
            simulated::{Effect, Fault},
        },
    };

    use super::*;

    fn set(number: u32) -> Descriptor {
        Descriptor::parse(Path::new(&format!("/t/da-{number}-bti-Data.db"))).unwrap().0
    }

    /// Creates a file system with an SSTable. Its Data.db is so long that a copy is synced twice
    /// before its end.
    async fn prepared(seed: u64) -> FileSystem {
        let file_system = FileSystem::simulated(seed);
        file_system.create_dir_all("/t").await.unwrap();
        for (component, bytes) in
            [(Component::Data, 2 * TRICKLE_SYNC_BYTES as usize + 5), (Component::Toc, 8)]
        {
            let file = file_system.create_new(set(1).path(&component)).await.unwrap();
            let content = (0..bytes).map(|at| (at / 1000) as u8).collect::<Vec<_>>();
            file.append(content).await.unwrap();
        }
        file_system
    }

    async fn copy(file_system: &FileSystem) -> Result<()> {
        copy_unsealed(file_system, &set(1), &set(2)).await?;
        seal(file_system, &set(2)).await
    }

    #[test]
    fn a_copy_is_whole_and_outlives_a_crash() {
        block_on(async {
            let file_system = prepared(1).await;
            copy(&file_system).await.unwrap();
            let expected = file_system.read(set(1).path(&Component::Data)).await.unwrap();
            file_system.sync_dir("/").await.unwrap();
            let after = FileSystem::on(file_system.simulated_disk().unwrap().crash(3));
            let found = after.read(set(2).path(&Component::Data)).await.unwrap();
            assert!(found == expected);
        });
    }

    #[test]
    fn a_copy_that_cannot_be_synced_leaves_no_files() {
        block_on(async {
            // The copy syncs TOC.txt once, and Data.db three times: twice before its end and once
            // at its end.
            for nth in 0..=4 {
                let file_system = prepared(nth).await;
                let disk = file_system.simulated_disk().unwrap();
                disk.inject(Fault::nth(Operation::Sync, nth, Effect::InputOutput));
                let has_failed = copy(&file_system).await.is_err();
                assert_eq!(has_failed, nth < 4, "{nth}");
                let found = components_found(&file_system, &set(2)).await.unwrap();
                assert_eq!(found.is_empty(), has_failed, "{nth}");
            }
        });
    }
}

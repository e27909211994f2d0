//! Syncs a file at intervals while it is written, so that no sync, the last one included, has much
//! to write.
//!
//! Many disks serve no reads while they sync. With one sync at the end of each file, a disk that
//! syncs 1 MiB in 1.6 ms blocked reads for 50 ms. Cassandra calls this method `trickle_fsync`.

use super::{File, Result, wait_for_disk};
use crate::task::{JoinHandle, spawn_local};

/// Bytes between two syncs: about 3 ms at 1.6 ms for each MiB (arbitrary).
pub const TRICKLE_SYNC_BYTES: u64 = 2 << 20;

/// Syncs one file in the background, one sync at a time.
pub struct TrickleSync {
    /// If false, nothing is synced, because the content need not survive a crash.
    is_durable: bool,
    /// Bytes that a finished or running sync covers.
    synced: u64,
    /// The sync that runs in the background, or that has ended since the last call.
    under_way: Option<JoinHandle<Result<()>>>,
}

impl TrickleSync {
    /// Creates the state for an empty file. Without `is_durable`, nothing is synced.
    pub fn new(is_durable: bool) -> Self {
        Self { is_durable, synced: 0, under_way: None }
    }

    /// Starts a sync in the background once [`TRICKLE_SYNC_BYTES`] are unsynced, after the previous
    /// sync has ended. The writer calls this after each write; `written` is the length of the file
    /// so far.
    ///
    /// # Errors
    /// Fails if the previous sync failed.
    pub async fn after(&mut self, file: &File, written: u64) -> Result<()> {
        if self.is_durable && written.saturating_sub(self.synced) >= TRICKLE_SYNC_BYTES {
            self.settle().await?;
            self.synced = written;
            let file = file.clone();
            self.under_way = Some(spawn_local(async move { file.sync_data().await }));
        }
        Ok(())
    }

    /// Makes all bytes and the file's attributes durable if `is_durable` was set, but not the
    /// file's name in the directory. The writer calls this after its last write.
    ///
    /// # Errors
    /// Fails if the running sync or the last one fails. [`Self::after`] has returned the earlier
    /// failures.
    pub async fn finish(mut self, file: &File) -> Result<()> {
        self.settle().await?;
        if self.is_durable { wait_for_disk(file.sync_all()).await } else { Ok(()) }
    }

    /// Waits for the running sync. Its failure must be returned here: no later sync reports it.
    async fn settle(&mut self) -> Result<()> {
        match self.under_way.take() {
            Some(under_way) => wait_for_disk(under_way).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            FileSystem, Operation,
            simulated::{Effect, Fault},
        },
        *,
    };
    use crate::block_on;

    const PIECES: u64 = 10;

    /// Writes ten pieces, each half as large as the bytes between two syncs.
    async fn write(file_system: &FileSystem, is_durable: bool) -> Result<()> {
        let file = file_system.create_new("/file").await?;
        let mut syncs = TrickleSync::new(is_durable);
        for piece in 1..=PIECES {
            file.append(vec![piece as u8; TRICKLE_SYNC_BYTES as usize / 2]).await?;
            syncs.after(&file, file.append_position()).await?;
        }
        syncs.finish(&file).await
    }

    #[test]
    fn each_sync_on_the_way_and_the_last_one_count() {
        block_on(async {
            for (is_durable, syncs) in [(true, PIECES / 2 + 1), (false, 0)] {
                for nth in 0..=syncs {
                    let file_system = FileSystem::simulated(nth);
                    let disk = file_system.simulated_disk().unwrap();
                    disk.inject(Fault::nth(Operation::Sync, nth, Effect::NoSpace));
                    assert_eq!(
                        write(&file_system, is_durable).await.is_err(),
                        nth < syncs,
                        "{is_durable}, {nth}"
                    );
                }
            }
        });
    }

    #[test]
    fn bytes_covered_by_a_trickle_sync_survive_a_crash() {
        block_on(async {
            for seed in 0..20 {
                let file_system = FileSystem::simulated(seed);
                let (file, mut syncs) =
                    (file_system.create_new("/file").await.unwrap(), TrickleSync::new(true));
                file_system.sync_dir("/").await.unwrap();
                for piece in 1..=3 {
                    file.append(vec![piece; TRICKLE_SYNC_BYTES as usize / 2]).await.unwrap();
                    syncs.after(&file, file.append_position()).await.unwrap();
                }
                syncs.settle().await.unwrap();
                let disk = file_system.simulated_disk().unwrap().crash(seed);
                let found = FileSystem::on(disk).read("/file").await.unwrap();
                let (covered, rest) = found.split_at(TRICKLE_SYNC_BYTES as usize);
                let half = covered.len() / 2;
                assert!(
                    covered[..half].iter().all(|byte| *byte == 1)
                        && covered[half..].iter().all(|byte| *byte == 2),
                    "{seed}"
                );
                assert!(rest.len() <= half, "{seed}");
            }
        });
    }
}

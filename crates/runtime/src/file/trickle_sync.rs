//! Syncs of a file on the way while it is written, so that none has much to do, the last one neither.
//!
//! Many disks answer nothing while they sync: one that takes 1.6 ms for each MiB kept everybody's reads waiting for 50 ms a few times in
//! ten seconds, whenever a file was ready. Cassandra calls it `trickle_fsync`.

use super::{File, Result, wait_for_disk};
use crate::task::{JoinHandle, spawn_local};

/// Bytes between two syncs. Arbitrary: some milliseconds of such a disk.
pub const TRICKLE_SYNC_BYTES: u64 = 2 << 20;

/// The syncs of one file: one at a time, while its writer goes on.
pub struct TrickleSync {
    /// Without it nothing is synced: what is written need not outlive a crash.
    is_durable: bool,
    /// Bytes that a sync has covered, or that one is under way for.
    synced: u64,
    under_way: Option<JoinHandle<Result<()>>>,
}

impl TrickleSync {
    /// Of a file that is empty, and is to outlive a crash or not.
    pub fn new(is_durable: bool) -> Self {
        Self { is_durable, synced: 0, under_way: None }
    }

    /// To be called when the first `written` bytes are written: begins a sync if that is [`TRICKLE_SYNC_BYTES`] since the last one began,
    /// when that one has ended.
    ///
    /// # Errors
    ///
    /// What the one before could not write.
    pub async fn after(&mut self, file: &File, written: u64) -> Result<()> {
        if self.is_durable && written.saturating_sub(self.synced) >= TRICKLE_SYNC_BYTES {
            self.settle().await?;
            self.synced = written;
            let file = file.clone();
            self.under_way = Some(spawn_local(async move { file.sync_data().await }));
        }
        Ok(())
    }

    /// To be called when all is written: makes it and the file's attributes durable if it is to be, but not its name in the directory.
    ///
    /// # Errors
    ///
    /// What any sync could not write.
    pub async fn finish(mut self, file: &File) -> Result<()> {
        self.settle().await?;
        match self.is_durable {
            true => wait_for_disk(file.sync_all()).await,
            false => Ok(()),
        }
    }

    /// Waits for the sync under way. What it could not write is told by no later one.
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

    /// Ten pieces of half as much as is synced at once.
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
    fn what_a_sync_on_the_way_has_covered_outlives_a_crash() {
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

//! Measures the disk: many reads at once, each of 4 KiB at a random place of one file. The reads
//! bypass the kernel's page cache.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use espalier_runtime::file::{FileSystem, PAGE_BYTES};
use espalier_runtime::random::Generator;
use espalier_runtime::spawn_local;
use espalier_runtime::time::Instant;

use crate::BenchError;

/// Returns reads a second on this core. The file must have at least one page.
pub async fn reads_per_s(
    path: &Path,
    under_way: u32,
    duration: Duration,
    seed: u64,
) -> Result<f64, BenchError> {
    let file = Rc::new(FileSystem::real().open_read_direct(path).await?);
    let pages = (file.length().await? / PAGE_BYTES as u64).max(1);
    let (began, done) = (Instant::now(), Rc::new(Cell::new(0u64)));
    let end = began + duration;
    let tasks: Vec<_> = (0..under_way)
        .map(|task| {
            let (file, done) = (file.clone(), done.clone());
            let mut random = Generator::from_seed(seed.wrapping_add(u64::from(task) << 32));
            spawn_local(async move {
                while Instant::now() < end {
                    let offset = random.below(pages) * PAGE_BYTES as u64;
                    file.read_at(offset, PAGE_BYTES).await?;
                    done.set(done.get() + 1);
                }
                Ok::<(), BenchError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    Ok(done.get() as f64 / began.elapsed().as_secs_f64())
}

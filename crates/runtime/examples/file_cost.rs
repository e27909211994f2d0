//! Measures the cost of file operations on a shard: `cargo run --release --example file_cost
//! [DIRECTORY]`.
//!
//! It prints the time and the processor time of this thread for each operation, with one operation
//! at a time and with several at once: appends, appends with sync (the commit log), reads of pages
//! through and around the kernel's page cache.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use espalier_runtime::file::{File, FileSystem, PAGE_BYTES};
use espalier_runtime::random::Generator;
use espalier_runtime::{block_on, driver_notice};
use futures_util::StreamExt as _;
use futures_util::stream;
use std::future::Future;
use std::time::{Duration, Instant};

const PAGES: u64 = 16 * 1024;

fn main() {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let path = std::path::Path::new(&directory).join("file_cost.tmp");
    block_on(async {
        println!("{:40}  µs/operation  ns of processor", "");
        let system = FileSystem::real();
        let file = system.create(&path).await.unwrap();
        let append = |_| async { drop(file.append(vec![7; PAGE_BYTES]).await.unwrap()) };
        measure("append 4 KiB", 4096, 1, append).await;
        measure("append 4 KiB, 16 at once", PAGES - 4096, 16, append).await;
        let synced = |_| async {
            file.write_at(0, vec![8; PAGE_BYTES]).await.unwrap();
            file.sync_data().await.unwrap();
        };
        measure("overwrite 4 KiB and sync", 100, 1, synced).await;
        let appended = |_| async {
            file.append(vec![8; 512]).await.unwrap();
            file.sync_data().await.unwrap();
        };
        measure("append 512 bytes and sync", 100, 1, appended).await;
        file.sync_all().await.unwrap();
        let cached = system.open_read(&path).await.unwrap();
        measure("read a cached page", 20_000, 1, random_reads(&cached)).await;
        measure("read a cached page, 16 at once", 20_000, 16, random_reads(&cached)).await;
        let direct = system.open_read_direct(&path).await.unwrap();
        println!("direct: {}", direct.is_direct());
        measure("read a page around the cache", 2_000, 1, random_reads(&direct)).await;
        measure("read a page around the cache, 16 at once", 20_000, 16, random_reads(&direct))
            .await;
        measure("read a page around the cache, 64 at once", 20_000, 64, random_reads(&direct))
            .await;
        system.remove_file(&path).await.unwrap();
    });
    println!("driver: {}", driver_notice().unwrap_or("none"));
}

fn random_reads(
    file: &File,
) -> impl Fn(u64) -> std::pin::Pin<Box<dyn Future<Output = ()>>> + use<> {
    let file = file.clone();
    move |number| {
        let file = file.clone();
        Box::pin(async move {
            let page = Generator::from_seed(number).below(PAGES);
            file.read_exact_at(page * PAGE_BYTES as u64, PAGE_BYTES).await.unwrap();
        })
    }
}

async fn measure<F: Future<Output = ()>>(
    what: &str,
    count: u64,
    at_once: usize,
    operation: impl Fn(u64) -> F,
) {
    let (from, from_thread) = (Instant::now(), thread_time());
    let mut running = stream::iter(0..count).map(operation).buffer_unordered(at_once);
    while running.next().await.is_some() {}
    let each_us = from.elapsed().as_secs_f64() * 1e6 / count as f64;
    let thread_ns = (thread_time() - from_thread).as_nanos() as f64 / count as f64;
    println!("{what:40}  {each_us:12.1}  {thread_ns:15.0}");
}

/// Returns the processor time of the calling thread.
fn thread_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

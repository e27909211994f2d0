//! Chooses the kernel interface on which a shard runs, and its flags.
//!
//! The first choice is io_uring with a single issuer and deferred task run: the kernel then handles
//! completions when the loop asks for them, without interrupting a running task. Older kernels
//! refuse some flags, and containers often refuse io_uring altogether. Each refusal falls back one
//! step; the last step is epoll and threads.

use compio::driver::{DriverType, ProactorBuilder};
use compio::runtime::{Runtime, RuntimeBuilder};
use std::io;
use std::sync::OnceLock;

/// Entries of the submission queue of one shard (arbitrary); a full queue is flushed, not an error.
const SUBMISSION_ENTRIES: u32 = 1024;

/// Completions the ring can hold before the kernel keeps the overflow on its own list.
const COMPLETION_ENTRIES: u32 = 8 * 1024;

/// Maximum number of threads of one shard that may block in the kernel.
pub(crate) const BLOCKING_THREADS: usize = 16;

static NOTICE: OnceLock<String> = OnceLock::new();

/// Returns one line for the log about the kernel interface in use, such as `io_uring (single
/// issuer, deferred task run)` or `epoll and threads: io_uring is unavailable (Operation not
/// permitted (os error 1))`. Returns `None` before the first event loop was started.
pub fn driver_notice() -> Option<&'static str> {
    NOTICE.get().map(String::as_str)
}

/// Builds the runtime of the calling thread. Returns the kernel's error for the last fallback if
/// all fail.
///
/// The environment variable `ESPALIER_DRIVER` (`deferred`, `cooperative`, `plain` or `epoll`) names
/// the interface that is tried first, to test and to compare the fallbacks.
pub(crate) fn build() -> io::Result<Runtime> {
    let mut refusal = None;
    let wanted = std::env::var("ESPALIER_DRIVER").unwrap_or_default();
    let first = match wanted.as_str() {
        "cooperative" => 1,
        "plain" => 2,
        "epoll" => IO_URING_VARIANTS.len(),
        _ => 0,
    };
    for (description, configure) in &IO_URING_VARIANTS[first..] {
        let mut proactor = ProactorBuilder::new();
        proactor.driver_type(DriverType::IoUring);
        configure(&mut proactor);
        match build_with(proactor) {
            Ok(runtime) => {
                NOTICE.get_or_init(|| (*description).to_owned());
                return Ok(runtime);
            }
            Err(error) => refusal = Some(error),
        }
    }
    let mut proactor = ProactorBuilder::new();
    proactor.driver_type(DriverType::Poll);
    let runtime = build_with(proactor)?;
    NOTICE.get_or_init(|| match refusal {
        Some(error) => format!("epoll and threads: io_uring is unavailable ({error})"),
        None => "epoll and threads: io_uring was not asked for".to_owned(),
    });
    Ok(runtime)
}

const IO_URING_VARIANTS: &[(&str, fn(&mut ProactorBuilder))] = &[
    ("io_uring (single issuer, deferred task run)", |proactor| {
        proactor.single_issuer(true).defer_taskrun(true).taskrun_flag(true);
        proactor.cqsize(COMPLETION_ENTRIES);
    }),
    ("io_uring (cooperative task run)", |proactor| {
        proactor.coop_taskrun(true).taskrun_flag(true).cqsize(COMPLETION_ENTRIES);
    }),
    ("io_uring (without flags)", |_| {}),
];

fn build_with(mut proactor: ProactorBuilder) -> io::Result<Runtime> {
    proactor.capacity(SUBMISSION_ENTRIES).thread_pool_limit(BLOCKING_THREADS);
    let mut builder = RuntimeBuilder::new();
    // One task per tick: the loop of this crate, not the executor, decides when to ask the kernel
    // again.
    builder.with_proactor(proactor).event_interval(1);
    builder.build()
}

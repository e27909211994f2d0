//! How many processors there are for us, and keeping a thread on one of them.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

/// How many threads can run at the same time, within affinity and the quota of the control group (rounded
/// down, at least 1).
pub fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// The processors that this process may run on, in order.
pub fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Where threads may run that are not pinned: what was allowed before the first thread was pinned.
static UNPINNED: OnceLock<CpuSet> = OnceLock::new();

/// Keeps the calling thread on one processor. Fails if the process may not run there.
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such processor"));
    }
    let before = sched_getaffinity(None)?;
    UNPINNED.get_or_init(|| before);
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(())
}

/// Frees a helper thread from the processor of the pinned shard that started it; the shard needs it.
pub(crate) fn unpin_helper_thread() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !DONE.replace(true)
        && let Some(set) = UNPINNED.get()
    {
        // Best effort: where it fails, the helper only shares the processor.
        let _ = sched_setaffinity(None, set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_one_cpu() {
        let cpus = allowed_cpus();
        assert!(available_parallelism() <= cpus.len());
        let last = *cpus.last().unwrap();
        let seen = std::thread::spawn(move || {
            pin_current_thread(last).unwrap();
            allowed_cpus()
        });
        assert_eq!(seen.join().unwrap(), [last]);
        assert!(pin_current_thread(usize::MAX).is_err());
    }
}

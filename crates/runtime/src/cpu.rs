//! Reports the processors that may be used, pins threads to processors, and measures processor
//! time.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// Returns the number of threads that can run at the same time within the affinity of the calling
/// thread and the quota of the control group (rounded down, at least 1).
pub fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// Returns the processors on which the calling thread may run, in ascending order; none if the
/// kernel does not report them.
pub fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Returns the time that the calling thread has spent on a processor, to the nanosecond. Costs a
/// system call.
pub fn thread_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the processor time of all threads of the process together, including the kernel's
/// threads that work for it.
pub fn process_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Reads a clock of the kernel through the C library, because rustix does not find the kernel's
/// vDSO under valgrind.
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec`, which is only written.
    let outcome = unsafe { libc::clock_gettime(id, &mut time) };
    debug_assert_eq!(outcome, 0, "these clocks are there since Linux 2.6.12");
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The kernel's accounts of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadUsage {
    /// Time on a processor, including the kernel's work for the thread.
    pub on_core: Duration,
    /// The number of times that the thread waited for something, such as a disk or a lock.
    /// Preemptions do not count.
    pub waits: u64,
}

/// Returns the resources that the calling thread has used since it began. Costs two system calls.
pub(crate) fn thread_usage() -> ThreadUsage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the size and alignment of a `rusage`, which is only
    // written.
    let outcome = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    debug_assert_eq!(outcome, 0, "the kernel has counted this since Linux 2.6.26");
    // SAFETY: it was zeroed, which is a valid value of all its fields, and then perhaps written.
    let usage = unsafe { usage.assume_init() };
    // The time in `usage` is only as fresh as the last tick of the kernel's scheduler.
    ThreadUsage { on_core: thread_time(), waits: usage.ru_nvcsw.unsigned_abs() }
}

/// The processors for threads that are not pinned: the affinity before the first thread was pinned.
static UNPINNED: OnceLock<CpuSet> = OnceLock::new();

/// Pins the calling thread to one processor.
///
/// # Errors
/// Fails if there is no such processor or the process may not run on it.
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

/// Undoes two things that a helper thread inherits from the shard that starts it: the pinning to
/// the shard's processor, and the name.
pub(crate) fn become_helper_thread() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !DONE.replace(true) {
        // Both may fail; the helper then keeps the processor or the name of the shard.
        let _ = rustix::thread::set_name(c"helper");
        if let Some(set) = UNPINNED.get() {
            let _ = sched_setaffinity(None, set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_by_with_work_only() {
        let before = thread_time();
        std::thread::sleep(Duration::from_millis(20));
        assert!(thread_time() - before < Duration::from_millis(15));
        assert!(process_time() >= thread_time());
        let mut sum = 0u64;
        while thread_time() - before < Duration::from_millis(20) {
            sum = std::hint::black_box(sum + 1);
        }
    }

    #[test]
    fn thread_usage_distinguishes_work_from_waiting() {
        let before = thread_usage();
        let began = std::time::Instant::now();
        while thread_usage().on_core < before.on_core + Duration::from_millis(20) {
            assert!(began.elapsed() < Duration::from_secs(60), "work is not counted");
        }
        let worked = thread_usage();
        std::thread::sleep(Duration::from_millis(20));
        let waited = thread_usage();
        assert!(waited.waits > worked.waits);
        assert!(waited.on_core < worked.on_core + Duration::from_millis(15));
    }

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

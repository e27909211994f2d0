//! Uses the processor's counters to count the instructions that a thread executes, if the kernel
//! offers these counters.
//!
//! Most virtual machines have no such counters. Only instructions outside of the kernel are
//! counted, which needs no privilege if `kernel.perf_event_paranoid` is at most 2. Source:
//! perf_event_open(2).

use std::io;
use std::os::fd::OwnedFd;

/// A counter, by the kernel's numbers.
#[derive(Clone, Copy)]
struct Event {
    kind: u32,
    config: u64,
}

const INSTRUCTIONS: Event = Event { kind: 0, config: 1 };

/// Counts the instructions of the thread that made it.
#[derive(Debug)]
pub struct InstructionCounter(OwnedFd);

impl InstructionCounter {
    /// Starts to count.
    ///
    /// # Errors
    /// Fails if the processor has no such counter, or the kernel does not offer or does not allow
    /// it.
    pub fn of_this_thread() -> io::Result<Self> {
        open(INSTRUCTIONS).map(Self)
    }

    /// Returns the number of instructions since the counter was made; `None` if the kernel does not
    /// report it.
    pub fn read(&self) -> Option<u64> {
        read(&self.0)
    }
}

fn read(counter: &OwnedFd) -> Option<u64> {
    let mut count = [0; 8];
    match rustix::io::read(counter, &mut count) {
        Ok(8) => Some(u64::from_ne_bytes(count)),
        _ => None,
    }
}

/// The first version of the kernel's `perf_event_attr`: 64 bytes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// Bits of `flags`.
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn open(event: Event) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;

    const PERF_EVENT_OPEN: usize = 298;
    const CLOSE_ON_EXEC: usize = 8;
    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config,
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        wakeup_events: 0,
        breakpoint_type: 0,
        breakpoint_address: 0,
    };
    let result: isize;
    // SAFETY: the call reads the attributes, which live until it returns, and touches no other
    // memory of this process; it changes rax, rcx and r11, as every system call. The arguments
    // mean: this thread, any processor, no group.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") PERF_EVENT_OPEN => result,
            in("rdi") &raw const attributes,
            in("rsi") 0usize,
            in("rdx") usize::MAX,
            in("r10") usize::MAX,
            in("r8") CLOSE_ON_EXEC,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match i32::try_from(result) {
        // SAFETY: the kernel made the descriptor just now, and nothing else owns it.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        Ok(error) => Err(io::Error::from_raw_os_error(-error)),
        Err(_) => Err(io::Error::other("the kernel gave no descriptor")),
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn open(_: Event) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Nanoseconds on a processor, which the kernel counts by itself.
    const TASK_CLOCK: Event = Event { kind: 1, config: 1 };

    #[test]
    fn a_counter_goes_up_with_work() {
        let Ok(counter) = open(TASK_CLOCK) else {
            println!("skipped: perf events are not allowed here");
            return;
        };
        let before = read(&counter).unwrap();
        let mut sum = 0u64;
        for number in 0..3_000_000u64 {
            sum = std::hint::black_box(sum.rotate_left(5) ^ number);
        }
        let after = read(&counter).unwrap();
        assert!(after > before + 100_000, "{before} {after}");
        if let Ok(instructions) = InstructionCounter::of_this_thread() {
            let before = instructions.read().unwrap();
            std::hint::black_box((0..1000).fold(sum, |sum, number| sum ^ number));
            assert!(instructions.read().unwrap() > before);
        }
    }
}

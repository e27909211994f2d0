//! The cheapest clock: cycle-counter ticks, to measure how long a task has held the core.
//!
//! Ticks come from the time stamp counter if the processor promises a constant rate in all power
//! states, and from the kernel's monotonic clock (in nanoseconds) otherwise. The counter is
//! calibrated at the first use by a spin of 200 µs, which is precise to about 0.1%: good for
//! budgets, not for timestamps. An interrupted reading of the two clocks is repeated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Ticks per microsecond; 0 until calibrated. The top bit means that ticks are nanoseconds of the
/// monotonic clock rather than cycles.
static SCALE: AtomicU64 = AtomicU64::new(0);

const MONOTONIC: u64 = 1 << 63;

/// Returns the current tick. Differences are meaningful on one thread; across threads only
/// approximately.
#[inline]
pub(crate) fn now() -> u64 {
    let scale = SCALE.load(Ordering::Relaxed);
    if scale != 0 && scale & MONOTONIC == 0 { cycles() } else { now_slow(scale) }
}

#[cold]
fn now_slow(scale: u64) -> u64 {
    if scale == 0 {
        calibrate();
        return now();
    }
    monotonic_nanoseconds()
}

/// Returns the number of ticks in `duration`.
pub(crate) fn from_duration(duration: Duration) -> u64 {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    nanoseconds.saturating_mul(per_microsecond()) / 1_000
}

/// Returns the duration of `ticks` in microseconds, rounded down.
pub(crate) fn to_microseconds(ticks: u64) -> u64 {
    ticks / per_microsecond()
}

fn per_microsecond() -> u64 {
    let mut scale = SCALE.load(Ordering::Relaxed);
    if scale == 0 {
        calibrate();
        scale = SCALE.load(Ordering::Relaxed);
    }
    (scale & !MONOTONIC).max(1)
}

#[cold]
fn calibrate() {
    let scale = if constant_rate_counter() { cycles_per_microsecond() } else { MONOTONIC | 1_000 };
    SCALE.store(scale, Ordering::Relaxed);
}

fn cycles_per_microsecond() -> u64 {
    let (from_cycles, from) = read_both(cycles, Instant::now);
    while from.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
    let (to_cycles, to) = read_both(cycles, Instant::now);
    let elapsed_cycles = u128::from(to_cycles.wrapping_sub(from_cycles));
    let per_microsecond = elapsed_cycles * 1_000 / to.duration_since(from).as_nanos().max(1);
    u64::try_from(per_microsecond).unwrap_or(1).clamp(1, MONOTONIC - 1)
}

/// Reads the counter and another clock at the same moment. The call returns the shortest of several
/// readings, because an interrupt can separate the two clocks by many microseconds.
fn read_both<T>(mut counter: impl FnMut() -> u64, mut clock: impl FnMut() -> T) -> (u64, T) {
    let mut reading = || {
        let before = counter();
        let other = clock();
        (counter().wrapping_sub(before), before, other)
    };
    let mut shortest = reading();
    for _ in 0..7 {
        let next = reading();
        if next.0 < shortest.0 {
            shortest = next;
        }
    }
    let (length, before, other) = shortest;
    (before.wrapping_add(length / 2), other)
}

fn monotonic_nanoseconds() -> u64 {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(EPOCH.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    // SAFETY: the instruction has no preconditions and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
fn constant_rate_counter() -> bool {
    use core::arch::x86_64::__cpuid;
    const POWER_MANAGEMENT_LEAF: u32 = 0x8000_0007;
    const INVARIANT_COUNTER: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT_LEAF
        && __cpuid(POWER_MANAGEMENT_LEAF).edx & INVARIANT_COUNTER != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn cycles() -> u64 {
    monotonic_nanoseconds()
}

#[cfg(not(target_arch = "x86_64"))]
fn constant_rate_counter() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn ticks_agree_with_the_monotonic_clock() {
        let (from, from_ticks) = (Instant::now(), now());
        std::thread::sleep(Duration::from_millis(20));
        let ticked_us = to_microseconds(now() - from_ticks);
        let elapsed_us = from.elapsed().as_micros() as u64;
        assert!(ticked_us <= elapsed_us + elapsed_us / 50, "{ticked_us} µs of {elapsed_us} µs");
        assert!(ticked_us >= 19_000, "{ticked_us} µs of {elapsed_us} µs");
    }

    #[test]
    fn an_interrupted_reading_of_both_clocks_does_not_count() {
        // Each reading calls the clocks three times. An interrupt comes before the second call of
        // the first reading, and before the third call of the second reading.
        let (time, calls) = (Cell::new(0), Cell::new(0));
        let tick = || {
            let interrupt = if matches!(calls.get(), 1 | 5) { 5_000 } else { 0 };
            calls.set(calls.get() + 1);
            time.set(time.get() + 10 + interrupt);
            time.get()
        };
        let (counter, clock) = read_both(tick, tick);
        assert_eq!(counter, clock);
    }

    #[test]
    fn durations_survive_the_round_trip() {
        let ticks = from_duration(Duration::from_micros(500));
        assert!((495..=505).contains(&to_microseconds(ticks)));
    }
}

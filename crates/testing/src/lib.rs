//! Chooses the number of random cases of a test, the first seed, and ports, and measures the time
//! that a test takes.
//!
//! A test names the number of cases of a full run. The gate runs a tenth of them, from a seed that
//! the test script computes from the day of the last commit; `make nightly` runs all. A test that
//! is run by hand runs a tenth from seed 0, so the run can be repeated. Settings by environment:
//!
//! - `NIGHTLY`: any value but the empty one runs all cases.
//! - `TEST_CASES=N`: each test runs N cases; [`run_seeds`] may run more, and [`sample`] ignores it.
//! - `TEST_SEED=N`: the first seed.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use proptest::test_runner::{Config, RngSeed};

/// The gate runs one case of this many.
const GATE_PART: u64 = 10;

/// Returns whether all cases run. A test that asserts the number of times that something happened
/// asserts the full number only if all cases run, and otherwise the smaller number of [`at_least`].
pub fn runs_all() -> bool {
    std::env::var_os("NIGHTLY").is_some_and(|value| !value.is_empty())
}

/// Returns the number of cases to run, at least one, for a test with `all` cases in a full run.
pub fn cases(all: u64) -> u64 {
    part_of(all, runs_all(), number("TEST_CASES"))
}

fn part_of(all: u64, runs_all: bool, wanted: Option<u64>) -> u64 {
    let part = if runs_all { all } else { all / GATE_PART };
    wanted.unwrap_or(part).max(1)
}

/// Returns the first seed. Seeds of one run are consecutive.
pub fn first_seed() -> u64 {
    number("TEST_SEED").unwrap_or(0)
}

/// Returns the seeds of a test that has `all` of them in a full run.
pub fn seeds(all: u64) -> Range<u64> {
    let first = first_seed();
    first..first.saturating_add(cases(all))
}

/// Returns all numbers of `all` in a full run, and otherwise a tenth of them, which the first seed
/// selects. It is for numbers that have a meaning of their own, such as the operation at which the
/// power fails.
pub fn sample(all: Range<u64>) -> impl Iterator<Item = u64> {
    let (step, first) = if runs_all() { (1, 0) } else { (GATE_PART, first_seed() % GATE_PART) };
    all.skip(first as usize).step_by(step as usize)
}

/// Returns the minimum number of times that something must have happened, if a full run expects
/// `all`: a fortieth of `all` if a tenth of the cases runs, and 0 if `TEST_CASES` is set. Each day
/// has other seeds, and few seeds are far from the average on some days, so the minimum is a
/// quarter of the share of a tenth (arbitrary).
pub fn at_least(all: u64) -> u64 {
    match number("TEST_CASES") {
        Some(_) => 0,
        None if runs_all() => all,
        None => all / (4 * GATE_PART),
    }
}

/// The number of seeds that [`run_seeds`] may add (arbitrary).
const MORE_SEEDS: u64 = 10;

/// Calls `run` with each of the [`seeds`] of `all`, and then with up to ten more until it returns
/// true. Returns the last result of `run`.
///
/// It is for a test whose `run` returns whether a rare event has happened often enough, because few
/// seeds may meet the event too seldom. A full run adds seeds too, so its minimum may be met only
/// by the added seeds. They run only if the seeds of `all` do not meet it.
pub fn run_seeds(all: u64, mut run: impl FnMut(u64) -> bool) -> bool {
    let seeds = seeds(all);
    let mut more = seeds.end..seeds.end.saturating_add(MORE_SEEDS);
    let mut is_enough = false;
    for seed in seeds {
        is_enough = run(seed);
    }
    is_enough || more.any(run)
}

/// The ports of [`free_addresses`]. The kernel gives higher ones to connections, so no connection
/// takes such a port before the test listens on it.
const PORTS: Range<u32> = 10_000..30_000;

/// The distance between the first ports of two successive processes (arbitrary).
const PORTS_OF_PROCESS: u32 = 331;

/// Returns different addresses of this machine on which no program listens, for a test whose
/// listeners must know their address before they listen.
#[allow(clippy::disallowed_types, reason = "it only asks the kernel if an address is free")]
pub fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(PORTS_OF_PROCESS);
    std::array::from_fn(|_| {
        loop {
            let number = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
            let port = PORTS.start + number % (PORTS.end - PORTS.start);
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
            if std::net::TcpListener::bind(address).is_ok() {
                return address;
            }
        }
    })
}

/// The part of the time by the clock that counts if the thread of a test mostly waits (arbitrary).
const CLOCK_PART: u32 = 6;

/// Measures the time that a test takes, nearly without the time for which other threads and
/// processes have the cores.
pub struct Stopwatch {
    began: Instant,
    worked: Option<Duration>,
}

impl Stopwatch {
    /// Starts to measure the calling thread.
    #[allow(clippy::disallowed_methods, reason = "a test measures itself, by no simulated clock")]
    pub fn start() -> Self {
        Self { began: Instant::now(), worked: thread_time() }
    }

    /// Returns the processor time that the calling thread, which called [`Stopwatch::start`], has
    /// used since the start. Returns a sixth of the time by the clock if that is more, because
    /// helper threads may work for the test.
    pub fn elapsed(&self) -> Duration {
        let by_clock = self.began.elapsed();
        match self.worked.zip(thread_time()) {
            Some((before, now)) => now.saturating_sub(before).max(by_clock / CLOCK_PART),
            None => by_clock,
        }
    }
}

/// Returns the processor time of the calling thread; `None` if the kernel does not report it.
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

/// Returns the configuration of a property that has `all` cases in a full run. It keeps no file of
/// failures; a failure is repeated by its seed.
pub fn properties(all: u32) -> Config {
    Config {
        cases: u32::try_from(cases(all.into())).unwrap_or(u32::MAX),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(first_seed()),
        ..Config::default()
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_a_case() {
        assert_eq!(part_of(1000, false, None), 100);
        assert_eq!(part_of(1000, true, None), 1000);
        assert_eq!(part_of(3, false, None), 1);
        assert_eq!(part_of(0, true, None), 1);
        assert_eq!(part_of(1000, true, Some(7)), 7);
        assert_eq!(part_of(1000, true, Some(0)), 1);
    }

    #[test]
    fn ten_more_seeds_run_at_most() {
        let (first, count) = (first_seed(), cases(30));
        let most = count + MORE_SEEDS;
        for (enough, expected) in [(1, count), (count + 3, count + 3), (most + 1, most)] {
            let mut ran = Vec::new();
            let is_enough = run_seeds(30, |seed| {
                ran.push(seed);
                ran.len() as u64 >= enough
            });
            assert_eq!(is_enough, enough == expected || enough == 1);
            assert_eq!(ran, (first..first + expected).collect::<Vec<_>>());
        }
    }

    #[test]
    #[allow(clippy::disallowed_types)]
    fn free_addresses_differ_and_a_taken_one_is_left_out() {
        let [first, second] = free_addresses();
        let _taken = std::net::TcpListener::bind(second).unwrap();
        let later: [SocketAddr; 100] = free_addresses();
        assert!(first != second && !later.contains(&first) && !later.contains(&second));
    }

    #[test]
    fn a_stopwatch_measures_work_and_little_of_a_sleep() {
        let mut waited = Duration::MAX;
        // Other processes may have the core after the sleep.
        for _ in 0..20 {
            let stopwatch = Stopwatch::start();
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_millis(50));
            waited = waited.min(stopwatch.elapsed());
        }
        assert!((8..30).contains(&waited.as_millis()), "{waited:?}");
        let (stopwatch, mut sum) = (Stopwatch::start(), 0u64);
        while stopwatch.elapsed() < Duration::from_millis(30) {
            sum = std::hint::black_box(sum + 1);
        }
    }
}

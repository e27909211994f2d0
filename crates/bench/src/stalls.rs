//! Measures how long a task holds the core while some work is done.
//!
//! Time that a hypervisor takes from the core counts as held, so the shortest of several rounds is
//! printed and compared with the limit.

use espalier_runtime::{
    preempt::{StallReport, take_stall_report},
    spawn_local,
    time::{Instant, sleep},
};

use super::{BenchError, print_line};

/// A piece of work, the task that held the core longest during the work, and the time of the whole
/// work.
pub(super) struct Stall {
    what: String,
    report: StallReport,
    took_ms: f64,
}

/// The stalls of one round; every round has the same pieces of work in the same order.
pub(super) struct Round(pub(super) Vec<Stall>);

/// Prints, for each piece of work, the shortest stall of the rounds. Returns an error if one of
/// these stalls is longer than `max_us`.
pub(super) fn print(parts: &[&[Round]], max_us: u64) -> Result<(), BenchError> {
    print_line(format_args!("the longest time that a task held the core, in us"))?;
    let mut too_long = Vec::new();
    for rounds in parts {
        let Some(Round(first)) = rounds.first() else { continue };
        for (index, Stall { what, .. }) in first.iter().enumerate() {
            let all = || rounds.iter().filter_map(|Round(stalls)| stalls.get(index));
            let Some(least) = all().map(|stall| stall.report).min_by_key(|it| it.longest_us) else {
                continue;
            };
            let took_ms = all().map(|stall| stall.took_ms).fold(f64::INFINITY, f64::min);
            let longest_us = least.longest_us;
            print_line(format_args!("{what:<72} {longest_us:>8} in {took_ms:>8.1} ms"))?;
            if longest_us > max_us {
                let task = least.longest_task.map(|at| format!(" (a task of {at})"));
                too_long.push(format!("{what}: {longest_us}{}", task.unwrap_or_default()));
            }
        }
    }
    if too_long.is_empty() {
        Ok(())
    } else {
        Err(BenchError::TooLong { max_us, what: too_long.join("; ") })
    }
}

/// Runs a task and records the longest time that any task held the core while it ran.
pub(super) async fn watch(
    what: String,
    task: impl Future<Output = Result<(), BenchError>> + 'static,
) -> Result<Stall, BenchError> {
    // Earlier work ends before the measurement begins.
    sleep(std::time::Duration::from_millis(50)).await;
    take_stall_report();
    let began = Instant::now();
    spawn_local(task).await?;
    let took_ms = began.elapsed().as_secs_f64() * 1e3;
    Ok(Stall { what, report: take_stall_report(), took_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(longest_us: u64) -> Round {
        let report = StallReport { longest_us, ..StallReport::default() };
        Round(vec![Stall { what: "work".to_owned(), report, took_ms: 1.0 }])
    }

    #[test]
    fn a_stall_above_the_limit_in_every_round_is_an_error() {
        assert!(print(&[&[round(5000), round(1000)], &[round(7)]], 1000).is_ok());
        let result = print(&[&[round(7)], &[round(5000), round(1001)]], 1000);
        let error = result.unwrap_err().to_string();
        assert!(error.contains("work: 1001"), "{error}");
    }
}

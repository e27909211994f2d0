//! Shows the progress of a long command: one line on a terminal, redrawn a few times a second.
//! Nothing is shown if standard error is not a terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use espalier_runtime::time::Instant;

/// A command that takes less time shows no line.
const PATIENCE: Duration = Duration::from_millis(700);
const PERIOD: Duration = Duration::from_millis(200);
/// The clock is read only after this many more bytes.
const STEP_BYTES: u64 = 1 << 20;

/// The progress line.
pub struct Progress {
    what: String,
    total_bytes: u64,
    began: Instant,
    last_drawn: Option<Instant>,
    next_bytes: u64,
    is_shown: bool,
}

impl Progress {
    /// Starts the progress of a command with `total_bytes` of work; 0 if the amount is unknown.
    pub fn new(what: impl Into<String>, total_bytes: u64) -> Self {
        Self {
            what: what.into(),
            total_bytes,
            began: Instant::now(),
            last_drawn: None,
            next_bytes: 0,
            is_shown: std::io::stderr().is_terminal(),
        }
    }

    /// Shows no line if the command prints to a terminal, which is probably the same one.
    pub fn unless_stdout_is_a_terminal(mut self) -> Self {
        self.is_shown &= !std::io::stdout().is_terminal();
        self
    }

    /// Changes the amount of work.
    pub fn of(&mut self, total_bytes: u64) {
        self.total_bytes = total_bytes;
    }

    /// Reports that `done_bytes` are done.
    #[inline]
    pub fn at(&mut self, done_bytes: u64) {
        if done_bytes >= self.next_bytes {
            self.next_bytes = done_bytes + STEP_BYTES;
            self.draw(done_bytes);
        }
    }

    fn draw(&mut self, done_bytes: u64) {
        if !self.is_shown {
            return;
        }
        let now = Instant::now();
        let elapsed = now.since(self.began);
        let is_due = self.last_drawn.is_none_or(|last| now.since(last) >= PERIOD);
        if elapsed < PATIENCE || !is_due {
            return;
        }
        self.last_drawn = Some(now);
        let line = line(&self.what, done_bytes, self.total_bytes, elapsed);
        // A failure is ignored, because the command goes on without its terminal.
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
    }

    /// Removes the line.
    pub fn finish(&mut self) {
        if self.last_drawn.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    if total == 0 {
        return format!("{what} {}  {}", bytes(done), rate(done, elapsed));
    }
    let part = (done as f64 / total as f64).min(1.0);
    let filled = (part * 20.0) as usize;
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(20 - filled));
    let rate = done as f64 / seconds;
    let left = (total.saturating_sub(done)) as f64 / rate.max(1.0);
    format!(
        "{what} {bar} {:3.0} %  {} of {}  {}/s  {} left",
        part * 100.0,
        bytes(done),
        bytes(total),
        bytes(rate as u64),
        duration(left)
    )
}

/// Formats a number of bytes for people: `1.5 GB`, in powers of 1000, as disks are sold.
pub fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match value {
        value if unit == 0 => format!("{value:.0} B"),
        value if value < 10.0 => format!("{value:.2} {}", units[unit]),
        value if value < 100.0 => format!("{value:.1} {}", units[unit]),
        value => format!("{value:.0} {}", units[unit]),
    }
}

/// Formats a rate for people: `310 MB/s`.
pub fn rate(count: u64, elapsed: Duration) -> String {
    format!("{}/s", bytes((count as f64 / elapsed.as_secs_f64().max(1e-6)) as u64))
}

fn duration(seconds: f64) -> String {
    match seconds as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (999_600, "1.00 MB"),
            (5_000_000_000, "5.00 GB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn a_line_tells_part_rate_and_rest() {
        let line = line("dump", 250_000_000, 1_000_000_000, Duration::from_secs(1));
        assert_eq!(line, "dump █████░░░░░░░░░░░░░░░  25 %  250 MB of 1.00 GB  250 MB/s  3 s left");
        let line = super::line("write", 250_000_000, 0, Duration::from_secs(1));
        assert_eq!(line, "write 250 MB  250 MB/s");
    }
}

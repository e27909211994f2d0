//! Shows the progress of a long command: one line on a terminal, redrawn a few times a second.
//! Nothing is shown if standard error is not a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use espalier_runtime::time::Instant;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time before the line is shown. A shorter command shows no line.
const PATIENCE: Duration = Duration::from_millis(700);
/// Maximum drawings a second.
const MAX_HZ: u8 = 5;
/// The line is updated only after this many more bytes.
const STEP_BYTES: u64 = 1 << 20;

const KNOWN_TOTAL: &str = "{prefix} {bar:20} {percent:>3} %  {decimal_bytes} of \
    {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left";
const UNKNOWN_TOTAL: &str = "{prefix} {decimal_bytes}  {decimal_bytes_per_sec}";

/// The progress line.
pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    next_bytes: u64,
    /// True if the line is to be shown after [`PATIENCE`].
    is_awaited: bool,
}

impl Progress {
    /// Starts the progress of a command with `total_bytes` of work; 0 if the amount is unknown.
    pub fn new(what: impl Into<String>, total_bytes: u64) -> Self {
        let mut progress = Self {
            bar: ProgressBar::hidden().with_prefix(what.into()),
            began: Instant::now(),
            next_bytes: 0,
            is_awaited: std::io::stderr().is_terminal(),
        };
        progress.of(total_bytes);
        progress
    }

    /// Shows no line if the command prints to a terminal, which is probably the same one.
    pub fn unless_stdout_is_a_terminal(mut self) -> Self {
        self.is_awaited &= !std::io::stdout().is_terminal();
        self
    }

    /// Changes the amount of work.
    pub fn of(&mut self, total_bytes: u64) {
        if self.bar.length() != Some(total_bytes) {
            self.bar.set_style(style(total_bytes));
            self.bar.set_length(total_bytes);
        }
    }

    /// Reports that `done_bytes` are done.
    #[inline]
    pub fn at(&mut self, done_bytes: u64) {
        if done_bytes >= self.next_bytes {
            self.next_bytes = done_bytes + STEP_BYTES;
            self.update(done_bytes);
        }
    }

    fn update(&mut self, done_bytes: u64) {
        if self.is_awaited && self.began.elapsed() >= PATIENCE {
            self.is_awaited = false;
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(MAX_HZ));
        }
        self.bar.set_position(done_bytes);
    }

    /// Removes the line.
    pub fn finish(&mut self) {
        self.is_awaited = false;
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(total_bytes: u64) -> ProgressStyle {
    let template = if total_bytes == 0 { UNKNOWN_TOTAL } else { KNOWN_TOTAL };
    // A test checks that both are well formed.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

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

    /// A terminal that keeps the last line.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_progress_line_shows_part_rate_and_remaining_time() {
        let shown = |total, done| {
            let terminal = Terminal::default();
            let mut progress = Progress::new("dump", total);
            progress.is_awaited = false;
            let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
            progress.bar.set_draw_target(target);
            progress.at(done);
            progress.bar.force_draw();
            let line = terminal.0.lock().unwrap().trim_end().to_owned();
            progress.finish();
            assert_eq!(terminal.0.lock().unwrap().trim_end(), "", "the line is removed");
            line
        };
        let line = shown(1_000_000_000, 250_000_000);
        let part = "dump █████░░░░░░░░░░░░░░░  25 %  250.00 MB of 1.00 GB  ";
        assert!(
            line.starts_with(part) && line.contains("/s  ") && line.ends_with(" left"),
            "{line}"
        );
        let line = shown(0, 250_000_000);
        assert!(line.starts_with("dump 250.00 MB  ") && line.ends_with("/s"), "{line}");
    }

    #[test]
    fn nothing_is_shown_before_the_end_of_patience() {
        let mut progress = Progress::new("dump", 1_000_000_000);
        progress.at(250_000_000);
        assert!(progress.bar.is_hidden());
    }
}

//! Shows the step that is under way and how much of it is done: one line on a terminal, nothing
//! elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use espalier_runtime::time::Instant;

const PERIOD: Duration = Duration::from_millis(200);

/// The line of progress on standard error.
pub struct Progress {
    is_shown: bool,
    drawn: Option<Instant>,
}

/// A step with a known total.
pub struct Step<'a> {
    progress: &'a mut Progress,
    what: String,
    total: u64,
}

impl Progress {
    /// Creates the line; it is shown only if standard error is a terminal.
    pub fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal(), drawn: None }
    }

    /// Begins a step of `total` units.
    pub fn step(&mut self, what: impl Into<String>, total: u64) -> Step<'_> {
        let mut step = Step { progress: self, what: what.into(), total };
        if step.progress.is_shown {
            step.draw(0, Instant::now());
        }
        step
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Step<'_> {
    /// Records that `done` units are done, and redraws the line at most every [`PERIOD`].
    #[inline]
    pub fn at(&mut self, done: u64) {
        if self.progress.is_shown {
            let now = Instant::now();
            if self.progress.drawn.is_none_or(|drawn| now.since(drawn) >= PERIOD) {
                self.draw(done, now);
            }
        }
    }

    #[cold]
    fn draw(&mut self, done: u64, now: Instant) {
        self.progress.drawn = Some(now);
        let part = (done as f64 / self.total.max(1) as f64).min(1.0);
        let filled = (part * 20.0) as usize;
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(20 - filled));
        // A terminal that is gone is no reason to stop.
        let _ = write!(std::io::stderr(), "\r{bar} {:3.0} %  {}\x1b[K", part * 100.0, self.what);
    }
}

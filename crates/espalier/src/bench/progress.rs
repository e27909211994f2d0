//! What is being measured and how far that is: one line on a terminal, nothing elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use espalier_runtime::time::Instant;

const PERIOD: Duration = Duration::from_millis(200);

/// The line.
pub struct Progress {
    is_shown: bool,
    drawn: Option<Instant>,
}

/// A step of which one knows how much it has to do.
pub struct Step<'a> {
    progress: &'a mut Progress,
    what: String,
    total: u64,
}

impl Progress {
    /// To standard error if it is a terminal.
    pub fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal(), drawn: None }
    }

    /// Something begins.
    pub fn step(&mut self, what: impl Into<String>, total: u64) -> Step<'_> {
        let mut step = Step { progress: self, what: what.into(), total };
        if step.progress.is_shown {
            step.draw(0, Instant::now());
        }
        step
    }

    /// Takes the line away.
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
    /// So much is done.
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

//! Shows the step that is under way and how much of it is done: one line on a terminal, nothing
//! elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Maximum drawings a second.
const MAX_HZ: u8 = 5;
const TEMPLATE: &str = "{bar:20} {percent:>3} %  {msg}";

/// The line of progress on standard error.
pub struct Progress {
    bar: ProgressBar,
    is_shown: bool,
}

/// A step with a known total.
pub struct Step<'a> {
    progress: &'a mut Progress,
}

impl Progress {
    /// Creates the line; it is shown only if standard error is a terminal.
    pub fn new() -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(MAX_HZ);
        let is_shown = !target.is_hidden();
        let bar = ProgressBar::with_draw_target(Some(1), target);
        // A test checks that the template is well formed.
        let style = ProgressStyle::with_template(TEMPLATE);
        Self {
            bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())),
            is_shown,
        }
    }

    /// Begins a step of `total` units.
    pub fn step(&mut self, what: impl Into<String>, total: u64) -> Step<'_> {
        if self.is_shown {
            self.bar.set_length(total.max(1));
            self.bar.set_message(what.into());
            self.bar.reset();
        }
        Step { progress: self }
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Step<'_> {
    /// Records that `done` units are done, and redraws the line if it is due.
    #[inline]
    pub fn at(&mut self, done: u64) {
        if self.progress.is_shown {
            self.progress.bar.set_position(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_well_formed() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}

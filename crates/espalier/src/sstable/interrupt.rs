//! Handles Ctrl-C and SIGTERM for commands that write: the command removes incomplete output before
//! it ends. A second signal ends the process at once; the files that are left then have a
//! TemporaryTOC.txt and do not count as an SSTable.

use std::future::Future;

use espalier_runtime::signal::stop_requested;
use espalier_runtime::sync::Event;
use espalier_runtime::task::spawn_local;
use futures_util::future::{Either, select};

use super::ToolError;

/// The exit status with which shells report a death by SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Records whether a signal has arrived.
pub struct Interrupt {
    asked: Event,
}

impl Interrupt {
    /// Catches signals: the first one only sets the event, the second one ends the process.
    ///
    /// # Errors
    /// Fails if signals cannot be caught.
    pub fn watch() -> Result<Self, ToolError> {
        let asked = Event::new();
        let (first, reported) = (stop_requested().map_err(ToolError::Signals)?, asked.clone());
        spawn_local(async move {
            first.await;
            reported.set();
            if let Ok(second) = stop_requested() {
                second.await;
                std::process::exit(INTERRUPTED.into());
            }
        })
        .detach();
        Ok(Self { asked })
    }

    /// Returns an error after a signal. The command calls it where it can remove its output.
    ///
    /// # Errors
    /// Fails after a signal.
    pub fn check(&self) -> Result<(), ToolError> {
        if self.asked.is_set() { Err(ToolError::Interrupted) } else { Ok(()) }
    }

    /// Runs work that may be dropped at any await point, until a signal arrives.
    ///
    /// # Errors
    /// Fails if the work fails, or after a signal.
    pub async fn or<T>(
        &self,
        work: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        let (work, asked) = (std::pin::pin!(work), std::pin::pin!(self.asked.wait()));
        match select(asked, work).await {
            Either::Left(_) => Err(ToolError::Interrupted),
            Either::Right((outcome, _)) => outcome,
        }
    }
}

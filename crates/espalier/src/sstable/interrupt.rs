//! Ctrl-C and SIGTERM for commands that write: they take back what is half written before they end. A second signal ends
//! the process at once; what is left then has TemporaryTOC.txt and makes no SSTable.

use std::future::Future;

use espalier_runtime::signal::stop_requested;
use espalier_runtime::sync::Event;
use espalier_runtime::task::spawn_local;
use futures_util::future::{Either, select};

use super::ToolError;

/// As shells show a death by SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Knows whether somebody wants the command to end.
pub struct Interrupt {
    asked: Event,
}

impl Interrupt {
    /// From now on signals do not end the process by themselves.
    pub fn watch() -> Result<Self, ToolError> {
        let asked = Event::new();
        let (first, told) = (stop_requested().map_err(ToolError::Signals)?, asked.clone());
        spawn_local(async move {
            first.await;
            told.set();
            if let Ok(second) = stop_requested() {
                second.await;
                std::process::exit(INTERRUPTED.into());
            }
        })
        .detach();
        Ok(Self { asked })
    }

    /// An error once somebody asked. To be called where what was written can be taken back.
    pub fn check(&self) -> Result<(), ToolError> {
        match self.asked.is_set() {
            true => Err(ToolError::Interrupted),
            false => Ok(()),
        }
    }

    /// Work that may be dropped wherever it waits.
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

//! The audit log records statements and log-ins, as JSON lines in files or in the log of the node.
//!
//! 1. If the audit log is on, [`AuditedRequest::begin`] copies the texts of a request before the
//!    server executes it.
//! 2. [`AuditedRequest::end`] creates the entries of the outcome, drops the entries that the
//!    options exclude, and adds the others to the queue, or to the log of the node.
//! 3. A task of one shard writes the queue to files every [`INTERVAL`].
//!
//! While the audit log is off, it costs each request one or two loads. Memory: at most
//! `max_queue_weight` bytes wait, and as many are being written. At this limit, requests wait for
//! the writer, or the audit log drops their entries (`block`).

mod entry;
mod options;
mod request;
mod writer;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use espalier_runtime::{spawn_local, time};

pub(crate) use entry::AuditEntry;
use options::AuditLogger;
pub use options::AuditOptions;
pub(crate) use request::{AuditedRequest, log_login};

use crate::shard::ShardServer;
use writer::Writer;

/// Time between two writes of the queue. Arbitrary: a crash of the process loses the entries of
/// this time.
const INTERVAL: Duration = Duration::from_millis(100);

/// The audit log of a node; all shards share it.
#[derive(Debug)]
pub(crate) struct AuditLog {
    is_on: AtomicBool,
    options: Mutex<Arc<AuditOptions>>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// The number of entries that the full queue did not take.
    dropped: u64,
    /// True if a task writes the queue.
    has_writer: bool,
}

impl AuditLog {
    /// Creates the log. [`Self::start`] starts its writer.
    pub fn new(options: AuditOptions) -> Arc<Self> {
        let is_on = AtomicBool::new(options.enabled);
        let (options, queue) = (Mutex::new(Arc::new(options)), Mutex::default());
        Arc::new(Self { is_on, options, queue })
    }

    /// Returns whether requests are logged.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Returns the options in effect.
    pub fn options(&self) -> Arc<AuditOptions> {
        Arc::clone(&self.options.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the options until the node stops. Call it on the shard that writes.
    pub fn change(self: &Arc<Self>, server: &Rc<ShardServer>, options: AuditOptions) {
        self.is_on.store(options.enabled, Ordering::Relaxed);
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
        self.start(server);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an entry if the options include it.
    pub async fn log(&self, options: &AuditOptions, entry: &AuditEntry<'_>) {
        if !options.takes(entry) {
            return;
        }
        match options.logger {
            AuditLogger::Nowhere => {}
            AuditLogger::Log => {
                let line = entry.line();
                let line = String::from_utf8_lossy(line.trim_ascii_end());
                tracing::info!(target: "espalier_server::audit", "audit: {line}");
            }
            AuditLogger::Files => self.enqueue(options, entry.line()).await,
        }
    }

    async fn enqueue(&self, options: &AuditOptions, line: Vec<u8>) {
        loop {
            {
                let mut queue = self.queue();
                let is_full = queue.lines.len() + line.len() > options.max_queue_bytes;
                // An empty queue takes a line of any length.
                if !is_full || queue.lines.is_empty() {
                    queue.lines.extend_from_slice(&line);
                    return;
                }
                if !options.block || !self.is_on() {
                    queue.dropped += 1;
                    return;
                }
            }
            time::sleep(INTERVAL / 10).await;
        }
    }

    /// Starts the task that writes the queue, unless one runs or the log is off. The task ends when
    /// the log is off and the queue is empty.
    pub fn start(self: &Arc<Self>, server: &Rc<ShardServer>) {
        if !self.is_on() || std::mem::replace(&mut self.queue().has_writer, true) {
            return;
        }
        let (log, server) = (Arc::clone(self), Rc::downgrade(server));
        spawn_local(async move {
            let mut writer = Writer::default();
            let mut last_failure = String::new();
            while let Some(server) = server.upgrade() {
                log.write(&server, &mut writer, &mut last_failure).await;
                drop(server);
                if log.may_stop_writing() {
                    return;
                }
                time::sleep(INTERVAL).await;
            }
        })
        .detach();
    }

    /// Returns whether the audit log is off and the queue is empty. If so, the writer no longer
    /// counts as running.
    fn may_stop_writing(&self) -> bool {
        let mut queue = self.queue();
        queue.has_writer = self.is_on() || !queue.lines.is_empty();
        !queue.has_writer
    }

    /// Writes the waiting entries when the node stops.
    pub async fn finish(&self, server: &ShardServer) {
        self.write(server, &mut Writer::default(), &mut String::new()).await;
    }

    async fn write(&self, server: &ShardServer, writer: &mut Writer, last_failure: &mut String) {
        let (lines, dropped) = {
            let mut queue = self.queue();
            // If no log line is due now, a later line counts these entries too.
            let is_due = queue.dropped > 0 && server.log_limit.is_due("dropped audit entries");
            let dropped = if is_due { std::mem::take(&mut queue.dropped) } else { 0 };
            (std::mem::take(&mut queue.lines), dropped)
        };
        if dropped > 0 {
            tracing::warn!(
                entries = dropped,
                "entries of the audit log were dropped: its queue was full, raise max_queue_weight"
            );
        }
        if lines.is_empty() {
            return;
        }
        let bytes = lines.len();
        let files = server.processor.database().store().file_system();
        let options = self.options();
        let begins = match writer.append(files, &options, lines).await {
            Ok(begins) => begins,
            Err(error) => {
                // The disk may stay full for long, so the log has one line for each reason.
                let reason = error.to_string();
                if reason != *last_failure {
                    tracing::error!(
                        %reason,
                        bytes,
                        "writing the audit log failed, these entries are lost"
                    );
                }
                *last_failure = reason;
                // The disk may be full of old files.
                let _ = writer::remove_old(files, &options).await;
                return;
            }
        };
        last_failure.clear();
        if begins && let Err(error) = writer::remove_old(files, &options).await {
            tracing::error!(%error, "old files of the audit log were not removed, remove them");
        }
    }
}

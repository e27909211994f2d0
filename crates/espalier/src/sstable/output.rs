//! Standard output, in large pieces or line by line, and messages on standard error.

use std::io::{ErrorKind, Result, Write};

/// Text is gathered up to this size before it is written.
const PIECE_BYTES: usize = 256 * 1024;

/// Prints a line at once.
///
/// # Errors
/// Fails if standard output cannot be written.
pub fn print_line(line: std::fmt::Arguments<'_>) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")
}

/// Standard output of a command that does more than print: the command continues if the reader of
/// the output is gone.
#[derive(Default)]
pub struct Reports {
    is_unread: bool,
}

impl Reports {
    /// Prints text that ends with a newline.
    ///
    /// # Errors
    /// Fails if standard output cannot be written for another reason than a closed pipe.
    pub fn print(&mut self, text: &str) -> Result<()> {
        if self.is_unread {
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_unread = true;
                Ok(())
            }
            printed => printed,
        }
    }
}

/// Prints a message to standard error. A failure is ignored, because there is no place left to
/// report it.
pub fn report(message: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "espalier: {message}");
}

/// Formats a number of rows, including static ones, in the same way for all commands.
pub fn rows_in_words(rows: u64, statics: u64) -> String {
    match statics {
        0 => format!("{rows} rows"),
        statics => format!("{rows} rows ({statics} static)"),
    }
}

/// Formats a count with its noun: `1 failure`, `2 failures`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A buffer before standard output. The caller must flush it at the end.
pub struct Output {
    buffer: Vec<u8>,
    /// Start of the text that may be dropped.
    held_back: Option<usize>,
    stdout: std::io::StdoutLock<'static>,
}

impl Output {
    pub fn new() -> Self {
        Self {
            buffer: Vec::with_capacity(2 * PIECE_BYTES),
            held_back: None,
            stdout: std::io::stdout().lock(),
        }
    }

    /// Returns the buffer, to which the caller appends text.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Holds the text back from `start` of the buffer on. The caller must not flush before
    /// [`Output::release`] or [`Output::drop_held_back`].
    pub fn hold_back(&mut self, start: usize) {
        self.held_back = Some(start);
    }

    /// Keeps the text that was held back.
    pub fn release(&mut self) {
        self.held_back = None;
    }

    /// Drops the text that is still held back.
    pub fn drop_held_back(&mut self) {
        if let Some(start) = self.held_back.take() {
            self.buffer.truncate(start);
        }
    }

    /// Writes the buffer if it is large.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    pub fn flush_if_large(&mut self) -> Result<()> {
        if self.buffer.len() >= PIECE_BYTES {
            self.stdout.write_all(&self.buffer)?;
            self.buffer.clear();
            // Otherwise one value of a gigabyte would occupy memory until the end.
            self.buffer.shrink_to(2 * PIECE_BYTES);
        }
        Ok(())
    }

    /// Writes the buffer and flushes standard output.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.stdout.write_all(&self.buffer)?;
        self.buffer.clear();
        self.stdout.flush()
    }
}

//! Standard output, in large pieces or line by line, and what is told beside it.

use std::io::{ErrorKind, Result, Write};

/// Bytes that are gathered before they are written.
const PIECE_BYTES: usize = 256 * 1024;

/// Prints a line at once.
pub fn print_line(line: std::fmt::Arguments<'_>) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")
}

/// Standard output of a command that does more than print: when nobody reads on, it goes on all the same.
#[derive(Default)]
pub struct Reports {
    is_unread: bool,
}

impl Reports {
    /// Prints text that ends with its line.
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

/// Tells people something on standard error. If that cannot be written to, there is nobody who could be told.
pub fn tell(message: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "espalier: {message}");
}

/// A number of rows, static ones among them, as all commands count them.
pub fn rows_in_words(rows: u64, statics: u64) -> String {
    match statics {
        0 => format!("{rows} rows"),
        statics => format!("{rows} rows ({statics} static)"),
    }
}

/// `1 failure`, `2 failures`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Text on its way to standard output. What is in the buffer at the end must be flushed.
pub struct Output {
    buffer: Vec<u8>,
    /// Where text begins that may be taken back.
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

    /// Where text is appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// From `start` of the buffer on it is not yet known whether the text is wanted. Nothing may be flushed meanwhile.
    pub fn hold_back(&mut self, start: usize) {
        self.held_back = Some(start);
    }

    /// What was held back is wanted.
    pub fn release(&mut self) {
        self.held_back = None;
    }

    /// What was held back is not wanted, unless it was released.
    pub fn drop_held_back(&mut self) {
        if let Some(start) = self.held_back.take() {
            self.buffer.truncate(start);
        }
    }

    /// Writes what there is, if it is much.
    pub fn flush_if_large(&mut self) -> Result<()> {
        if self.buffer.len() >= PIECE_BYTES {
            self.stdout.write_all(&self.buffer)?;
            self.buffer.clear();
            // One value of a gigabyte must not be paid for until the end.
            self.buffer.shrink_to(2 * PIECE_BYTES);
        }
        Ok(())
    }

    /// Writes all.
    pub fn flush(&mut self) -> Result<()> {
        self.stdout.write_all(&self.buffer)?;
        self.buffer.clear();
        self.stdout.flush()
    }
}

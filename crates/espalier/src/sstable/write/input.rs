//! Reads records from a file or from standard input, in pieces.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use espalier_runtime::file::{File, FileSystem};
use espalier_runtime::task::spawn_blocking;
use espalier_types::literal::Json;

use super::csv;
use super::json;
use crate::sstable::{ToolError, paths::unusable};

const PIECE_BYTES: usize = 1 << 20;
/// If more bytes than this are buffered without the end of the record, the record is refused. It
/// probably lacks a quote or a newline.
const MAX_RECORD_BYTES: usize = 1 << 30;

/// The mark that some editors write at the start of UTF-8 files.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The format of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    JsonLines,
    Csv,
}

impl Format {
    /// Chooses the format by the file's name: `.csv` is CSV, everything else JSON lines.
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
            Self::Csv
        } else {
            Self::JsonLines
        }
    }
}

/// A record: column names and their values.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// An object.
    Json(Vec<(String, Json)>),
    /// Fields of a CSV record, as many as the header has names. `None` is an empty field without
    /// quotes.
    Text { names: Rc<[String]>, fields: Vec<Option<String>> },
}

enum Source {
    File { file: File, length: u64 },
    StandardInput,
}

/// Reads the records of an input.
pub struct Records {
    path: PathBuf,
    source: Source,
    format: Format,
    /// Column names of a CSV file.
    header: Rc<[String]>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were consumed.
    at: usize,
    /// Bytes of the input that are in the buffer or were consumed.
    read: u64,
    is_at_end: bool,
    /// Number of lines that were consumed.
    lines: u64,
    /// The line at which the current record begins.
    line: u64,
}

impl Records {
    /// Opens a file, or standard input if the path is `-`.
    ///
    /// # Errors
    /// Fails if the input cannot be read, or if the header of a CSV file is malformed.
    pub async fn open(
        file_system: &FileSystem,
        path: &Path,
        format: Format,
    ) -> Result<Self, ToolError> {
        let source = if path == Path::new("-") {
            Source::StandardInput
        } else {
            let wrong =
                |error: espalier_runtime::file::FileError| unusable(path, error.source.to_string());
            let file = file_system.open_read(path).await.map_err(wrong)?;
            let length = file.length().await.map_err(wrong)?;
            Source::File { file, length }
        };
        let mut records = Self {
            path: path.to_owned(),
            source,
            format,
            header: Rc::default(),
            buffer: Vec::new(),
            at: 0,
            read: 0,
            is_at_end: false,
            lines: 0,
            line: 1,
        };
        if format == Format::Csv {
            let header = records.next_fields().await?.unwrap_or_default();
            records.header = header.into_iter().map(Option::unwrap_or_default).collect();
        }
        Ok(records)
    }

    /// Returns the column names in a CSV file's header; none for JSON lines.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Returns the length of the input in bytes, 0 if it is unknown.
    pub fn total_bytes(&self) -> u64 {
        match &self.source {
            Source::File { length, .. } => *length,
            Source::StandardInput => 0,
        }
    }

    /// Returns the number of bytes that were consumed.
    pub fn read_bytes(&self) -> u64 {
        self.read - (self.buffer.len() - self.at) as u64
    }

    /// Returns the line, from 1, at which the last record begins.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next record, or `None` at the end. Blank lines are skipped.
    ///
    /// # Errors
    /// Fails if the input cannot be read, if the record is malformed or too long (records up to
    /// 1 GiB are accepted), or if a CSV record has more or fewer fields than the header.
    pub async fn next(&mut self) -> Result<Option<Record>, ToolError> {
        match self.format {
            Format::JsonLines => self.next_object().await,
            Format::Csv => {
                let Some(fields) = self.next_fields().await? else { return Ok(None) };
                let names = self.header.clone();
                if fields.len() != names.len() {
                    let reason =
                        format!("{} fields, and the header has {}", fields.len(), names.len());
                    return Err(self.wrong(reason));
                }
                Ok(Some(Record::Text { names, fields }))
            }
        }
    }

    async fn next_object(&mut self) -> Result<Option<Record>, ToolError> {
        loop {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            let end = rest.iter().position(|&byte| byte == b'\n');
            let length = match end {
                Some(end) => end,
                None if self.is_at_end && rest.is_empty() => return Ok(None),
                None if self.is_at_end => rest.len(),
                None => {
                    self.fill().await?;
                    continue;
                }
            };
            self.line = self.lines + 1;
            let line = rest.get(..length).unwrap_or_default();
            let parsed = json::object(line);
            self.at += length + usize::from(end.is_some());
            self.lines += 1;
            match parsed {
                Ok(None) => continue,
                Ok(Some(members)) => return Ok(Some(Record::Json(members))),
                Err(reason) => return Err(self.wrong(reason)),
            }
        }
    }

    async fn next_fields(&mut self) -> Result<Option<Vec<Option<String>>>, ToolError> {
        loop {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            if rest.is_empty() && self.is_at_end {
                return Ok(None);
            }
            self.line = self.lines + 1;
            match csv::record(rest, self.is_at_end) {
                Ok(None) => self.fill().await?,
                Ok(Some(found)) => {
                    self.at += found.length;
                    self.lines += found.lines;
                    if !found.fields.is_empty() {
                        return Ok(Some(found.fields));
                    }
                }
                Err(reason) => return Err(self.wrong(reason)),
            }
        }
    }

    async fn fill(&mut self) -> Result<(), ToolError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        if self.buffer.len() > MAX_RECORD_BYTES {
            let reason = "a record is longer than 1 GiB; is a quote or a newline missing?";
            return Err(self.wrong(reason.to_owned()));
        }
        // The piece is at least as long as the buffer. After each piece the parser starts again at
        // the start of a long record, so short pieces would take quadratic time.
        let wanted = PIECE_BYTES.max(self.buffer.len());
        let before = self.buffer.len();
        match &mut self.source {
            Source::File { file, .. } => {
                let part = file.read_at(self.read, wanted).await;
                let part = part.map_err(|error| unusable(&self.path, error.source.to_string()))?;
                self.buffer.extend_from_slice(&part);
            }
            Source::StandardInput => {
                // Another thread reads, because this thread has to handle Ctrl-C.
                let read = spawn_blocking(move || {
                    let mut part = Vec::new();
                    let mut input = std::io::stdin().lock().take(wanted as u64);
                    input.read_to_end(&mut part).map(|_| part)
                });
                let part = read.await.map_err(|error| unusable(&self.path, error.to_string()))?;
                self.buffer.extend_from_slice(&part);
            }
        }
        let count = self.buffer.len() - before;
        self.read += count as u64;
        if self.read == count as u64 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len();
        }
        self.is_at_end = count == 0;
        Ok(())
    }

    fn wrong(&self, reason: String) -> ToolError {
        ToolError::Input { path: self.path.clone(), line: self.line, reason }
    }
}

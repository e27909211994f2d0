//! The send buffer of a connection. Responses are encoded straight into it, in the current framing
//! of the connection; many responses make one write.
//!
//! A response with much content keeps it apart, to be framed in pieces: see [`LargeResponse`].
//!
//! Memory: the responses that were written since the last [`SendBuffer::take`]; the caller bounds
//! them. One response is at most [`MAX_BODY`] bytes, the limit of drivers; a larger one is replaced
//! by an error. Once they are sent, the buffer keeps at most [`MAX_RECYCLED`] bytes for the next
//! responses and as many for their compression and segments.

use espalier_cql::SchemaChange;
use uuid::Uuid;

use super::compression::Compression;
use super::error::{DecodeError, DecodeFailure};
use super::header::{self, Flags, StreamId};
use super::large_response::{LargeFraming, LargeResponse};
use super::response::{ErrorDetail, ErrorResponse, Response, Rows};
use super::segment::{self, MAX_PAYLOAD};
use super::version::{self, ProtocolVersion};
use super::writer::WireWrite;

/// Maximum body of a response, in bytes: the default limit of the Java driver.
const MAX_BODY: usize = 256 * 1024 * 1024;

/// Maximum capacity, in bytes, of a buffer that is kept for reuse.
const MAX_RECYCLED: usize = 256 * 1024;

/// The stream of events, which answer no request.
const EVENT_STREAM: StreamId = -1;

/// The parts that a response may carry besides its message.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseExtras<'a> {
    /// The tracing session, if the request asked for one.
    pub tracing_id: Option<Uuid>,
    /// Warnings for the application's log.
    pub warnings: &'a [String],
}

#[derive(Debug)]
enum Framing {
    Envelopes {
        compression: Option<Compression>,
    },
    Segments {
        compressing: bool,
        /// The start of the segment to which more envelopes can be added.
        open_at: Option<usize>,
    },
}

/// Encodes the responses of one connection.
#[derive(Debug)]
pub struct SendBuffer {
    out: Vec<u8>,
    version: ProtocolVersion,
    framing: Framing,
    scratch: Vec<u8>,
    large: Vec<LargeResponse>,
}

impl Default for SendBuffer {
    fn default() -> Self {
        Self {
            out: Vec::new(),
            version: ProtocolVersion::NEWEST,
            framing: Framing::Envelopes { compression: None },
            scratch: Vec::new(),
            large: Vec::new(),
        }
    }
}

impl SendBuffer {
    /// Sets the version of responses before STARTUP settles it: the version of the request.
    pub fn set_version(&mut self, version: ProtocolVersion) {
        self.version = version;
    }

    /// Switches to the version and compression of STARTUP, once the answer to it has been written.
    pub fn start(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.version = version;
        self.framing = match version {
            ProtocolVersion::V3 | ProtocolVersion::V4 => Framing::Envelopes { compression },
            ProtocolVersion::V5 => Framing::Segments {
                compressing: compression == Some(Compression::Lz4),
                open_at: None,
            },
        };
    }

    /// Adds the response to the request of `stream`.
    pub fn write(
        &mut self,
        stream: StreamId,
        extras: &ResponseExtras<'_>,
        response: &Response<'_>,
    ) {
        if let Framing::Segments { compressing, open_at: open_at @ None } = &mut self.framing {
            *open_at = Some(segment::open(&mut self.out, *compressing));
        }
        let envelope_start = self.out.len();
        self.write_envelope(stream, extras, response);
        if self.out.len() - envelope_start > MAX_BODY {
            self.out.truncate(envelope_start);
            let error = too_large();
            self.write_envelope(stream, &ResponseExtras::default(), &Response::Error(&error));
        }
        if let Framing::Segments { compressing, open_at: Some(start) } = self.framing {
            self.bound_segment(start, envelope_start, compressing);
        }
        self.bound_scratch();
    }

    /// Adds a response with rows whose content is large. [`Self::take_large`] returns it.
    pub fn write_large(
        &mut self,
        stream: StreamId,
        extras: &ResponseExtras<'_>,
        rows: Rows<'_>,
        content: Vec<u8>,
    ) {
        let mut head = Vec::new();
        let rows = Response::Rows(Rows { content: &[], ..rows });
        encode_envelope(self.version, stream, extras, &rows, &mut head);
        if head.len() + content.len() > MAX_BODY {
            let error = too_large();
            return self.write(stream, &ResponseExtras::default(), &Response::Error(&error));
        }
        let framing = match self.framing {
            Framing::Envelopes { compression } => LargeFraming::Envelope { compression },
            Framing::Segments { compressing, .. } => LargeFraming::Segments { compressing },
        };
        self.large.push(LargeResponse::new(head, content, framing));
    }

    /// Adds the event of a change of the schema.
    pub fn write_event(&mut self, change: &SchemaChange) {
        self.write(EVENT_STREAM, &ResponseExtras::default(), &Response::Event(change));
    }

    /// Adds the answer to bytes that could not be decoded. If the failure is fatal, the caller
    /// closes the connection after sending.
    pub fn write_failure(&mut self, failure: &DecodeFailure) {
        let response = failure.error.response();
        match failure.error {
            DecodeError::UnsupportedVersion { requested }
                if matches!(self.framing, Framing::Envelopes { .. }) =>
            {
                let (out, stream) = (&mut self.out, failure.stream);
                version::write_unsupported(out, requested, stream, &response.message);
            }
            _ => {
                let extras = ResponseExtras::default();
                self.write(failure.stream, &extras, &Response::Error(&response));
            }
        }
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty() && self.large.is_empty()
    }

    /// Returns the bytes to send, approximately: an open segment still lacks its checksum.
    pub fn len(&self) -> usize {
        self.out.len() + self.large.iter().map(LargeResponse::len).sum::<usize>()
    }

    /// Takes the large responses. They may be sent before or after those of [`Self::take`].
    pub fn take_large(&mut self) -> Vec<LargeResponse> {
        std::mem::take(&mut self.large)
    }

    /// Takes all responses except the large ones, ready to be sent.
    pub fn take(&mut self) -> Vec<u8> {
        if let Framing::Segments { compressing, open_at } = &mut self.framing
            && let Some(start) = open_at.take()
        {
            segment::seal(&mut self.out, start, *compressing, &mut self.scratch);
        }
        self.bound_scratch();
        std::mem::take(&mut self.out)
    }

    /// Returns the memory of [`Self::take`] to the buffer unless it is large, so that the next
    /// responses need no new allocation.
    pub fn recycle(&mut self, mut sent: Vec<u8>) {
        if self.out.is_empty()
            && (self.out.capacity() + 1..=MAX_RECYCLED).contains(&sent.capacity())
        {
            sent.clear();
            self.out = sent;
        }
    }

    /// Frees the scratch buffer if it is large. A connection would keep it as long as it is open.
    fn bound_scratch(&mut self) {
        if self.scratch.capacity() > MAX_RECYCLED {
            self.scratch = Vec::new();
        }
    }

    fn write_envelope(
        &mut self,
        stream: StreamId,
        extras: &ResponseExtras<'_>,
        response: &Response<'_>,
    ) {
        let out = &mut self.out;
        let body_start = encode_envelope(self.version, stream, extras, response, out);
        if let Framing::Envelopes { compression: Some(compression) } = self.framing
            && compression.compress_tail(out, body_start, &mut self.scratch)
        {
            out[body_start - header::HEADER_LENGTH + 1] |= Flags::COMPRESSED;
        }
        let length = out.len() - body_start;
        header::set_body_length(&mut out[body_start - header::HEADER_LENGTH..], length);
    }

    /// Keeps the open segment within its limit after an envelope was added at `envelope_start`.
    fn bound_segment(&mut self, start: usize, envelope_start: usize, compressing: bool) {
        let overflows = |out: &Vec<u8>, start: usize| out.len() - start > MAX_PAYLOAD;
        if !overflows(&self.out, start) {
            return;
        }
        let envelope = self.out.split_off(envelope_start);
        let mut open_at = None;
        if envelope_start - start > 8 {
            segment::seal(&mut self.out, start, compressing, &mut self.scratch);
        } else {
            self.out.truncate(start);
        }
        let start = segment::open(&mut self.out, compressing);
        self.out.extend_from_slice(&envelope);
        if overflows(&self.out, start) {
            segment::seal(&mut self.out, start, compressing, &mut self.scratch);
        } else {
            open_at = Some(start);
        }
        self.framing = Framing::Segments { compressing, open_at };
    }
}

/// Appends the envelope of a response. Returns the start of its body; the header lacks its length.
fn encode_envelope(
    version: ProtocolVersion,
    stream: StreamId,
    extras: &ResponseExtras<'_>,
    response: &Response<'_>,
    out: &mut Vec<u8>,
) -> usize {
    // Version 3 has no warnings: like Cassandra, drop them.
    let warnings: &[String] = if version < ProtocolVersion::V4 { &[] } else { extras.warnings };
    let mut flags = 0;
    if extras.tracing_id.is_some() {
        flags |= Flags::TRACING;
    }
    if !warnings.is_empty() {
        flags |= Flags::WARNING;
    }
    header::begin(out, version, Flags(flags), stream, response.opcode());
    let body_start = out.len();
    if let Some(id) = extras.tracing_id {
        out.extend_from_slice(id.as_bytes());
    }
    if !warnings.is_empty() {
        out.put_string_list(warnings);
    }
    response.encode(version, out);
    body_start
}

/// Returns the error that replaces a response of more than [`MAX_BODY`] bytes.
fn too_large() -> ErrorResponse {
    let message = "The response is larger than 256 MiB: fetch it in pages";
    ErrorResponse::new(ErrorDetail::Server, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::response::{EncodedColumns, Rows, RowsMetadata};

    #[test]
    fn a_buffer_keeps_little_memory_after_a_large_response() {
        use Compression::{Lz4, Snappy};
        use ProtocolVersion::{V4, V5};
        let columns = EncodedColumns::default();
        let content = vec![b'x'; 8 << 20];
        let ways = [(V5, None), (V5, Some(Lz4)), (V4, Some(Lz4)), (V4, Some(Snappy))];
        for (version, compression) in ways {
            for length in [content.len(), 100_000] {
                let mut buffer = SendBuffer::default();
                buffer.start(version, compression);
                let metadata = RowsMetadata::Full(&columns);
                let content = &content[..length];
                let rows = Rows { metadata, paging_state: None, row_count: 0, content };
                buffer.write(1, &ResponseExtras::default(), &Response::Rows(rows));
                let sent = buffer.take();
                buffer.recycle(sent);
                let kept = buffer.scratch.capacity().max(buffer.out.capacity());
                assert!(kept <= MAX_RECYCLED, "{version:?} {compression:?}: {kept} bytes");
            }
        }
    }
}

//! The segment writer closes segments at the end of the send buffer. Envelopes are encoded in place
//! after a reserved header, so that the usual case (plain, less than 128 KiB) moves no byte.

use super::super::checksum::crc32;
use super::super::compression::compress_lz4;
use super::layout::{MAX_PAYLOAD, SegmentHeader, TRAILER_LENGTH, header_length};

/// Reserves the header of a segment and returns the segment's start for [`seal`].
pub fn open(out: &mut Vec<u8>, compressing: bool) -> usize {
    let start = out.len();
    out.resize(start + header_length(compressing), 0);
    start
}

/// Closes the segment that began at `start`: everything after its header is payload. A payload of
/// more than [`MAX_PAYLOAD`] bytes must be one envelope; it becomes several segments.
pub fn seal(out: &mut Vec<u8>, start: usize, compressing: bool, scratch: &mut Vec<u8>) {
    let payload_start = start + header_length(compressing);
    let length = out.len() - payload_start;
    if !compressing && length <= MAX_PAYLOAD {
        return finish(out, start, compressing, 0, true);
    }
    let mut plain = std::mem::take(scratch);
    plain.clear();
    plain.extend_from_slice(&out[payload_start..]);
    out.truncate(start);
    for chunk in plain.chunks(MAX_PAYLOAD) {
        append(out, chunk, compressing, length <= MAX_PAYLOAD);
    }
    *scratch = plain;
}

/// Appends a segment whose plain payload is `payload`, at most [`MAX_PAYLOAD`] bytes.
pub(in super::super) fn append(
    out: &mut Vec<u8>,
    payload: &[u8],
    compressing: bool,
    self_contained: bool,
) {
    let start = open(out, compressing);
    let mut plain_length = 0;
    if compressing {
        let payload_start = out.len();
        match compress_lz4(payload, out) {
            Some(end) if end - payload_start < payload.len() => plain_length = payload.len(),
            _ => {
                out.truncate(payload_start);
                out.extend_from_slice(payload);
            }
        }
    } else {
        out.extend_from_slice(payload);
    }
    finish(out, start, compressing, plain_length, self_contained);
}

/// Fills in the header at `start` and appends the checksum of the payload.
fn finish(
    out: &mut Vec<u8>,
    start: usize,
    compressing: bool,
    plain_length: usize,
    self_contained: bool,
) {
    let payload_start = start + header_length(compressing);
    let payload_length = out.len() - payload_start;
    let header = SegmentHeader { payload_length, plain_length, self_contained };
    header.write(compressing, &mut out[start..payload_start]);
    let crc = crc32(&out[payload_start..]);
    out.reserve(TRAILER_LENGTH);
    out.extend_from_slice(&crc.to_le_bytes());
}

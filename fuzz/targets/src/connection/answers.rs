//! Checks that a node serves no requests before the log-in.

use crate::frames::crc24;

pub(super) const ERROR: u8 = 0x00;
pub(super) const READY: u8 = 0x02;
pub(super) const AUTHENTICATE: u8 = 0x03;
pub(super) const SUPPORTED: u8 = 0x06;
pub(super) const AUTH_SUCCESS: u8 = 0x10;

const HEADER_BYTES: usize = 9;

/// Checks the answers of a node that asks for a log-in, and returns their opcodes. Panics if the
/// node serves a request before the log-in, or if it accepts a log-in without the right password or
/// certificate.
pub(super) fn check(received: &[u8], may_log_in: bool) -> Vec<u8> {
    let opcodes = opcodes_of(received);
    let mut is_logged_in = false;
    for opcode in &opcodes {
        assert!(*opcode != READY || is_logged_in, "the node asks for no log-in");
        let is_harmless = matches!(*opcode, ERROR | AUTHENTICATE | SUPPORTED | AUTH_SUCCESS);
        assert!(is_harmless || is_logged_in, "opcode {opcode} before the log-in");
        assert!(*opcode != AUTH_SUCCESS || may_log_in, "a log-in without the right password");
        is_logged_in |= *opcode == AUTH_SUCCESS;
    }
    opcodes
}

/// Returns the opcodes of all frames up to the first compressed segment.
fn opcodes_of(received: &[u8]) -> Vec<u8> {
    let (mut rest, mut opcodes) = (received, Vec::new());
    while let Some((version, opcode)) = take_frame(&mut rest) {
        opcodes.push(opcode);
        if opcode == AUTHENTICATE && version == 5 {
            // From here on, answers are in segments.
            let plain = plain_of_segments(rest);
            let mut frames = &*plain;
            while let Some((_, opcode)) = take_frame(&mut frames) {
                opcodes.push(opcode);
            }
            break;
        }
    }
    opcodes
}

/// Takes a frame and returns its version and opcode; `None` if there is no whole frame.
fn take_frame(rest: &mut &[u8]) -> Option<(u8, u8)> {
    let head = rest.get(..HEADER_BYTES)?;
    let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
    let (version, opcode) = (head[0] & 0x7F, head[4]);
    *rest = rest.get(HEADER_BYTES + length..)?;
    Some((version, opcode))
}

/// Returns the payloads of plain segments, up to the first segment that is not plain.
fn plain_of_segments(mut rest: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some(head) = rest.get(..6) {
        let crc = crc24(&head[..3]).to_le_bytes();
        if head[3..6] != crc[..3] {
            break;
        }
        let bits = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let end = 6 + (bits & 0x1_FFFF) as usize;
        let Some(payload) = rest.get(6..end) else { break };
        plain.extend_from_slice(payload);
        rest = rest.get(end + 4..).unwrap_or_default();
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(version: u8, opcode: u8) -> Vec<u8> {
        vec![version | 0x80, 0, 0, 1, opcode, 0, 0, 0, 0]
    }

    fn is_refused(frames: &[Vec<u8>], may_log_in: bool) -> bool {
        let bytes = frames.concat();
        std::panic::catch_unwind(|| check(&bytes, may_log_in)).is_err()
    }

    #[test]
    fn a_result_before_the_log_in_is_seen() {
        const RESULT: u8 = 0x08;
        let [ask, result, success] =
            [AUTHENTICATE, RESULT, AUTH_SUCCESS].map(|opcode| frame(4, opcode));
        assert!(is_refused(&[ask.clone(), result.clone()], true));
        assert!(is_refused(&[frame(4, READY)], true));
        assert!(is_refused(&[ask.clone(), success.clone()], false));
        assert!(!is_refused(&[ask, success, result], true));
    }

    #[test]
    fn a_result_in_a_segment_before_the_log_in_is_seen() {
        let inner = frame(5, 0x08);
        let head = (inner.len() as u32 | 1 << 17).to_le_bytes();
        let crc = crc24(&head[..3]).to_le_bytes();
        let segment = [&head[..3], &crc[..3], &inner, &[0; 4]].concat();
        assert!(is_refused(&[frame(5, AUTHENTICATE), segment], true));
    }
}

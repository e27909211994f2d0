//! Numbers, hex digits and strings appended to bytes, without a `String` in between.

const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233343536373839\
4041424344454647484950515253545556575859606162636465666768697071727374757677787980818283848586878889\
90919293949596979899";

/// Two digits for each byte.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    table
};

pub(super) fn push_u64(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = value as usize * 2;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

pub(super) fn push_i64(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(value.unsigned_abs(), out);
}

/// `width` digits at least, zeros in front.
pub(super) fn push_padded(value: u64, width: usize, out: &mut Vec<u8>) {
    let mut limit = 10;
    for _ in 1..width {
        if value < limit {
            out.push(b'0');
        }
        limit *= 10;
    }
    push_u64(value, out);
}

pub(super) fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    for (pair, byte) in out[start..].chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&HEX[usize::from(*byte)]);
    }
}

/// 8-4-4-4-12 digits of 16 bytes.
pub(super) fn push_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    debug_assert_eq!(bytes.len(), 16);
    for (index, range) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
        if index > 0 {
            out.push(b'-');
        }
        push_hex(bytes.get(range).unwrap_or_default(), out);
    }
}

/// A JSON string with its quotes.
pub(super) fn push_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    push_escaped(text.as_bytes(), out);
    out.push(b'"');
}

/// The inside of a JSON string. `utf8` is valid UTF-8.
pub(super) fn push_escaped(utf8: &[u8], out: &mut Vec<u8>) {
    let mut rest = utf8;
    // Runs without an escape are copied at once: nearly all text has none.
    while let Some(run) = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        out.extend_from_slice(&rest[..run]);
        match rest[run] {
            quoted @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', quoted]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                push_hex(&[control], out);
            }
        }
        rest = &rest[run + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_those_of_the_standard_library() {
        let mut numbers = vec![0, i64::MIN, i64::MAX];
        (0..63).for_each(|bit| numbers.extend([(1i64 << bit) - 1, 1 << bit, -(1 << bit)]));
        (0..18).for_each(|power| numbers.extend([10i64.pow(power), 10i64.pow(power) - 1]));
        for number in numbers {
            assert_eq!(made(|out| push_i64(number, out)), number.to_string());
        }
        assert_eq!(made(|out| push_u64(u64::MAX, out)), u64::MAX.to_string());
        assert_eq!(made(|out| push_padded(7, 3, out)), "007");
        assert_eq!(made(|out| push_padded(1234, 3, out)), "1234");
    }

    #[test]
    fn strings_are_those_of_a_json_library() {
        for text in ["", "plain", "a\"b\\c\nd\re\tf\u{1}g\u{1f}h", "ü\u{7f}𝄞", "\"", "x\u{0}"] {
            let quoted = made(|out| push_string(text, out));
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text, "{quoted}");
        }
    }

    #[test]
    fn uuids_have_their_hyphens() {
        let id = uuid::Uuid::from_u128(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(made(|out| push_uuid(id.as_bytes(), out)), id.to_string());
    }
}

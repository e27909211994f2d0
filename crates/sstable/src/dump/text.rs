//! Appends numbers, hex digits and strings to bytes, without a `String` in between.

const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233343536373839\
4041424344454647484950515253545556575859606162636465666768697071727374757677787980818283848586878889\
90919293949596979899";

/// Two digits for each byte value.
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

#[inline]
pub(super) fn push_u64(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let length = value.checked_ilog10().unwrap_or_default() as usize + 1;
    let mut at = length;
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
    debug_assert_eq!(at, 0);
    // Copying a fixed length and truncating it is cheaper than copying a variable length.
    let start = out.len();
    out.extend_from_slice(&digits);
    out.truncate(start + length);
}

/// The last number and its digits, so that a repeated number is not formatted again.
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    value: i64,
    digits: Vec<u8>,
}

impl Remembered {
    #[inline]
    pub(super) fn push(&mut self, value: i64, out: &mut Vec<u8>) {
        if value != self.value || self.digits.is_empty() {
            self.value = value;
            self.digits.clear();
            push_i64(value, &mut self.digits);
        }
        out.extend_from_slice(&self.digits);
    }
}

pub(super) fn push_i64(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(value.unsigned_abs(), out);
}

/// Returns the last two digits of a number.
#[inline]
pub(super) fn pair(value: u64) -> [u8; 2] {
    let at = (value % 100) as usize * 2;
    [PAIRS[at], PAIRS[at + 1]]
}

/// Appends at least `width` digits, with leading zeros.
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
    let (fours, rest) = bytes.as_chunks::<4>();
    let (eights, pairs) = out[start..].as_chunks_mut::<8>();
    for (eight, four) in eights.iter_mut().zip(fours) {
        *eight = hex_of_four(*four);
    }
    for (pair, byte) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(rest) {
        *pair = HEX[usize::from(*byte)];
    }
}

/// Returns eight hex digits at once: each half byte gets a byte of the word.
#[inline]
fn hex_of_four(four: [u8; 4]) -> [u8; 8] {
    let mut word = u64::from(u32::from_be_bytes(four));
    word = (word | word << 16) & 0x0000_FFFF_0000_FFFF;
    word = (word | word << 8) & 0x00FF_00FF_00FF_00FF;
    word = (word | word << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    let letters = (word + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let to_a = u64::from(b'a' - b'0' - 10);
    (word + 0x3030_3030_3030_3030 + letters * to_a).to_be_bytes()
}

/// Appends 16 bytes as 8-4-4-4-12 digits.
pub(super) fn push_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    debug_assert_eq!(bytes.len(), 16);
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, &byte) in bytes.iter().take(16).enumerate() {
        at += usize::from(matches!(index, 4 | 6 | 8 | 10));
        text[at..at + 2].copy_from_slice(&HEX[usize::from(byte)]);
        at += 2;
    }
    out.extend_from_slice(&text);
}

/// If the bytes are ASCII from 0x20 on, without a quote or a backslash, appends them as a JSON
/// string and returns true. Otherwise only returns false.
#[inline]
pub(super) fn push_plain_string(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let is_plain = is_plain(bytes);
    if is_plain {
        out.push(b'"');
        out.extend_from_slice(bytes);
        out.push(b'"');
    }
    is_plain
}

#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let odd = words.iter().fold(0, |odd, word| odd | odd_bytes(u64::from_le_bytes(*word)));
    let odd = match bytes.last_chunk::<8>() {
        // The chunk overlaps the last word, so that some bytes are checked twice.
        Some(last) => odd | odd_bytes(u64::from_le_bytes(*last)),
        None => {
            let mut last = [b' '; 8];
            last[..rest.len()].copy_from_slice(rest);
            odd_bytes(u64::from_le_bytes(last))
        }
    };
    odd == 0
}

/// Returns a number other than 0 if a byte of the word is below 0x20 or above 0x7F, or a quote or a
/// backslash; otherwise 0.
#[inline]
fn odd_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let quotes = has_zero(word ^ (ONES * b'"' as u64));
    let backslashes = has_zero(word ^ (ONES * b'\\' as u64));
    (word | word.wrapping_sub(0x20 * ONES) | quotes | backslashes) & HIGH
}

/// Appends a JSON string with its quotes.
pub(super) fn push_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    push_escaped(text.as_bytes(), out);
    out.push(b'"');
}

/// Appends the inside of a JSON string. `utf8` is valid UTF-8.
pub(super) fn push_escaped(utf8: &[u8], out: &mut Vec<u8>) {
    let mut rest = utf8;
    // Runs without an escape are copied at once: nearly all text needs none.
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
    fn only_plain_bytes_are_plain() {
        for length in 0..40 {
            let mut bytes = vec![b'a'; length];
            assert!(is_plain(&bytes));
            for at in 0..length {
                for byte in 0..=255u8 {
                    bytes[at] = byte;
                    let expected = (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
                    assert_eq!(is_plain(&bytes), expected, "{byte} at {at} of {length}");
                }
                bytes[at] = b'~';
            }
        }
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let bytes: Vec<u8> = (0..=255).chain([9, 250, 17]).collect();
        for start in 0..9 {
            let expected: String = bytes[start..].iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(made(|out| push_hex(&bytes[start..], out)), expected);
        }
    }

    #[test]
    fn uuids_have_their_hyphens() {
        let id = uuid::Uuid::from_u128(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(made(|out| push_uuid(id.as_bytes(), out)), id.to_string());
    }
}

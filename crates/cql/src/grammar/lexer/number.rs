//! Tokens that begin with a digit, and UUIDs and durations that begin with a letter.

use super::{Cursor, Invalid, TokenKind, is_word};

impl Cursor<'_> {
    /// Consumes a number, UUID, blob or duration. The cursor is at its first digit.
    pub(super) fn number(&mut self) -> TokenKind {
        let start = self.at;
        if self.uuid() {
            return TokenKind::Uuid;
        }
        if self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X') {
            self.at += 2;
            self.skip_while(|byte| byte.is_ascii_hexdigit());
            return TokenKind::Blob;
        }
        self.skip_while(|byte| byte.is_ascii_digit());
        if self.duration_units() {
            return TokenKind::Duration;
        }
        let mut kind = TokenKind::Integer;
        // `1..2` is a range of integers. In `1...2`, the range begins with the float `1.`.
        if self.peek(0) == b'.' && (self.peek(1) != b'.' || self.peek(2) == b'.') {
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
            kind = TokenKind::Float;
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                self.skip_while(|byte| byte.is_ascii_digit());
                kind = TokenKind::Float;
            }
        }
        // Up to eight digits could begin a UUID, which has no sign. So Cassandra's lexer accepts
        // `-1and` and refuses `1and`.
        let signed = start > 0 && self.bytes[start - 1] == b'-';
        let begins_uuid = !signed && self.at - start <= 8 && self.peek(0).is_ascii_hexdigit();
        if kind == TokenKind::Integer && begins_uuid {
            self.skip_while(is_word);
            return TokenKind::Invalid(Invalid::Number);
        }
        kind
    }

    /// Consumes 8-4-4-4-12 hexadecimal digits, if they follow. Returns whether they do.
    pub(super) fn uuid(&mut self) -> bool {
        let Some(bytes) = self.bytes.get(self.at..self.at + 36) else { return false };
        let is_uuid = bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        if is_uuid {
            self.at += 36;
        }
        is_uuid
    }

    /// Consumes the unit after a duration's first number, and all further pairs of number and unit.
    /// Consumes nothing and returns false if there is no unit.
    fn duration_units(&mut self) -> bool {
        let length = self.unit();
        self.at += length;
        if length == 0 {
            return false;
        }
        loop {
            let before = self.at;
            self.skip_while(|byte| byte.is_ascii_digit());
            let length = if self.at > before { self.unit() } else { 0 };
            if length == 0 {
                self.at = before;
                return true;
            }
            self.at += length;
        }
    }

    /// Returns the length in bytes of the unit of time at the cursor, or 0.
    fn unit(&self) -> usize {
        match (self.peek(0).to_ascii_lowercase(), self.peek(1).to_ascii_lowercase()) {
            (b'm', b'o' | b's') | (b'u' | b'n', b's') => 2,
            (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => 1,
            // `µs`: its first character is C2 B5.
            (0xC2, 0xB5) if self.peek(2).eq_ignore_ascii_case(&b's') => 3,
            _ => 0,
        }
    }

    /// Consumes `P0001-02-03T04:05:06`, `P1Y2M3DT4H5M6S` or `P7W` (upper case only, as in
    /// Cassandra), if one of them follows. No word character may follow the latter two. The cursor
    /// is at the `P`.
    pub(super) fn iso_duration(&mut self) -> bool {
        let start = self.at;
        if self.takes_pattern(b"Pdddd-dd-ddTdd:dd:dd") {
            return true;
        }
        self.at += 1;
        let weeks = self.designators(b"W") > 0;
        let mut parts = usize::from(weeks);
        if !weeks {
            parts += self.designators(b"YMD");
            if self.peek(0) == b'T' {
                self.at += 1;
                let time = self.designators(b"HMS");
                parts = if time > 0 { parts + time } else { 0 };
            }
        }
        let is_duration = parts > 0 && !is_word(self.peek(0));
        if !is_duration {
            self.at = start;
        }
        is_duration
    }

    /// Consumes numbers, each followed by one of `letters`, in the order of the letters. Returns
    /// the count of the numbers.
    fn designators(&mut self, letters: &[u8]) -> usize {
        let mut count = 0;
        for &letter in letters {
            let before = self.at;
            self.skip_while(|byte| byte.is_ascii_digit());
            if self.at > before && self.peek(0) == letter {
                self.at += 1;
                count += 1;
            } else {
                self.at = before;
            }
        }
        count
    }

    /// Consumes the text at the cursor if it has the form of `pattern`, in which `d` is any digit.
    fn takes_pattern(&mut self, pattern: &[u8]) -> bool {
        let Some(bytes) = self.bytes.get(self.at..self.at + pattern.len()) else { return false };
        let matches = bytes.iter().zip(pattern).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            _ => byte == shape,
        });
        if matches {
            self.at += pattern.len();
        }
        matches
    }
}

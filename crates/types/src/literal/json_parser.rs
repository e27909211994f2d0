//! Parses JSON and keeps numbers as they were written, so that a `decimal` of any length survives.
//!
//! The grammar is that of RFC 8259, except that half of a surrogate pair is refused. The text
//! bounds the memory, and [`MAX_JSON_DEPTH`] bounds the nesting.

use std::fmt;

use thiserror::Error;

/// Limit of the nesting of arrays and objects.
pub const MAX_JSON_DEPTH: usize = 64;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it was written.
    Number(String),
    /// A string, with its escapes decoded.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// The members of an object in their order; keys may repeat.
    Object(Vec<(String, Json)>),
}

/// The error for a text that is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid JSON at offset {at}: {reason}")]
pub struct JsonError {
    /// The offset of the fault, in bytes.
    pub at: usize,
    /// The fault.
    pub reason: String,
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(text) => f.write_str(text),
            Self::String(text) => f.write_str(&super::quote_json(text)),
            Self::Array(_) => f.write_str("an array"),
            Self::Object(_) => f.write_str("an object"),
        }
    }
}

/// Reads one JSON value. Only blanks may follow it.
///
/// # Errors
///
/// Returns an error with the place of the fault if the text is not JSON or is nested too deeply.
pub fn parse_json(text: &str) -> Result<Json, JsonError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let value = parser.value()?;
    parser.skip_blanks();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.error("unexpected text after the value")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, reason: impl Into<String>) -> JsonError {
        JsonError { at: self.at, reason: reason.into() }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn accept(&mut self, wanted: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Json, JsonError> {
        self.skip_blanks();
        match self.peek() {
            Some(b'"') => self.string().map(Json::String),
            Some(b'[') => self.nested(Self::array),
            Some(b'{') => self.nested(Self::object),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [
                    ("null", Json::Null),
                    ("true", Json::Bool(true)),
                    ("false", Json::Bool(false)),
                ];
                let found = words.into_iter().find(|(word, _)| self.rest().starts_with(word));
                let (word, value) = found.ok_or_else(|| self.error("expected a value"))?;
                self.at += word.len();
                Ok(value)
            }
        }
    }

    fn nested(
        &mut self,
        parse: fn(&mut Self) -> Result<Json, JsonError>,
    ) -> Result<Json, JsonError> {
        if self.depth == MAX_JSON_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_JSON_DEPTH}")));
        }
        self.depth += 1;
        self.at += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Json, JsonError> {
        let mut items = Vec::new();
        if self.accept(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.accept(b']') {
                return Ok(Json::Array(items));
            }
            if !self.accept(b',') {
                return Err(self.error("expected ',' or ']'"));
            }
        }
    }

    fn object(&mut self) -> Result<Json, JsonError> {
        let mut members = Vec::new();
        if self.accept(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.error("expected the name of a member in double quotes"));
            }
            let name = self.string()?;
            if !self.accept(b':') {
                return Err(self.error("expected ':'"));
            }
            members.push((name, self.value()?));
            if self.accept(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.accept(b',') {
                return Err(self.error("expected ',' or '}'"));
            }
        }
    }

    /// Reads `-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?`.
    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(Json::Number(self.text.get(start..self.at).unwrap_or_default().to_owned()))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Err(self.error("expected a digit"));
        }
        self.at += count;
        Ok(())
    }

    /// Reads a string. The opening quote is next.
    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ');
            let length = plain.ok_or_else(|| self.error("missing closing quote"))?;
            out.push_str(&rest[..length]);
            self.at += length;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let escaped = self.escape()?;
                    out.push(escaped);
                }
                _ => return Err(self.error("control character in a string")),
            }
        }
    }

    /// Reads the rest of an escape, behind its backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let kind = self.peek().ok_or_else(|| self.error("missing closing quote"))?;
        let plain = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.error("unknown escape")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self) -> Result<char, JsonError> {
        let high = self.code_unit()?;
        let code = match high {
            0xD800..=0xDBFF if self.rest().starts_with("\\u") => {
                self.at += 1;
                match self.code_unit()? {
                    low @ 0xDC00..=0xDFFF => 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00),
                    _ => return Err(self.error("half of a surrogate pair")),
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| self.error("half of a surrogate pair"))
    }

    /// Reads `uXXXX`.
    fn code_unit(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at + 1..self.at + 5);
        let unit = digits
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("expected four hex digits"))?;
        self.at += 5;
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_nested_json_document_is_parsed() {
        let parsed =
            parse_json(" {\"a\": [1, -2.50e+3, \"\\u00e9\\ud83d\\ude00\\n\"], \"b\":null} ");
        let array = Json::Array(vec![
            Json::Number("1".into()),
            Json::Number("-2.50e+3".into()),
            Json::String("é😀\n".into()),
        ]);
        let object = Json::Object(vec![("a".into(), array), ("b".into(), Json::Null)]);
        assert_eq!(parsed, Ok(object));
    }

    #[test]
    fn malformed_json_is_refused() {
        for text in [
            "",
            "[",
            "[1,]",
            "{\"a\"}",
            "{a:1}",
            "01",
            "1.",
            "+1",
            ".5",
            "1e",
            "nul",
            "'a'",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\n\"",
            "1 2",
            "[1}",
            "truex",
        ] {
            assert!(parse_json(text).is_err(), "{text}");
        }
        assert!(parse_json(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn strings_round_trip(text: String) {
            prop_assert_eq!(parse_json(&super::super::quote_json(&text)), Ok(Json::String(text)));
        }

        #[test]
        fn random_text_is_no_panic(text in "[\\[\\]{}:,\"\\\\u0-9a-f.eE+ntr-]{0,40}") {
            let _ = parse_json(&text);
        }
    }
}

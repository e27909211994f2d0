//! Parses comma-separated values. Source: RFC 4180; lines may also end in LF alone.

/// A record and its extent in the text.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The fields; a blank line has none. `None` stands for an empty field without quotes.
    pub fields: Vec<Option<String>>,
    /// Length in bytes, including the end of the line.
    pub length: usize,
    /// Number of lines that the record spans.
    pub lines: u64,
}

/// Parses the record at the start of `text`. Returns `None` if the end of the record is missing and
/// `is_end` is false, because more text follows.
///
/// # Errors
/// Fails if a quote is not closed, if text follows a closing quote or a CR, or if a field is
/// not UTF-8.
pub fn record(text: &[u8], is_end: bool) -> Result<Option<Found>, String> {
    let mut fields = Vec::new();
    let (mut at, mut lines) = (0, 0);
    loop {
        let (field, quoted) = match text.get(at) {
            Some(b'"') => {
                let Some((field, length)) = quoted_field(&text[at..]) else {
                    return if is_end {
                        Err("a quote is never closed".to_owned())
                    } else {
                        Ok(None)
                    };
                };
                at += length;
                lines += field.iter().filter(|&&byte| byte == b'\n').count() as u64;
                (field, true)
            }
            _ => {
                let rest = text.get(at..).unwrap_or_default();
                let length = rest.iter().position(|byte| matches!(byte, b',' | b'\n' | b'\r'));
                let length = match length {
                    Some(length) => length,
                    None if is_end => rest.len(),
                    None => return Ok(None),
                };
                at += length;
                (rest[..length].to_vec(), false)
            }
        };
        let field = String::from_utf8(field).map_err(|_| "it is not UTF-8".to_owned())?;
        fields.push((quoted || !field.is_empty()).then_some(field));
        match (text.get(at), text.get(at + 1)) {
            (Some(b','), _) => {
                at += 1;
                continue;
            }
            (Some(b'\n'), _) => at += 1,
            (Some(b'\r'), Some(b'\n')) => at += 2,
            (Some(b'\r'), None) if is_end => at += 1,
            (None, _) if is_end => {}
            (Some(b'\r') | None, None) => return Ok(None),
            (Some(b'\r'), _) => {
                return Err("a single CR: a record ends with LF or with CR and LF".to_owned());
            }
            _ => return Err("text after a closing quote".to_owned()),
        }
        if fields == [None] {
            fields.clear();
        }
        return Ok(Some(Found { fields, length: at, lines: lines + 1 }));
    }
}

/// Parses a field that begins with a quote. Returns the field and its length in bytes with quotes,
/// or `None` if the closing quote is missing.
fn quoted_field(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut field = Vec::new();
    let mut at = 1;
    loop {
        let length = text.get(at..)?.iter().position(|&byte| byte == b'"')?;
        field.extend_from_slice(&text[at..at + length]);
        at += length + 1;
        match text.get(at) {
            Some(b'"') => {
                field.push(b'"');
                at += 1;
            }
            // This quote may be the first of two, so `record` waits for more text if there is more.
            None => return Some((field, at)),
            Some(_) => return Some((field, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<Option<String>> {
        record(text.as_bytes(), true).unwrap().unwrap().fields
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn fields_with_and_without_quotes() {
        assert_eq!(
            fields("a,,\"\",\"b,\"\"c\"\"\nd\"\r\n"),
            [some("a"), None, some(""), some("b,\"c\"\nd")]
        );
        assert_eq!(fields("a"), [some("a")]);
        assert_eq!(fields("a,"), [some("a"), None]);
        assert_eq!(fields("\n"), []);
    }

    #[test]
    fn lengths_and_lines_are_counted() {
        let found = record(b"a,\"b\nc\"\nnext", false).unwrap().unwrap();
        assert_eq!((found.length, found.lines), (8, 2));
    }

    #[test]
    fn an_unfinished_record_waits_for_more_at_every_byte() {
        let text = b"a,\"b\"\"c\"\r\nnext";
        let whole = record(text, false).unwrap().unwrap();
        for cut in 0..whole.length {
            assert_eq!(record(&text[..cut], false), Ok(None), "{cut}");
        }
        assert!(record(b"a,\"b", true).is_err());
        assert_eq!(record(b"\"a\"b\n", true), Err("text after a closing quote".to_owned()));
        assert!(record(b"a\rb\n", true).is_err_and(|error| error.starts_with("a single CR")));
    }
}

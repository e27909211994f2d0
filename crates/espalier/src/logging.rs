//! Sets up logging. Logs go to stderr, one line each; stdout is reserved for the `ready` line.
//!
//! Values of fields may come from clients and from files. Control characters in them are escaped,
//! so that no value forges a line.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns a word of the filter that is neither a level nor part of a larger directive.
/// [`EnvFilter`] would take the word for the name of a module.
fn unknown_level(filter: &str) -> Option<&str> {
    let is_known = |word: &&str| {
        word.is_empty()
            || word.contains(['=', '[', ':'])
            || word.starts_with("espalier")
            || word.parse::<u8>().is_ok()
            || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
    };
    filter.split(',').map(str::trim).find(|word| !is_known(word))
}

/// Starts to log. The filter is `filter`, else `RUST_LOG`, else everything from `info` up.
///
/// # Errors
/// Fails if the filter cannot be parsed, or has a word that is no level.
pub fn start(filter: Option<&str>) -> Result<(), String> {
    let from_environment = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let (name, filter) = match (filter, &from_environment) {
        (Some(filter), _) => ("--log", filter),
        (None, Some(filter)) => ("RUST_LOG", filter.as_str()),
        (None, None) => ("the default", "info"),
    };
    if let Some(word) = unknown_level(filter) {
        return Err(format!(
            "{name}: there is no level \"{word}\": use off, error, warn, info, debug or trace, or \
             MODULE=LEVEL"
        ));
    }
    let filter =
        EnvFilter::try_new(filter).map_err(|error| format!("{name}: {filter}: {error}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| OneLine(io::stderr()))
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

/// Writes each event as one line: escapes the control characters in the event, except tab and ESC.
/// ESC stays because the formatter writes ESC for colours, and itself escapes an ESC in a value.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Writes an event, which the formatter hands over as a whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (text, end) = match event.split_last() {
            Some((b'\n', text)) => (text, &b"\n"[..]),
            _ => (event, &b""[..]),
        };
        let is_raw = |byte: u8| !byte.is_ascii_control() || matches!(byte, b'\t' | 0x1b);
        let mut line = Vec::with_capacity(event.len());
        for &byte in text {
            if is_raw(byte) {
                line.push(byte);
            } else {
                line.extend(byte.escape_ascii());
            }
        }
        line.extend_from_slice(end);
        self.0.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{OneLine, unknown_level};

    #[test]
    fn an_event_is_one_line() {
        let mut written = OneLine(Vec::new());
        written.write_all("INFO é\u{1b}[0m a=1\r\n2026 ERROR forged\0\n".as_bytes()).unwrap();
        let expected = "INFO é\u{1b}[0m a=1\\r\\n2026 ERROR forged\\x00\n";
        assert_eq!(String::from_utf8(written.0).unwrap(), expected);
    }

    #[test]
    fn a_word_that_is_no_level_is_reported() {
        assert_eq!(unknown_level("dbug"), Some("dbug"));
        assert_eq!(unknown_level("info,espalier_storage=trace,verbose"), Some("verbose"));
        for filter in
            ["debug", "WARN", "", "espalier_cql", "info, espalier_storage=trace", "[span]=info"]
        {
            assert_eq!(unknown_level(filter), None, "{filter}");
        }
    }
}

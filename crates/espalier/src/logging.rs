//! Sets up logging. Logs go to stderr, one line each; stdout is reserved for the `ready` line.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns a word of the filter that is neither a level nor part of a larger directive.
/// [`EnvFilter`] takes it for the name of a module and then logs nothing.
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
/// Fails if the filter cannot be parsed, or names no level.
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
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::unknown_level;

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

//! Sets up logging. Logs go to stderr, one line each; stdout is reserved for the `ready` line.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts to log. The filter is `filter`, else `RUST_LOG`, else everything from `info` up.
///
/// # Errors
/// Fails if the filter cannot be parsed.
pub fn start(filter: Option<&str>) -> Result<(), String> {
    let from_environment = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let (name, filter) = match (filter, &from_environment) {
        (Some(filter), _) => ("--log", filter),
        (None, Some(filter)) => ("RUST_LOG", filter.as_str()),
        (None, None) => ("the default", "info"),
    };
    let filter =
        EnvFilter::try_new(filter).map_err(|error| format!("{name}: {filter}: {error}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

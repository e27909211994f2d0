//! Logs go to stderr, a line each; stdout is for the line that says `ready`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Begins to log what `filter` lets through; without it what `RUST_LOG` says, or else everything from `info` up.
///
/// Errors: the filter cannot be understood.
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

//! Raises the kernel's limits on the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Raises the process's limit on open files and sockets to its hard limit, and returns that limit
/// (`None`: no limit).
///
/// Service managers and shells start programs with a soft limit of 1024 for the sake of `select`,
/// which this program does not use.
///
/// # Errors
/// Fails if the kernel refuses the new limit.
pub fn raise_open_file_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(limit.maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let maximum = raise_open_file_limit().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}

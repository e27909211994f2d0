//! What the kernel lets the process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Allows the process as many open files and sockets as its hard limit says, and gives that number (`None`: no limit).
///
/// Service managers and shells start programs with a soft limit of 1024, for the sake of `select`, which we do not use.
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

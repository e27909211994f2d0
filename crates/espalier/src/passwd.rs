//! `espalier passwd`: prints the hash of a password, so that the password itself need not stand in
//! a statement or in a file of settings.

use std::io::{self, Write};

use espalier_cql::auth::password::hash;

use crate::command_line::PasswdArguments;

/// Reads one line from the standard input and prints its hash.
///
/// # Errors
/// Fails if the line is empty or cannot be read, or if the hash cannot be printed.
pub fn run(arguments: &PasswdArguments) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        let message = "no password: give it as one line of the standard input";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    writeln!(io::stdout(), "{}", hash(password, arguments.cost))
}

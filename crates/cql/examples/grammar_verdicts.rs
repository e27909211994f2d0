//! Prints for each statement on standard input (each ended by a NUL) whether it is CQL, one line
//! each: `accept`, or `reject` and the message. It is the counterpart of `GrammarOracle verdicts`
//! in interop/grammar.

use std::io::{Read, Write};

use espalier_cql::grammar::parse;

fn main() -> std::io::Result<()> {
    let mut input = String::new();
    std::io::stdin().lock().read_to_string(&mut input)?;
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for statement in input.split_terminator('\0') {
        match parse(statement) {
            Ok(_) => writeln!(output, "accept")?,
            Err(error) => writeln!(output, "reject {}", error.to_string().replace('\n', " "))?,
        }
    }
    output.flush()
}

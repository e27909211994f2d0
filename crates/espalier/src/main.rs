//! The espalier binary: `serve`, `sstable`, `bench`.

mod bench;
mod command_line;
mod configuration;
mod logging;
mod serve;
mod sstable;
mod svg;

use std::process::ExitCode;

use command_line::{Command, parse_from};
use espalier_runtime::time::Instant;

/// Many small objects are made and dropped on the same core, which mimalloc does well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let began = Instant::now();
    let command = match parse_from(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    let outcome = match command {
        Command::Serve(arguments) => {
            serve::serve(&arguments, began).map_err(|error| error.to_string())
        }
        Command::Sstable(command) => sstable::run(&command).map_err(|error| error.to_string()),
        Command::Bench(command) => bench::run(&command).map_err(|error| error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("espalier: {message}");
            ExitCode::FAILURE
        }
    }
}

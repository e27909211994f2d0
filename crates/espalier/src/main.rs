//! The espalier binary. Its commands are `serve`, `nodetool`, `sstable`, `passwd` and `bench`.

mod admin_client;
mod command_line;
mod configuration;
mod logging;
mod nodetool;
mod passwd;
mod serve;
mod sstable;

use std::process::ExitCode;

use command_line::{Command, parse_from};
use espalier_runtime::{heap, time::Instant};
use sstable::{INTERRUPTED, ToolError, report};

#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::allocator();

fn main() -> ExitCode {
    let began = Instant::now();
    let command = match parse_from(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    if let Err(error) = heap::fill_ahead() {
        report(format_args!(
            "huge pages are not prepared ahead: cannot start their thread: {error}; reads may be slower"
        ));
    }
    let failure = |error: &dyn std::error::Error| (error.to_string(), ExitCode::FAILURE);
    let outcome = match command {
        Command::Serve(arguments) => {
            serve::serve(&arguments, began).map_err(|error| failure(&error))
        }
        Command::Sstable(command) => sstable::run(&command).map_err(|error| match error {
            ToolError::Interrupted => (error.to_string(), ExitCode::from(INTERRUPTED)),
            error => failure(&error),
        }),
        Command::Nodetool(arguments) => nodetool::run(&arguments).map_err(|error| failure(&error)),
        Command::Passwd(arguments) => passwd::run(&arguments).map_err(|error| failure(&error)),
        Command::Bench(command) => espalier_bench::run(&command).map_err(|error| failure(&error)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, code)) => {
            report(format_args!("{message}"));
            code
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::heap;

    #[test]
    fn objects_are_where_the_runtime_gave_memory() {
        let object = Box::new([7u8; 100]);
        assert!(heap::has(object.as_ptr()));
        let large = vec![1u8; 5 << 20];
        assert!(heap::has(large.as_ptr()));
        assert_eq!(heap::refused_parts(), 0);
    }
}

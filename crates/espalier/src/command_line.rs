//! Defines the command line: commands, flags and their help texts.
//!
//! `serve` is the default command, so its flags exist at both levels.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use espalier_bench::arguments::BenchCommand;
use espalier_commands::units::parse_memory;

use crate::nodetool::{absent, arguments::NodetoolArguments};
use crate::sstable::arguments::SstableCommand;

#[derive(Debug, Parser)]
#[command(
    name = "espalier",
    version,
    about = "A CQL database node whose storage path is tries",
    args_conflicts_with_subcommands = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArguments,
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve CQL (the default command)
    Serve(ServeArguments),
    /// Administer a running node, with the commands of Cassandra's nodetool
    Nodetool(NodetoolArguments),
    /// Inspect, check, convert and write SSTables without a node; import them into a running one
    #[command(subcommand)]
    Sstable(SstableCommand),
    /// Read a password from the standard input and print its hash, for HASHED PASSWORD and
    /// auth_superuser_salted_password
    #[command(visible_alias = "hash-password")]
    Passwd(PasswdArguments),
    /// Measure this build on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
}

/// The flags of `passwd`.
#[derive(Args, Clone, Debug)]
pub struct PasswdArguments {
    /// Rounds of the hash, as a power of two
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(4..=14))]
    pub cost: u32,
}

/// The flags of `serve`.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArguments {
    /// Settings file (YAML), with the names of cassandra.yaml and scylla.yaml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of data, commit log and lock file [default: espalier-data]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Address for CQL clients: rpc_address [default: 127.0.0.1]
    #[arg(long, value_name = "IP", value_parser = parse_host)]
    pub host: Option<IpAddr>,
    /// Port for CQL clients: native_transport_port [default: 9042]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Number of shards [default: one per processor]
    #[arg(long, value_name = "N")]
    pub smp: Option<usize>,
    /// Memory for the whole node, such as 2G [default: a quarter of the machine's, at most 4G]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Override one setting of the file; may be given many times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Log filter, such as debug or espalier_storage=debug [default: RUST_LOG, or info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

fn parse_host(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|error| match text {
        "localhost" => "give an address, not a name: 127.0.0.1".to_owned(),
        _ => format!("{error}: give an address such as 127.0.0.1, not a name"),
    })
}

/// Parses the arguments, the first of which is the program's name.
///
/// # Errors
/// Fails if the arguments are wrong. For `--help` and `--version`, the error holds the text.
pub fn parse_from<I, T>(arguments: I) -> Result<Command, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let is_nodetool = arguments.get(1).is_some_and(|command| command == "nodetool");
    let line = CommandLine::try_parse_from(arguments)
        .map_err(|error| if is_nodetool { absent::explain(error) } else { error })?;
    Ok(line.command.unwrap_or(Command::Serve(line.serve)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn serve_is_the_default() {
        for line in [vec!["espalier", "--port", "1"], vec!["espalier", "serve", "--port", "1"]] {
            let Command::Serve(arguments) = parse_from(line).unwrap() else { panic!() };
            assert_eq!(arguments.port, Some(1));
        }
    }

    #[test]
    fn flags_repeat_only_where_it_makes_sense() {
        let line = ["espalier", "--set", "a=1", "--set", "b=2", "--memory", "2G"];
        let Command::Serve(arguments) = parse_from(line).unwrap() else { panic!() };
        assert_eq!(arguments.set, ["a=1", "b=2"]);
        assert_eq!(arguments.memory, Some(2 << 30));
        assert!(parse_from(["espalier", "--port", "1", "--port", "2"]).is_err());
    }

    #[test]
    fn commands_of_cassandra_without_a_counterpart_are_explained() {
        let error = |line: &[&str]| parse_from(line).unwrap_err().to_string();
        for (command, part) in [
            ("drain", "SIGTERM"),
            ("tpstats", "/metrics"),
            ("getlogginglevels", "--log"),
            ("setlogginglevel", "--log"),
            ("gcstats", "no garbage collector"),
            ("toppartitions", "settraceprobability"),
            ("disablebinary", "SIGTERM"),
            ("verify", "scrub -m validate"),
            ("repair", "one copy"),
        ] {
            let message = error(&["espalier", "nodetool", command]);
            assert!(message.contains("is not in Espalier") && message.contains(part), "{message}");
        }
        let message = error(&["espalier", "nodetool", "flsh"]);
        assert!(message.contains("unrecognized subcommand 'flsh'"), "{message}");
        let message = error(&["espalier", "drain"]);
        assert!(!message.contains("is not in Espalier"), "{message}");
    }

    #[test]
    fn a_probability_is_between_0_and_1() {
        for (number, is_right) in [("0.5", true), ("5", false), ("-1", false), ("NaN", false)] {
            let parsed = parse_from(["espalier", "nodetool", "settraceprobability", number]);
            assert_eq!(parsed.is_ok(), is_right, "{number}");
            if let Err(error) = parsed {
                assert!(error.to_string().contains("must be between 0 and 1"), "{error}");
            }
        }
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for argument in
            ["--memory=lots", "--port=70000", "--host=nowhere", "--prot=1", "server", "sstable"]
        {
            assert!(parse_from(["espalier", argument]).is_err(), "{argument}");
        }
    }
}

//! What `nodetool` can be told: names and order of its arguments as in Cassandra's.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

use super::stop_type::StopType;
use crate::admin_client::{NodeAddress, parse_node};

/// The arguments of `nodetool`.
#[derive(Args, Clone, Debug)]
pub struct NodetoolArguments {
    /// The node's admin API: api_address and, if it is not 10000, api_port
    #[arg(long, global = true, value_name = "HOST[:PORT]", default_value = "127.0.0.1:10000", value_parser = parse_node)]
    pub node: NodeAddress,
    #[command(subcommand)]
    pub command: NodetoolCommand,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum NodetoolCommand {
    /// The ring, of which this node is all
    Status {
        /// A keyspace: all of each is this node's
        #[arg(value_name = "KEYSPACE")]
        keyspace: Option<String>,
    },
    /// The node: its id, load, uptime and caches
    Info {
        /// All tokens, of which there is one
        #[arg(long, short = 'T')]
        tokens: bool,
    },
    /// What is counted of tables
    #[command(name = "tablestats", alias = "cfstats")]
    TableStats(TableStatsArguments),
    /// Write memtables to files
    Flush(Tables),
    /// Make one run of all files, of those of a range of tokens, or of some
    Compact(CompactArguments),
    /// What is being compacted, and what waits
    #[command(name = "compactionstats")]
    CompactionStats,
    /// The compactions of the last week
    #[command(name = "compactionhistory")]
    CompactionHistory,
    /// End the compactions that run, of a type
    Stop {
        /// Which ones
        #[arg(value_name = "TYPE", value_enum, default_value_t = StopType::Compaction, ignore_case = true)]
        compaction_type: StopType,
    },
    /// Let compactions begin by themselves
    #[command(name = "enableautocompaction")]
    EnableAutoCompaction(Tables),
    /// Let none begin by itself any more, until the node ends; those that run go on
    #[command(name = "disableautocompaction")]
    DisableAutoCompaction(Tables),
    /// Whether compactions begin by themselves
    #[command(name = "statusautocompaction")]
    StatusAutoCompaction {
        #[command(flatten)]
        tables: Tables,
        /// A line for each table
        #[arg(long = "all", short = 'a')]
        shows_all: bool,
    },
    /// How much compactions may read
    #[command(name = "getcompactionthroughput")]
    GetCompactionThroughput {
        /// As an exact number
        #[arg(long = "precise-mib", short = 'd')]
        is_exact: bool,
    },
    /// Sets it, until the node ends
    #[command(name = "setcompactionthroughput")]
    SetCompactionThroughput {
        /// 0: as much as they can
        #[arg(value_name = "MIB_PER_S", allow_negative_numbers = true)]
        mebibytes_per_second: u32,
    },
    /// Write files anew that are of another version
    #[command(name = "upgradesstables")]
    UpgradeSstables(UpgradeArguments),
    /// Look through files that may be damaged
    Scrub(ScrubArguments),
    /// Keep the files of tables under a name
    Snapshot(SnapshotArguments),
    /// Which snapshots there are
    #[command(name = "listsnapshots")]
    ListSnapshots,
    /// Remove snapshots
    #[command(name = "clearsnapshot")]
    ClearSnapshot(ClearSnapshotArguments),
    /// Make a table what a snapshot has (not in Cassandra's)
    Restore(RestoreArguments),
    /// Add SSTables of a directory to a table
    Import(ImportArguments),
    /// Forget what is no longer this node's: nothing, for all tokens are
    Cleanup(Tables),
    /// Directories of tables that the schema does not have (not in Cassandra's)
    Orphans(OrphansArguments),
    /// The share of requests that are traced unasked
    #[command(name = "gettraceprobability")]
    GetTraceProbability,
    /// Sets it
    #[command(name = "settraceprobability")]
    SetTraceProbability {
        /// From 0 to 1
        #[arg(value_name = "NUMBER")]
        probability: f64,
    },
    /// The version of the node
    Version,
}

/// Some tables.
#[derive(Args, Clone, Debug)]
pub struct Tables {
    /// A keyspace [default: all]
    #[arg(value_name = "KEYSPACE")]
    pub keyspace: Option<String>,
    /// Tables of it [default: all]
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub struct CompactArguments {
    #[command(flatten)]
    pub tables: Tables,
    /// Files with tokens behind this one
    #[arg(
        long = "start-token",
        visible_alias = "st",
        value_name = "TOKEN",
        allow_hyphen_values = true
    )]
    pub start_token: Option<i64>,
    /// Files with tokens up to this one
    #[arg(
        long = "end-token",
        visible_alias = "et",
        value_name = "TOKEN",
        allow_hyphen_values = true
    )]
    pub end_token: Option<i64>,
    /// The arguments are names or paths of Data.db files
    #[arg(long = "user-defined", conflicts_with_all = ["start_token", "end_token"])]
    pub user_defined: bool,
}

#[derive(Args, Clone, Debug)]
pub struct TableStatsArguments {
    /// Keyspaces, and tables after their keyspace and a dot [default: all]
    #[arg(value_name = "KEYSPACE[.TABLE]")]
    pub tables: Vec<String>,
    /// All but these
    #[arg(short = 'i')]
    pub ignore: bool,
    /// Bytes as KiB, MiB and so on
    #[arg(long = "human-readable", short = 'H')]
    pub human_readable: bool,
}

#[derive(Args, Clone, Debug)]
pub struct UpgradeArguments {
    #[command(flatten)]
    pub tables: Tables,
    /// Those of the present version as well
    #[arg(long = "include-all-sstables", short = 'a')]
    pub include_all: bool,
}

#[derive(Args, Clone, Debug)]
pub struct ScrubArguments {
    #[command(flatten)]
    pub tables: Tables,
    /// What to do with what is damaged
    #[arg(long, short, value_enum, default_value_t = ScrubMode::Abort, ignore_case = true)]
    pub mode: ScrubMode,
    /// Take no snapshot before partitions are left out
    #[arg(long = "no-snapshot")]
    pub no_snapshot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScrubMode {
    /// Change nothing in a file that is
    Abort,
    /// Leave out partitions that cannot be read
    Skip,
    /// Tell, and change nothing
    Validate,
}

impl ScrubMode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Abort => "ABORT",
            Self::Skip => "SKIP",
            Self::Validate => "VALIDATE",
        }
    }
}

#[derive(Args, Clone, Debug)]
pub struct SnapshotArguments {
    /// Its name [default: milliseconds since 1970]
    #[arg(long, short, value_name = "TAG")]
    pub tag: Option<String>,
    /// Tables, of one keyspace [default: all]
    #[arg(long = "table", visible_alias = "column-family", value_name = "TABLE")]
    pub tables: Vec<String>,
    /// Not what is in memory
    #[arg(long = "skip-flush")]
    pub skip_flush: bool,
    /// Keyspaces [default: all]
    #[arg(value_name = "KEYSPACE")]
    pub keyspaces: Vec<String>,
}

#[derive(Args, Clone, Debug)]
#[group(skip)]
#[command(group(ArgGroup::new("which").required(true)))]
pub struct ClearSnapshotArguments {
    /// Its name
    #[arg(long, short, value_name = "TAG", group = "which", value_parser = NonEmptyStringValueParser::new())]
    pub tag: Option<String>,
    /// Of any name
    #[arg(long, group = "which")]
    pub all: bool,
    /// Keyspaces [default: all]
    #[arg(value_name = "KEYSPACE", value_parser = NonEmptyStringValueParser::new())]
    pub keyspaces: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub struct RestoreArguments {
    pub keyspace: String,
    /// If it was dropped, it is made again
    pub table: String,
    /// The name of the snapshot
    #[arg(long, short, value_name = "TAG")]
    pub tag: String,
}

#[derive(Args, Clone, Debug)]
pub struct ImportArguments {
    pub keyspace: String,
    pub table: String,
    /// It stays as it is. The node must be able to read it
    pub directory: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub struct OrphansArguments {
    /// Remove one, but not the snapshots in it
    #[arg(long, value_name = "DIRECTORY")]
    pub remove: Vec<String>,
}

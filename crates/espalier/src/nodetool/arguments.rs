//! The arguments of `nodetool`. Names and order are those of Cassandra's nodetool.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

use super::audit_log::AuditArguments;
use super::stop_type::StopType;
use crate::admin_client::AdminArguments;

/// The arguments of `nodetool`.
#[derive(Args, Clone, Debug)]
pub struct NodetoolArguments {
    #[command(flatten)]
    pub admin: AdminArguments,
    #[command(subcommand)]
    pub command: NodetoolCommand,
}

/// The command to run.
#[derive(Clone, Debug, Subcommand)]
pub enum NodetoolCommand {
    /// Show the ring, which consists of this node
    Status {
        /// Keyspace for the column of ownership; the node owns all of each keyspace
        #[arg(value_name = "KEYSPACE")]
        keyspace: Option<String>,
    },
    /// Show the node's id, load, uptime and caches
    Info {
        /// Show all tokens; the node has one
        #[arg(long, short = 'T')]
        tokens: bool,
    },
    /// Show statistics of tables
    #[command(name = "tablestats", alias = "cfstats")]
    TableStats(TableStatsArguments),
    /// Write memtables to SSTables
    Flush(Tables),
    /// Run a major compaction of all SSTables, of those of a token range, or of given ones
    Compact(CompactArguments),
    /// Show running and pending compactions
    #[command(name = "compactionstats")]
    CompactionStats,
    /// Show the compactions of the last week
    #[command(name = "compactionhistory")]
    CompactionHistory,
    /// Show whether a materialized view is built
    #[command(name = "viewbuildstatus")]
    ViewBuildStatus {
        /// Keyspace of the view
        #[arg(value_name = "KEYSPACE")]
        keyspace: String,
        /// The view
        #[arg(value_name = "VIEW")]
        view: String,
    },
    /// Stop the running compactions of one type
    Stop {
        /// Type of the compactions to stop
        #[arg(
            value_name = "TYPE",
            value_enum,
            default_value_t = StopType::Compaction,
            ignore_case = true
        )]
        compaction_type: StopType,
    },
    /// Enable automatic compaction
    #[command(name = "enableautocompaction")]
    EnableAutoCompaction(Tables),
    /// Disable automatic compaction until the node restarts; running compactions continue
    #[command(name = "disableautocompaction")]
    DisableAutoCompaction(Tables),
    /// Show whether automatic compaction is enabled
    #[command(name = "statusautocompaction")]
    StatusAutoCompaction {
        #[command(flatten)]
        tables: Tables,
        /// Print a line for each table
        #[arg(long = "all", short = 'a')]
        shows_all: bool,
    },
    /// Show the limit on the bytes that compactions read per second
    #[command(name = "getcompactionthroughput")]
    GetCompactionThroughput {
        /// Print the exact number, in MiB/s
        #[arg(long = "precise-mib", short = 'd')]
        is_exact: bool,
    },
    /// Set the limit on the bytes that compactions read per second, until the node restarts
    #[command(name = "setcompactionthroughput")]
    SetCompactionThroughput {
        /// MiB per second; 0 means no limit
        #[arg(value_name = "MIB_PER_S", allow_negative_numbers = true)]
        mebibytes_per_second: u32,
    },
    /// Show the settings of guardrails
    #[command(name = "getguardrailsconfig")]
    GetGuardrailsConfig {
        /// One setting [default: all]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Change a setting of a guardrail, until the node restarts
    #[command(name = "setguardrailsconfig")]
    SetGuardrailsConfig {
        /// The setting, or the two thresholds of a limit, such as keyspaces_threshold
        #[arg(value_name = "NAME")]
        name: String,
        /// Its value, or the threshold for refusals and that for warnings
        #[arg(value_name = "VALUE", required = true, num_args = 1..=2, allow_hyphen_values = true)]
        values: Vec<String>,
    },
    /// Switch the audit log on, until the node restarts
    #[command(name = "enableauditlog")]
    EnableAuditLog(AuditArguments),
    /// Switch the audit log off, until the node restarts
    #[command(name = "disableauditlog")]
    DisableAuditLog,
    /// Show the options of the audit log
    #[command(name = "getauditlog")]
    GetAuditLog,
    /// Read all certificates from their files again
    #[command(name = "reloadssl")]
    ReloadSsl,
    /// Rewrite the SSTables that have another version than new ones
    #[command(name = "upgradesstables")]
    UpgradeSstables(UpgradeArguments),
    /// Rewrite SSTables and check them for damage
    Scrub(ScrubArguments),
    /// Keep the current SSTables of tables under a name
    Snapshot(SnapshotArguments),
    /// List the snapshots
    #[command(name = "listsnapshots")]
    ListSnapshots,
    /// Remove snapshots
    #[command(name = "clearsnapshot")]
    ClearSnapshot(ClearSnapshotArguments),
    /// Replace the data of a table by a snapshot (not in Cassandra's nodetool)
    Restore(RestoreArguments),
    /// Add the SSTables of a directory to a table
    Import(ImportArguments),
    /// Do nothing: the node owns all tokens, so no data is foreign
    Cleanup(Tables),
    /// List directories of tables that the schema does not have (not in Cassandra's nodetool)
    Orphans(OrphansArguments),
    /// Show the probability with which a request is traced
    #[command(name = "gettraceprobability")]
    GetTraceProbability,
    /// Set the probability with which a request is traced, until the node restarts
    #[command(name = "settraceprobability")]
    SetTraceProbability {
        /// Probability from 0 to 1
        #[arg(value_name = "NUMBER", value_parser = parse_probability, allow_negative_numbers = true)]
        probability: f64,
    },
    /// Show the version of the node
    Version,
}

fn parse_probability(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "Trace probability must be between 0 and 1".into())
}

/// Selects tables.
#[derive(Args, Clone, Debug)]
pub struct Tables {
    /// Keyspace [default: all]
    #[arg(value_name = "KEYSPACE")]
    pub keyspace: Option<String>,
    /// Tables of the keyspace [default: all]
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub struct CompactArguments {
    #[command(flatten)]
    pub tables: Tables,
    /// Compact only SSTables with tokens greater than this one
    #[arg(
        long = "start-token",
        visible_alias = "st",
        value_name = "TOKEN",
        allow_hyphen_values = true
    )]
    pub start_token: Option<i64>,
    /// Compact only SSTables with tokens up to this one
    #[arg(
        long = "end-token",
        visible_alias = "et",
        value_name = "TOKEN",
        allow_hyphen_values = true
    )]
    pub end_token: Option<i64>,
    /// Take the arguments as names or paths of Data.db files
    #[arg(long = "user-defined", conflicts_with_all = ["start_token", "end_token"])]
    pub user_defined: bool,
}

#[derive(Args, Clone, Debug)]
pub struct TableStatsArguments {
    /// Keyspaces, or tables as KEYSPACE.TABLE [default: all]
    #[arg(value_name = "KEYSPACE[.TABLE]")]
    pub tables: Vec<String>,
    /// Show all tables except the given ones
    #[arg(short = 'i')]
    pub ignore: bool,
    /// Show bytes as KiB, MiB and so on
    #[arg(long = "human-readable", short = 'H')]
    pub human_readable: bool,
}

#[derive(Args, Clone, Debug)]
pub struct UpgradeArguments {
    #[command(flatten)]
    pub tables: Tables,
    /// Rewrite the SSTables of the current version too
    #[arg(long = "include-all-sstables", short = 'a')]
    pub include_all: bool,
}

#[derive(Args, Clone, Debug)]
pub struct ScrubArguments {
    #[command(flatten)]
    pub tables: Tables,
    /// Reaction to damage
    #[arg(long, short, value_enum, default_value_t = ScrubMode::Abort, ignore_case = true)]
    pub mode: ScrubMode,
    /// Take no snapshot before partitions are dropped
    #[arg(long = "no-snapshot")]
    pub no_snapshot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScrubMode {
    /// Stop at the first damaged file and leave it unchanged
    Abort,
    /// Drop partitions that cannot be read
    Skip,
    /// Report damage and change nothing
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
    /// Name of the snapshot [default: milliseconds since 1970]
    #[arg(long, short, value_name = "TAG")]
    pub tag: Option<String>,
    /// Tables of one keyspace [default: all]
    #[arg(long = "table", visible_alias = "column-family", value_name = "TABLE")]
    pub tables: Vec<String>,
    /// Leave out rows that are only in memtables
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
    /// Name of the snapshots to remove
    #[arg(
        long,
        short,
        value_name = "TAG",
        group = "which",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub tag: Option<String>,
    /// Remove snapshots of all names
    #[arg(long, group = "which")]
    pub all: bool,
    /// Keyspaces [default: all]
    #[arg(value_name = "KEYSPACE", value_parser = NonEmptyStringValueParser::new())]
    pub keyspaces: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub struct RestoreArguments {
    /// Keyspace of the table
    pub keyspace: String,
    /// Table to replace; a dropped table is created again
    pub table: String,
    /// Name of the snapshot
    #[arg(long, short, value_name = "TAG")]
    pub tag: String,
}

#[derive(Args, Clone, Debug)]
pub struct ImportArguments {
    /// Keyspace of the table
    pub keyspace: String,
    /// Table that receives the SSTables
    pub table: String,
    /// Directory of the SSTables, which the node must be able to read; it stays unchanged
    pub directory: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub struct OrphansArguments {
    /// Remove this directory, except the snapshots in it
    #[arg(long, value_name = "DIRECTORY")]
    pub remove: Vec<String>,
}

//! The arguments of the commands of `sstable`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::admin_client::AdminArguments;

/// The commands of `sstable`. A path is a file of an SSTable, or a directory, which stands for all
/// SSTables in it and below it.
#[derive(Clone, Debug, Subcommand)]
pub enum SstableCommand {
    /// Check SSTables: checksums, order, indexes, filter, statistics
    Verify(VerifyArguments),
    /// Print the content as JSON, one line for each row
    Dump(DumpArguments),
    /// Print statistics, sizes, filter and columns, without reading the data
    Stats(StatsArguments),
    /// Print the structure of the trie index: nodes, types, fill, padding, pages per look-up
    Index(IndexArguments),
    /// Write the same content in another version of the format
    Convert(ConvertArguments),
    /// Write SSTables from a CQL schema and JSON lines or CSV
    Write(WriteArguments),
    /// Add SSTables to a table of a running node
    Import(ImportArguments),
}

/// The arguments of `import`.
#[derive(Args, Clone, Debug)]
pub struct ImportArguments {
    /// Directory of the SSTables, which the node must be able to read; they stay there
    #[arg(value_name = "DIR", value_parser = super::import::parse_directory)]
    pub directory: PathBuf,
    /// Table that receives the SSTables [default: from the directory's name, KEYSPACE/TABLE-ID, or
    /// snapshots/TAG below that]
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    pub into: Option<String>,
    #[command(flatten)]
    pub admin: AdminArguments,
}

/// Paths of files and directories.
#[derive(Args, Clone, Debug)]
pub struct Paths {
    /// Files of SSTables, or directories
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// The source of the names of key columns, which the files do not store.
#[derive(Args, Clone, Debug, Default)]
pub struct SchemaArguments {
    /// File of CREATE TABLE and CREATE TYPE statements [default: schema.cql beside the files, as in
    /// snapshots]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Keyspace of the schema's names without one [default: that of the directory, or ks]
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Table of the schema [default: that of the directory, or the only one]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

/// The arguments of `verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// Check only checksums, and not order, look-ups and statistics
    #[arg(long)]
    pub quick: bool,
}

/// The arguments of `dump`.
#[derive(Args, Clone, Debug)]
pub struct DumpArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// Print one partition, found by the index: a value; a:b or a JSON array for several columns;
    /// 0x and the bytes of any key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub key: Vec<String>,
    /// Print some rows of each partition, found by the index: a condition such as 'at >= 5 AND at <
    /// 9', or FROM..TO, both included
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true)]
    pub slice: Option<String>,
    /// Print at most this many rows
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print everything that is stored, with values in hex
    #[arg(long)]
    pub raw: bool,
    /// Print values longer than 4 KiB in full
    #[arg(long)]
    pub full_values: bool,
    #[command(flatten)]
    pub schema: SchemaArguments,
}

/// The arguments of `stats`.
#[derive(Args, Clone, Debug)]
pub struct StatsArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// Print one line of JSON for each SSTable
    #[arg(long)]
    pub json: bool,
    /// Seconds after which a tombstone can be dropped [default: 864000, the default of
    /// gc_grace_seconds]
    #[arg(long, value_name = "SECONDS")]
    pub gc_grace: Option<u32>,
    #[command(flatten)]
    pub schema: SchemaArguments,
}

/// The arguments of `index`.
#[derive(Args, Clone, Debug)]
pub struct IndexArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// Also draw each page into this file; only for one SSTable
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The arguments of `convert`.
#[derive(Args, Clone, Debug)]
pub struct ConvertArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// Version to write, such as da
    #[arg(long, value_name = "VERSION")]
    pub to: String,
    /// Directory to write to; existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub compression: CompressionArguments,
}

/// The compression of Data.db.
#[derive(Args, Clone, Debug, Default)]
pub struct CompressionArguments {
    /// Compressor: lz4, zstd, snappy, deflate, or none
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
    /// Size of a chunk before compression, in KiB; a power of two
    #[arg(long, value_name = "KIB")]
    pub chunk_length_in_kb: Option<u32>,
}

/// The arguments of `write`.
#[derive(Args, Clone, Debug)]
pub struct WriteArguments {
    /// File of CREATE TABLE and CREATE TYPE statements
    #[arg(long, value_name = "FILE")]
    pub schema: PathBuf,
    /// Keyspace of the schema's names without one
    #[arg(long, value_name = "NAME", default_value = "ks")]
    pub keyspace: String,
    /// Table of the schema [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// Rows to write: .jsonl with one object per line, or .csv with a header; - for JSON lines from
    /// standard input
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// Directory to write to; existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// Version to write [default: the schema's sstable_format, or da]
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// Timestamp of rows without "$ts", in microseconds [default: now]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true)]
    pub timestamp: Option<i64>,
    /// Memory for sorting, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = parse_sort_memory)]
    pub sort_memory: usize,
    #[command(flatten)]
    pub compression: CompressionArguments,
}

/// Parses the memory for sorting in MiB: 1 MiB to 1 TiB.
fn parse_sort_memory(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|mib| (1..=1 << 20).contains(mib))
        .ok_or_else(|| format!("'{text}' is not a number from 1 to {}", 1 << 20))
}

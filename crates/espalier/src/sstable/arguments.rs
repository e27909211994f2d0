//! What the commands of `sstable` can be told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::admin_client::{NodeAddress, parse_node};

/// The commands of `sstable`. A path is a file of an SSTable, or a directory with all that are in it and below.
#[derive(Clone, Debug, Subcommand)]
pub enum SstableCommand {
    /// Check everything: checksums, order, indexes, filter, statistics
    Verify(VerifyArguments),
    /// Print the content as lines of JSON, one row a line
    Dump(DumpArguments),
    /// Print what is known without reading the data: statistics, sizes, filter, columns
    Stats(StatsArguments),
    /// Draw the pages of the trie index: nodes, types, fill, padding, pages per look-up
    Index(IndexArguments),
    /// Write the same content in another version
    Convert(ConvertArguments),
    /// Write SSTables from a CQL schema and JSON lines or CSV
    Write(WriteArguments),
    /// Have a running node take SSTables into a table
    Import(ImportArguments),
}

/// The arguments of `import`.
#[derive(Args, Clone, Debug)]
pub struct ImportArguments {
    /// The directory that has the SSTables; they stay there. The node must be able to read it
    #[arg(value_name = "DIR", value_parser = super::import::parse_directory)]
    pub directory: PathBuf,
    /// The table [default: as the directory is named: KEYSPACE/TABLE-ID, or snapshots/TAG below that]
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    pub into: Option<String>,
    /// The node's admin API: api_address and, if it is not 10000, api_port
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1:10000", value_parser = parse_node)]
    pub node: NodeAddress,
}

/// Files and directories.
#[derive(Args, Clone, Debug)]
pub struct Paths {
    /// Files of SSTables, or directories
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// Where names of key columns come from, which files do not have.
#[derive(Args, Clone, Debug, Default)]
pub struct SchemaArguments {
    /// CREATE TABLE and CREATE TYPE statements [default: schema.cql beside the files, as in snapshots]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// The keyspace of names that have none in the schema [default: that of the directory, or ks]
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// The table of the schema [default: that of the directory, or the only one]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

/// `verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// Checksums only: no order, no look-ups, no statistics
    #[arg(long)]
    pub quick: bool,
}

/// `dump`.
#[derive(Args, Clone, Debug)]
pub struct DumpArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// One partition, found by the index: a value; a:b or a JSON array for several columns; 0x and the bytes of any key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub key: Vec<String>,
    /// Rows of each partition, found by the index: a condition such as 'at >= 5 AND at < 9', or FROM..TO, both included
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true)]
    pub slice: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Bytes in hex, all that is stored
    #[arg(long)]
    pub raw: bool,
    /// Also values longer than 4 KiB
    #[arg(long)]
    pub full_values: bool,
    #[command(flatten)]
    pub schema: SchemaArguments,
}

/// `stats`.
#[derive(Args, Clone, Debug)]
pub struct StatsArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// One line of JSON for each SSTable
    #[arg(long)]
    pub json: bool,
    /// Seconds after which a tombstone can be dropped [default: 864000, as tables have it unless told otherwise]
    #[arg(long, value_name = "SECONDS")]
    pub gc_grace: Option<u32>,
    #[command(flatten)]
    pub schema: SchemaArguments,
}

/// `index`.
#[derive(Args, Clone, Debug)]
pub struct IndexArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// Also draw each page into this file; of one SSTable
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// `convert`.
#[derive(Args, Clone, Debug)]
pub struct ConvertArguments {
    #[command(flatten)]
    pub paths: Paths,
    /// The version to write, such as da
    #[arg(long, value_name = "VERSION")]
    pub to: String,
    /// Where to write; nothing there is overwritten
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub compression: CompressionArguments,
}

/// How to compress Data.db.
#[derive(Args, Clone, Debug, Default)]
pub struct CompressionArguments {
    /// lz4, zstd, snappy, deflate, or none
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
    /// Bytes of a chunk before compression, in KiB: a power of two
    #[arg(long, value_name = "KIB")]
    pub chunk_length_in_kb: Option<u32>,
}

/// `write`.
#[derive(Args, Clone, Debug)]
pub struct WriteArguments {
    /// CREATE TABLE and CREATE TYPE statements
    #[arg(long, value_name = "FILE")]
    pub schema: PathBuf,
    /// The keyspace of names that have none in the schema
    #[arg(long, value_name = "NAME", default_value = "ks")]
    pub keyspace: String,
    /// The table of the schema [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// Rows: .jsonl with one object a line, or .csv with a header; - for JSON lines from standard input
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// Where to write; nothing there is overwritten
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// The version to write [default: the schema's sstable_format, or da]
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// Write timestamp of rows that have no "$ts", in µs [default: now]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true)]
    pub timestamp: Option<i64>,
    /// Memory for sorting, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = parse_sort_memory)]
    pub sort_memory: usize,
    #[command(flatten)]
    pub compression: CompressionArguments,
}

/// From 1 MiB to 1 TiB.
fn parse_sort_memory(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|mib| (1..=1 << 20).contains(mib))
        .ok_or_else(|| format!("'{text}' is not a number from 1 to {}", 1 << 20))
}

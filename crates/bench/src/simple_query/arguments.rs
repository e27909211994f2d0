//! The arguments of `espalier bench simple-query`: those of ScyllaDB's perf-simple-query that have
//! a meaning here, with its names.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::BoolishValueParser, value_parser};
use espalier_commands::units::parse_memory;

use crate::arguments::NodeArguments;

/// The statements, the data and the node of a measurement.
#[derive(Args, Clone, Debug)]
pub struct SimpleQueryArguments {
    /// Number of partitions, of one row each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = value_parser!(u64).range(1..=u64::from(u32::MAX))
    )]
    pub partitions: u64,
    /// Number of iterations of one second
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = value_parser!(u32).range(1..)
    )]
    pub duration: u32,
    /// Operations of each iteration and shard, instead of as many as a second allows
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub operations_per_shard: Option<u64>,
    /// Number of tasks of each shard, each with an operation under way
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = value_parser!(u32).range(1..=100_000)
    )]
    pub concurrency: u32,
    /// Number of operations that a task announces to the node before it runs them one by one, like
    /// requests that arrived together on a connection
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = value_parser!(u32).range(1..=1024)
    )]
    pub pipelined: u32,
    /// Shards, each on a core
    #[arg(
        short = 'c',
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = value_parser!(u16).range(1..=1024)
    )]
    pub smp: u16,
    /// Memory budget of all shards, such as 200M [default: as for `serve`]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Memory for pages of files [default: three eighths of --memory]; with 0 every page is read
    /// from the disk
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub file_cache_size: Option<u64>,
    /// Measure INSERT instead of SELECT
    #[arg(long)]
    pub write: bool,
    /// Measure UPDATE of one column of rows that exist, instead of SELECT
    #[arg(long, conflicts_with = "write")]
    pub update: bool,
    /// Give the UPDATE a condition on the column (IF), which holds
    #[arg(long, requires = "update")]
    pub conditional: bool,
    /// Flush memtables before SELECT is measured
    #[arg(
        long,
        value_name = "0|1",
        default_value = "1",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = BoolishValueParser::new()
    )]
    pub flush: bool,
    /// Cache rows
    #[arg(
        long,
        value_name = "0|1",
        default_value = "0",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = BoolishValueParser::new()
    )]
    pub enable_cache: bool,
    /// Cache pages of indexes
    #[arg(
        long,
        value_name = "0|1",
        default_value = "1",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = BoolishValueParser::new()
    )]
    pub enable_index_cache: bool,
    /// Add BYPASS CACHE to the SELECT
    #[arg(long)]
    pub bypass_cache: bool,
    /// Version of the SSTables: da, oa, nb, me or mt
    #[arg(long, value_name = "VERSION", default_value = "da")]
    pub sstable_format: String,
    /// Bytes of Summary.db for each byte of Data.db, in versions that have one [default: by
    /// min_index_interval]
    #[arg(long, value_name = "RATIO")]
    pub sstable_summary_ratio: Option<f64>,
    /// Compressor of Data.db
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub compression: Compression,
    /// Columns beside the key
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = value_parser!(u16).range(1..=100)
    )]
    pub columns: u16,
    /// Bytes of a column's value
    #[arg(
        long,
        value_name = "N",
        default_value_t = 34,
        value_parser = value_parser!(u32).range(8..=1 << 20)
    )]
    pub value_bytes: u32,
    /// Read keys that do not exist
    #[arg(long, conflicts_with_all = ["write", "update"])]
    pub absent: bool,
    /// Seed of the order of the operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub random_seed: u64,
    /// Processors to pin to, in turn [default: the last ones that are allowed]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub cpuset: Vec<usize>,
    /// Write the figures of all iterations to a JSON file
    #[arg(long, value_name = "FILE")]
    pub json_result: Option<PathBuf>,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// Compressors, by the names of the table option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// No compression
    None,
    /// LZ4Compressor
    Lz4,
    /// SnappyCompressor
    Snappy,
    /// ZstdCompressor
    Zstd,
}

impl Compression {
    /// Returns the value of the table option in CREATE TABLE.
    pub fn option(self) -> &'static str {
        match self {
            Compression::None => "{'enabled': false}",
            Compression::Lz4 => "{'class': 'LZ4Compressor'}",
            Compression::Snappy => "{'class': 'SnappyCompressor'}",
            Compression::Zstd => "{'class': 'ZstdCompressor'}",
        }
    }
}

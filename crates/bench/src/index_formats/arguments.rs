//! The arguments of `espalier bench index-formats`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::BoolishValueParser, value_parser};

use crate::simple_query::Compression;

/// The contenders, and the amount of data.
#[derive(Args, Clone, Debug)]
pub struct IndexFormatsArguments {
    /// Number of rows of `typical`; key-value has eight times as many, large-partitions and
    /// wide-partition twice as many, long-prefixes half as many
    #[arg(
        long,
        value_name = "N",
        default_value_t = 500_000,
        value_parser = value_parser!(u64).range(1000..=1 << 32)
    )]
    pub rows: u64,
    /// Tests to run
    #[arg(
        long,
        value_name = "TEST,…",
        value_delimiter = ',',
        default_value = "typical,key-value,large-partitions,long-prefixes,wide-partition"
    )]
    pub tests: Vec<Test>,
    /// Version of SSTables with Summary.db and Index.db: oa, nb or me
    #[arg(long, value_name = "VERSION", default_value = "oa")]
    pub legacy: String,
    /// Version of SSTables with tries: da or mt
    #[arg(long, value_name = "VERSION", default_value = "da")]
    pub trie: String,
    /// Bytes of Summary.db for each byte of Data.db of one more legacy contender, as in ScyllaDB; 0
    /// leaves that contender out
    #[arg(long, value_name = "RATIO", default_value_t = 0.0005)]
    pub sstable_summary_ratio: f64,
    /// Memory for pages and rows, in percent of Data.db, the same for all contenders [default: by
    /// test]
    #[arg(long, value_name = "PERCENT")]
    pub memory_percent: Option<f64>,
    /// Give the typical test a row cache of a fifth of Data.db; the others have none
    #[arg(
        long,
        value_name = "0|1",
        default_value = "1",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = BoolishValueParser::new()
    )]
    pub enable_cache: bool,
    /// Compressor of Data.db
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub compression: Compression,
    /// Limit of the 99th percentile of the latency, in ms
    #[arg(long, value_name = "MS", default_value_t = 10.0)]
    pub p99_ms: f64,
    /// Duration of each load, in seconds
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub seconds: f64,
    /// Number of reads under way while the cache is filled and the first estimate is made
    #[arg(
        long,
        value_name = "N",
        default_value_t = 128,
        value_parser = value_parser!(u32).range(1..=4096)
    )]
    pub concurrency: u32,
    /// Processor to pin to [default: the last one that is allowed]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    /// Write all figures to a JSON file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report with its drawings to a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Seed of the order of the reads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Directory of the nodes' files; it must not exist, and is removed at the end
    #[arg(long, value_name = "DIR", default_value = "espalier-bench")]
    pub workdir: PathBuf,
}

/// A test of the published comparison, or the experiment with the wide partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Rows of five columns of 256 bytes, read in sequence and around a middle
    Typical,
    /// A key and eight bytes
    KeyValue,
    /// Up to 460,000 rows in each partition
    LargePartitions,
    /// Clusterings of 2,048 bytes that share all but the last eight
    LongPrefixes,
    /// Single rows of one partition, which has all rows, with nothing in memory
    WidePartition,
}

impl Test {
    /// Returns the test's name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            Test::Typical => "typical",
            Test::KeyValue => "key-value",
            Test::LargePartitions => "large-partitions",
            Test::LongPrefixes => "long-prefixes",
            Test::WidePartition => "wide-partition",
        }
    }
}

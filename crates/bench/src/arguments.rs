//! The arguments of `espalier bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, builder::PossibleValuesParser, value_parser};

pub use super::index_formats::IndexFormatsArguments;
pub use super::memtable::KeyShape;
use super::node::KINDS;
pub use super::simple_query::SimpleQueryArguments;

/// A measurement.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Memtables: writes, reads, scans, flushes and memory, by kind of memtable and of keys
    ///
    /// One shard in this process, without sockets and without commit log, is measured through
    /// prepared statements. Every row that is read is compared with the row that was written. Kinds
    /// of memtable take turns, round by round, so that they see the same machine. Each figure is
    /// given by the clock and by the time that the thread was on a core; where these differ, the
    /// machine had other work. Figures to quote need an idle machine.
    ///
    /// With the defaults a run takes some minutes. --partitions, --rounds, --keys and --kinds
    /// shorten it in proportion; --skip leaves parts out.
    Memtable(Box<MemtableArguments>),
    /// Prepared statements of one row: operations a second, and the cost of each operation
    ///
    /// Reads random rows of SSTables, or writes rows, in iterations of one second. Many tasks on
    /// each shard do this, in this process and without sockets. Every row that is read is compared
    /// with the row that was written. The options are those of ScyllaDB's perf-simple-query.
    SimpleQuery(Box<SimpleQueryArguments>),
    /// Indexes as tries against Summary.db and Index.db: throughput, latency, pages and bytes,
    /// beside the published figures
    ///
    /// Runs the tests of ScyllaDB's published comparison, scaled down: the same rows in each
    /// format, read by a node of one shard in this process with the same memory for pages. Every
    /// row that is read is compared with the row that was written.
    IndexFormats(Box<IndexFormatsArguments>),
    /// Reads that pass deleted rows, and how long deletions hold the core
    Deletions(DeletionsArguments),
    /// Compaction of two files that share half of their partitions
    ///
    /// Prints three speeds in MB of Data.db before compression for each second of core time: the
    /// compaction's, reading and writing; that of a writer alone, which writes the same rows from
    /// memory to a file of the same version; and that of LZ4 alone on the blocks of that file.
    Compaction(CompactionArguments),
    /// The row cache: memory of a row, reads a second, how long its work holds the core, and the
    /// hits of a hot set beside a scan
    Cache(CacheArguments),
    /// Reads of a whole table: the cost of each row, from the memtable and from a file
    Scan(ScanArguments),
    /// Searches by an index on vectors: time, and the share of the nearest rows that they find
    Vectors(VectorsArguments),
    /// Flush and compaction of a table with three secondary indexes: how long they hold the core
    Indexes(IndexesArguments),
}

/// The node of a benchmark.
#[derive(Args, Clone, Debug)]
pub struct NodeArguments {
    /// Directory of the node's files; it must not exist, and is removed at the end
    #[arg(long, value_name = "DIR", default_value = "espalier-bench")]
    pub workdir: PathBuf,
}

/// The repetition of a benchmark.
#[derive(Args, Clone, Debug)]
pub struct RepeatedArguments {
    /// Number of rounds; the lowest of each figure is printed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = value_parser!(u32).range(1..=1000)
    )]
    pub rounds: u32,
}

/// The arguments of `espalier bench scan`.
#[derive(Args, Clone, Debug)]
pub struct ScanArguments {
    /// Number of rows
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4_000_000,
        value_parser = value_parser!(u64).range(1..=1 << 32)
    )]
    pub rows: u64,
    /// Rows of a partition
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = value_parser!(u64).range(1..=1 << 31)
    )]
    pub width: u64,
    /// The rounds
    #[command(flatten)]
    pub repeated: RepeatedArguments,
    /// Memory for cached pages and rows
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 30)]
    pub page_cache_bytes: u64,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// The arguments of `espalier bench vectors`.
#[derive(Args, Clone, Debug)]
pub struct VectorsArguments {
    /// Number of rows, each with a random vector
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        value_parser = value_parser!(u32).range(100..=1 << 24)
    )]
    pub vectors: u32,
    /// Numbers of components of the vectors
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,128")]
    pub dimensions: Vec<usize>,
    /// Number of queries
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = value_parser!(u32).range(1..=100_000)
    )]
    pub queries: u32,
    /// LIMIT of the queries
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: usize,
    /// Similarity: cosine, dot_product, euclidean
    #[arg(
        long,
        value_name = "NAME",
        default_value = "cosine",
        value_parser = PossibleValuesParser::new(["cosine", "dot_product", "euclidean"]),
        hide_possible_values = true
    )]
    pub similarity: String,
    /// Percentage of the nearest rows that the queries must find; the command fails if it is lower
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 95,
        value_parser = value_parser!(u32).range(0..=100)
    )]
    pub min_recall: u32,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// The arguments of `espalier bench indexes`.
#[derive(Args, Clone, Debug)]
pub struct IndexesArguments {
    /// Number of rows
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = value_parser!(u64).range(2..=1 << 28)
    )]
    pub rows: u64,
    /// Number of elements of the collection of one further row
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        value_parser = value_parser!(u64).range(1..=1 << 22)
    )]
    pub elements: u64,
    /// The maximum time in microseconds for which a task may hold the core; the command fails if
    /// the shortest of all rounds is longer
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_us: u64,
    /// The rounds
    #[command(flatten)]
    pub repeated: RepeatedArguments,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// The arguments of `espalier bench cache`.
#[derive(Args, Clone, Debug)]
pub struct CacheArguments {
    /// Number of rows: partitions of one row, and rows of one partition
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = value_parser!(u64).range(200_000..=1 << 26)
    )]
    pub rows: u64,
    /// Number of rows of the large partition, which the cache first forgets and then evicts
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000_000,
        value_parser = value_parser!(u64).range(1_000_000..=1 << 25)
    )]
    pub large_rows: u64,
    /// Longest time for which a task may hold the core, in microseconds; the command fails if even
    /// the shortest of all rounds is longer
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_us: u64,
    /// Bytes that a cached row may take, both as the cache counts them and as the process grows;
    /// the command fails if a row takes more
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub max_row_bytes: u32,
    /// Cached rows a second that a core must read when several requests have arrived together, as a
    /// node serves a queue; the command fails if it reads fewer
    #[arg(long, value_name = "N", default_value_t = 2_900_000)]
    pub min_reads: u32,
    /// Percentage of a hot set's reads that must be hits beside a scan; the command fails if it is
    /// lower
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 95,
        value_parser = value_parser!(u32).range(0..=100)
    )]
    pub min_hits: u32,
    /// Number of rounds of reads and of stalls; the best is printed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = value_parser!(u32).range(1..=1000)
    )]
    pub rounds: u32,
    /// Parts to leave out: points, stalls, scan
    #[arg(
        long,
        value_name = "PART,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(["points", "stalls", "scan"]),
        hide_possible_values = true
    )]
    pub skip: Vec<String>,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// The arguments of `espalier bench compaction`.
#[derive(Args, Clone, Debug)]
pub struct CompactionArguments {
    /// Number of rows of each of the two files
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = value_parser!(u64).range(100..=1 << 32)
    )]
    pub rows: u64,
    /// Length of a row's value, in bytes, half of them random
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = value_parser!(u32).range(0..=1 << 20)
    )]
    pub value_bytes: u32,
    /// Version of the SSTables: da, oa, nb, me or mt
    #[arg(long, value_name = "VERSION", default_value = "da")]
    pub sstable_format: String,
    /// Directory that gets hard links to the files before they are compacted, so that another
    /// program can compact the same
    #[arg(long, value_name = "DIR")]
    pub inputs: Option<PathBuf>,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// The arguments of `espalier bench deletions`.
#[derive(Args, Clone, Debug)]
pub struct DeletionsArguments {
    /// Number of rows of the partition
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = value_parser!(u64).range(1..=1 << 32)
    )]
    pub rows: u64,
    /// The rounds
    #[command(flatten)]
    pub repeated: RepeatedArguments,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// The arguments of `espalier bench memtable`.
#[derive(Args, Clone, Debug)]
pub struct MemtableArguments {
    /// Number of entries that are written: partitions, or rows of wide partitions
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = value_parser!(u64).range(1..=u64::from(u32::MAX))
    )]
    pub partitions: u64,
    /// Number of reads of each kind; the number of slices is a hundredth of it
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = value_parser!(u64).range(1..)
    )]
    pub reads: u64,
    /// Number of rounds; the table shows the best and the median
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = value_parser!(u32).range(1..=1000)
    )]
    pub rounds: u32,
    /// Kinds of memtable: trie, skiplist, and the kinds that divide the tokens among several tries
    /// or skip lists, sharded_trie and sharded_skiplist
    #[arg(
        long,
        value_name = "KIND,…",
        value_delimiter = ',',
        default_value = "trie,skiplist",
        value_parser = PossibleValuesParser::new(KINDS),
        hide_possible_values = true
    )]
    pub kinds: Vec<String>,
    /// Shapes of keys
    #[arg(
        long,
        value_name = "SHAPE,…",
        value_delimiter = ',',
        default_value = "random,sequential,prefix,composite,wide"
    )]
    pub keys: Vec<KeyShape>,
    /// Rows of each wide partition [default: all in one partition]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub rows: Option<u64>,
    /// Bytes of a value
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = value_parser!(u32).range(8..=1 << 20)
    )]
    pub value_bytes: u32,
    /// Percentages of the writes that go to one dominating partition
    #[arg(
        long,
        value_name = "PERCENT,…",
        value_delimiter = ',',
        default_value = "0,10,20,50",
        value_parser = value_parser!(u8).range(0..=100)
    )]
    pub dominating: Vec<u8>,
    /// Number of tasks that read while one task writes
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub readers: u32,
    /// Shortest time for which these tasks read, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    pub seconds: f64,
    /// Parts to leave out
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    pub skip: Vec<Part>,
    /// Installation of Cassandra to compare with, as interop/cassandra/install.sh makes it
    /// [default: .deps/cassandra/node if it exists]
    #[arg(long, value_name = "DIR")]
    pub cassandra: Option<PathBuf>,
    /// RocksDB's db_bench [default: db_bench in PATH]
    #[arg(long, value_name = "FILE")]
    pub db_bench: Option<PathBuf>,
    /// Processor to pin this process and Java to [default: the last one that is allowed]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    /// Write all figures of every round to a JSON file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw the figures into a directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Seed of the order of the reads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The node
    #[command(flatten)]
    pub node: NodeArguments,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// All rows in order; without this part, slices are not measured either
    Scan,
    /// A hundred rows from a random row on
    Slice,
    /// Flushes of memtables to SSTables
    Flush,
    /// One partition that takes a part of the writes
    Dominating,
    /// Reads during writes
    Readers,
    /// The trie without a node around it, beside RocksDB's skip list
    Raw,
    /// Cassandra's own classes
    Cassandra,
}

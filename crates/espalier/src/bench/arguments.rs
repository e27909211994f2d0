//! The arguments of `espalier bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, builder::PossibleValuesParser, value_parser};

pub use super::index_formats::IndexFormatsArguments;
pub use super::memtable::KeyShape;
use super::node::KINDS;
pub use super::simple_query::SimpleQueryArguments;

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Memtables: writes, reads, scans, flushes and memory, by kind of memtable and of keys
    ///
    /// One shard in this process, without sockets and without commit log, is measured through prepared statements. All that is
    /// read is compared with what was written. Kinds of memtable take turns, round by round, so that they see the same machine.
    /// Each figure is given by the clock and by the time that the thread was on a core; where these differ, something else ran
    /// too. For figures that one may quote, nothing else should.
    ///
    /// With the defaults a run takes some minutes. --partitions, --rounds, --keys and --kinds shorten it in proportion; --skip leaves
    /// parts out.
    Memtable(Box<MemtableArguments>),
    /// Prepared statements of one row: how many a second, and what each takes
    ///
    /// Random rows of SSTables are read, or rows are written, for a second at a time, by many tasks on each shard, in this process
    /// and without sockets. What is read is compared with what was written. The options are those of ScyllaDB's perf-simple-query.
    SimpleQuery(Box<SimpleQueryArguments>),
    /// Indexes as tries against Summary.db and Index.db: throughput, latency, pages and bytes, beside the published figures
    ///
    /// The tests of ScyllaDB's published comparison, scaled down: the same rows in each format, read by a node of one shard in this
    /// process with the same memory for pages. All that is read is compared with what was written.
    IndexFormats(Box<IndexFormatsArguments>),
    /// Reads that come past deleted rows, and how long deletions hold the core
    Deletions(DeletionsArguments),
    /// Two files of which half the partitions are in both become one
    ///
    /// Prints MB of Data.db before compression, by the second that a core worked: what the compaction read and wrote; what a writer makes
    /// of the same rows by itself, from memory to a sealed file of the version that tables have; and, on the blocks of that file, LZ4 alone.
    Compaction(CompactionArguments),
    /// The row cache: memory of a row, reads a second, how long its work holds the core, what a scan leaves of a hot set
    Cache(CacheArguments),
}

/// What is cached.
#[derive(Args, Clone, Debug)]
pub struct CacheArguments {
    /// How many rows: partitions of one, and rows of one partition
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = value_parser!(u64).range(200_000..=1 << 26))]
    pub rows: u64,
    /// How many rows of one partition are forgotten, and evicted
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1_000_000..=1 << 25))]
    pub large_rows: u64,
    /// How long a task may hold the core, in microseconds; if the least of all rounds is longer it ends with an error
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub most_us: u64,
    /// How many bytes a cached row may take, as they are counted and as the process grows; if it takes more it ends with an error
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub most_row_bytes: u32,
    /// How many cached rows a second must be read by a core that has several requests at hand, which is how a node serves a queue; if
    /// they are fewer it ends with an error
    #[arg(long, value_name = "N", default_value_t = 2_900_000)]
    pub least_reads: u32,
    /// How many percent of a hot set's reads must be hits beside a scan; if they are fewer it ends with an error
    #[arg(long, value_name = "PERCENT", default_value_t = 95, value_parser = value_parser!(u32).range(0..=100))]
    pub least_hits: u32,
    /// How many rounds of reads and of stalls: the best is told
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Parts to leave out: points, stalls, scan
    #[arg(long, value_name = "PART,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(["points", "stalls", "scan"]), hide_possible_values = true)]
    pub skip: Vec<String>,
    /// Where its node has its files meanwhile; it must not exist
    #[arg(long, value_name = "DIR", default_value = "espalier-bench")]
    pub workdir: PathBuf,
}

/// What is compacted.
#[derive(Args, Clone, Debug)]
pub struct CompactionArguments {
    /// How many rows each of the two files has
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = value_parser!(u64).range(100..=1 << 32))]
    pub rows: u64,
    /// How long a row's value is, in bytes, half of them random
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(0..=1 << 20))]
    pub value_bytes: u32,
    /// Where links to the files that are compacted are left, for another program to compact the same
    #[arg(long, value_name = "DIR")]
    pub inputs: Option<PathBuf>,
    /// Where its node has its files meanwhile; it must not exist
    #[arg(long, value_name = "DIR", default_value = "espalier-bench")]
    pub workdir: PathBuf,
}

/// What is deleted.
#[derive(Args, Clone, Debug)]
pub struct DeletionsArguments {
    /// How many rows of one partition
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=1 << 32))]
    pub rows: u64,
    /// How many rounds: the least of each figure is told
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Where its node has its files meanwhile; it must not exist
    #[arg(long, value_name = "DIR", default_value = "espalier-bench")]
    pub workdir: PathBuf,
}

/// How memtables are measured.
#[derive(Args, Clone, Debug)]
pub struct MemtableArguments {
    /// How many entries are written: partitions, or rows of wide ones
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    pub partitions: u64,
    /// How many reads of each sort; a hundredth of it is the number of slices
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..))]
    pub reads: u64,
    /// How many rounds: the table shows the best and the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Kinds of memtable: trie, skiplist, and of each several that share the tokens, sharded_trie and sharded_skiplist
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', default_value = "trie,skiplist", value_parser = PossibleValuesParser::new(KINDS), hide_possible_values = true)]
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
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(8..=1 << 20))]
    pub value_bytes: u32,
    /// Percentages of the writes that go to one dominating partition
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "0,10,20,50", value_parser = value_parser!(u8).range(0..=100))]
    pub dominating: Vec<u8>,
    /// How many tasks read while one writes
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub readers: u32,
    /// How long they read at least, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    pub seconds: f64,
    /// What not to measure
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    pub skip: Vec<Part>,
    /// Installation of Cassandra to measure beside, as interop/cassandra/install.sh makes it [default: .deps/cassandra/node if it is
    /// there]
    #[arg(long, value_name = "DIR")]
    pub cassandra: Option<PathBuf>,
    /// RocksDB's db_bench [default: as found in PATH]
    #[arg(long, value_name = "FILE")]
    pub db_bench: Option<PathBuf>,
    /// Processor to stay on, Java too [default: the last one that is allowed]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    /// Write all figures to a file, every round
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw them into a directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Seed of the reads' order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where its node has its files meanwhile; it must not exist
    #[arg(long, value_name = "DIR", default_value = "espalier-bench")]
    pub workdir: PathBuf,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// All rows in order
    Scan,
    /// A hundred rows from a random one on
    Slice,
    /// Memtables to SSTables
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

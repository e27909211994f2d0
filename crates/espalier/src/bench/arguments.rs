//! The arguments of `espalier bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to measure.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Memtables: writes, reads, scans and memory, by kind of memtable and of keys
    Memtable(MemtableArguments),
}

/// How memtables are measured.
#[derive(Args, Clone, Debug)]
pub struct MemtableArguments {
    /// How many partitions
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub partitions: u64,
    /// How many reads of each sort
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub reads: u64,
    /// Where its node has its files meanwhile
    #[arg(long, value_name = "DIR", default_value = "espalier-bench")]
    pub workdir: PathBuf,
}

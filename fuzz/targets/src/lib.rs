//! The fuzz targets: for each parser of foreign bytes, a function that takes any bytes.
//!
//! libFuzzer's programs (`../fuzz_targets`) and the test that replays the corpora
//! (`tests/replay.rs`) call the same functions. A target may silently end in an error. It must not
//! panic, run without end, or take more than [`MAX_MEMORY_BYTES`] besides its input.
//!
//! The first bytes of an input choose a version of SSTables, a set (the files of one SSTable) or
//! types. See [`Input`](input::Input).

pub mod big;
pub mod bti;
pub mod commit_log;
pub mod connection;
pub mod cql;
pub mod executor;
pub mod frames;
pub mod input;
pub mod internode;
pub mod log_in;
pub mod memory;
pub mod reading;
pub mod seals;
pub mod seeds;
pub mod sets;
pub mod sstable;
pub mod tls;
pub mod types;

/// Limit of the memory, in bytes, that a target may take at one time.
pub const MAX_MEMORY_BYTES: usize = 64 << 20;

/// A parser with its fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target's program and of its corpus.
    pub name: &'static str,
    /// The function of the target, which takes any bytes.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("byte_comparable", types::byte_comparable),
    target("checksums", sstable::checksums),
    target("chunk", sstable::chunk),
    target("commit_log", commit_log::commit_log),
    target("compression_info", sstable::compression_info),
    target("connection", connection::connection),
    target("cql", cql::cql),
    target("crc", sstable::crc),
    target("data", sstable::data),
    target("data_with_header", sstable::data_with_header),
    target("digest", sstable::digest),
    target("file_name", sstable::file_name),
    target("filter", sstable::filter),
    target("frames", frames::frames),
    target("index", big::index),
    target("internode", internode::internode),
    target("literal", types::literal),
    target("log_in", log_in::log_in),
    target("partitions", bti::partitions),
    target("partitions_and_rows", bti::partitions_and_rows),
    target("promoted_index", big::promoted_index),
    target("rows", bti::rows),
    target("scylla", sstable::scylla),
    target("statistics", sstable::statistics),
    target("summary", big::summary),
    target("tls", tls::tls),
    target("toc", sstable::toc),
    target("type_name", types::type_name),
    target("value", types::value),
    target("variable_length_integer", types::variable_length_integer),
    target("whole_set", sstable::whole_set),
];

/// Runs a target. Panics if the target panics, or if it takes too much memory.
pub fn run(target: &Target, data: &[u8]) {
    let peak = memory::peak_of(|| (target.run)(data));
    let most = MAX_MEMORY_BYTES + data.len();
    assert!(peak <= most, "{}: {peak} bytes of memory for {} of input", target.name, data.len());
}

/// Runs the target of this name. Panics as [`run`] does, and if there is no such target.
pub fn run_by_name(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    run(target.unwrap_or_else(|| panic!("there is no target {name}")), data);
}

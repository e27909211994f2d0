//! The experiment with the wide partition: it reads single rows of 300 bytes of one partition (a
//! million rows by default), with nothing in memory, for two block sizes of the row index
//! (ScyllaDB's change "conf: pair sstable_format=ms with column_index_size_in_kb=1").

use espalier_runtime::random::Generator;

use super::arguments::{IndexFormatsArguments, Test};
use super::contender::{Contender, Format, Memory};
use super::figures::Cost;
use super::files::{self, Sizes};
use super::population::Population;
use crate::BenchError;
use crate::memtable::latency::Percentiles;
use crate::progress::Progress;

/// Number of rows that are read, one after the other.
const READS: u64 = 200;

/// Published figures of the trie: block size in KiB, index pages, reads of Data.db, bytes of these
/// reads.
pub const PUBLISHED: [(u32, u64, u64, u64); 2] = [(1, 5, 1, 4107), (64, 3, 2, 65_536)];

/// Figures of one block size in one format.
#[derive(Clone, Debug)]
pub struct WideFigure {
    pub name: String,
    pub has_trie: bool,
    pub column_index_kib: u32,
    pub files: Sizes,
    /// Index pages, reads of Data.db and bytes of these reads: the mean and the maximum of a single
    /// read.
    pub index_pages: (f64, u64),
    pub data_reads: (f64, u64),
    pub data_bytes: (f64, u64),
    pub latency: Percentiles,
}

/// Measures all block sizes.
pub async fn measure(
    arguments: &IndexFormatsArguments,
    progress: &mut Progress,
) -> Result<Vec<WideFigure>, BenchError> {
    let population = Population::of(Test::WidePartition, arguments.rows);
    let mut formats = Vec::new();
    for version in [&arguments.trie, &arguments.legacy] {
        for (kib, ..) in PUBLISHED {
            formats.push(Format {
                name: format!("{version}, {kib} KiB"),
                version: version.clone(),
                summary_ratio: None,
                column_index_bytes: Some(kib * 1024),
                directory: arguments.workdir.join(format!("{version}-{kib}")),
            });
        }
    }
    let written =
        files::write(&population, &formats, arguments.compression.option(), progress).await?;
    let mut figures = Vec::new();
    for ((format, written), (kib, ..)) in formats.iter().zip(written).zip(PUBLISHED.iter().cycle())
    {
        let figure =
            read(format, population, *kib, written.sizes, arguments.seed, progress).await?;
        figures.push(figure);
    }
    for format in &formats {
        Contender::remove(format).await?;
    }
    Ok(figures)
}

async fn read(
    format: &Format,
    population: Population,
    column_index_kib: u32,
    files: Sizes,
    seed: u64,
    progress: &mut Progress,
) -> Result<WideFigure, BenchError> {
    // Without memory and with BYPASS CACHE, each read begins with empty caches.
    let contender = Contender::open(format.clone(), population, Memory::default(), true).await?;
    let mut step = progress.step(format!("{}: single rows", format.name), READS);
    let mut random = Generator::from_seed(seed);
    let mut costs = Vec::new();
    for number in 0..READS {
        let before = contender.cost();
        contender.read(random.below(population.entries.count)).await?;
        costs.push(contender.cost().since(&before));
        step.at(number);
    }
    Contender::close(contender).await?;
    let of = |pick: fn(&Cost) -> u64| {
        let all: u64 = costs.iter().map(pick).sum();
        (all as f64 / READS as f64, costs.iter().map(pick).max().unwrap_or(0))
    };
    Ok(WideFigure {
        name: format.name.clone(),
        has_trie: format.has_trie(),
        column_index_kib,
        files,
        index_pages: of(|cost| cost.index.read_bytes.div_ceil(4096)),
        data_reads: of(|cost| cost.data.reads),
        data_bytes: of(|cost| cost.data.read_bytes),
        latency: Percentiles::of(costs.iter().map(|cost| cost.clock.as_secs_f64() * 1e6)),
    })
}

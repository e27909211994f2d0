//! Runs one test: writes the files, opens a node for each format, searches the highest rate of each
//! format in turns, and applies the load that all formats sustain.

use std::rc::Rc;
use std::time::Duration;

use super::arguments::{IndexFormatsArguments, Test};
use super::contender::{Contender, Format, Memory};
use super::device;
use super::figures::{ContenderFigure, LoadFigure, TestFigure};
use super::files;
use super::load::{self, Limit};
use super::population::Population;
use super::search::RateSearch;
use crate::BenchError;
use crate::progress::Progress;

/// Before anything is measured, this multiple of the caches' size is read from the disk.
const WARM_UP: u64 = 8;

/// Limit of the time for warming up.
const MAX_WARM_UP: Duration = Duration::from_secs(20);

/// Duration of the equal load, as a multiple of a step of the search.
const EQUAL_LOAD: f64 = 3.0;

/// Size of the typical test's row cache, as a part of Data.db.
const ROW_CACHE: f64 = 0.2;

/// Returns the default memory in percent of Data.db.
///
/// The published nodes had 64 GiB for 650 million rows. These rows had 1,280 bytes (7 percent) in
/// the typical test, and a key and 8 bytes in the key-value test. The default of the key-value test
/// has room for the trie and some data, but not for the entries of Index.db.
fn memory_percent(test: Test) -> f64 {
    match test {
        Test::Typical => 25.0,
        Test::KeyValue => 35.0,
        Test::LargePartitions | Test::LongPrefixes | Test::WidePartition => 5.0,
    }
}

/// Returns the formats to compare, the legacy ones first.
pub fn formats(arguments: &IndexFormatsArguments, test: Test) -> Vec<Format> {
    let format = |name: String, version: &str, summary_ratio| Format {
        directory: arguments.workdir.join(name.replace([' ', '='], "-")),
        name,
        version: version.to_owned(),
        summary_ratio,
        column_index_bytes: None,
    };
    let (legacy, trie) = (&arguments.legacy, &arguments.trie);
    let mut formats = vec![format(legacy.clone(), legacy, None)];
    // For wide partitions the summary is almost empty at any ratio.
    let ratio = arguments.sstable_summary_ratio;
    if ratio > 0.0 && matches!(test, Test::Typical | Test::KeyValue) {
        formats.push(format(format!("{legacy} ratio={ratio}"), legacy, Some(ratio)));
    }
    formats.push(format(trie.clone(), trie, None));
    formats
}

/// Measures one test, and removes its files.
pub async fn compare(
    test: Test,
    arguments: &IndexFormatsArguments,
    progress: &mut Progress,
) -> Result<TestFigure, BenchError> {
    let population = Population::of(test, arguments.rows);
    let formats = formats(arguments, test);
    let compression = arguments.compression.option();
    let written = files::write(&population, &formats, compression, progress).await?;
    let sizes = written.first().map_or(&[][..], |first| &first.sizes);
    let data_bytes = sizes.iter().find(|(name, _)| *name == "Data.db");
    let percent = arguments.memory_percent.unwrap_or(memory_percent(test));
    let data_bytes = data_bytes.map_or(0, |(_, bytes)| *bytes) as f64;
    let memory_bytes = (data_bytes * percent / 100.0) as u64;
    let row_cache_bytes = if arguments.enable_cache && test == Test::Typical {
        ((data_bytes * ROW_CACHE) as u64).min(memory_bytes)
    } else {
        0
    };
    let mut contenders = Vec::new();
    for format in &formats {
        let to_usize = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let memory = Memory { bytes: to_usize(memory_bytes), row_bytes: to_usize(row_cache_bytes) };
        contenders.push(Contender::open(format.clone(), population, memory, false).await?);
    }
    let duration = Duration::from_secs_f64(arguments.seconds);
    let under_way = arguments.concurrency;
    let device_reads_per_s = match written.first() {
        Some(first) => {
            device::reads_per_s(&first.data_path, under_way, duration, arguments.seed).await?
        }
        None => 0.0,
    };
    let measured = Box::pin(loads(&contenders, memory_bytes, arguments, progress)).await;
    for contender in contenders {
        Contender::close(contender).await?;
    }
    for format in &formats {
        Contender::remove(format).await?;
    }
    let contenders = measured?
        .into_iter()
        .zip(written)
        .map(|(one, written)| ContenderFigure { files: written.sizes, ..one });
    Ok(TestFigure {
        population,
        memory_bytes,
        row_cache_bytes,
        contenders: contenders.collect(),
        device_reads_per_s,
    })
}

async fn loads(
    contenders: &[Rc<Contender>],
    memory_bytes: u64,
    arguments: &IndexFormatsArguments,
    progress: &mut Progress,
) -> Result<Vec<ContenderFigure>, BenchError> {
    let mut figures = Vec::new();
    let mut searches = Vec::new();
    for contender in contenders {
        let figure = closed(contender, memory_bytes, arguments, progress).await?;
        searches.push(RateSearch::new(figure.closed.rate));
        figures.push(figure);
    }
    let limit_us = arguments.p99_ms * 1e3;
    let duration = Duration::from_secs_f64(arguments.seconds);
    let mut seed = arguments.seed;
    loop {
        let mut is_over = true;
        for ((contender, search), figure) in contenders.iter().zip(&mut searches).zip(&mut figures)
        {
            let Some(rate) = search.next() else { continue };
            is_over = false;
            seed += 1;
            let loaded = open(contender, rate, duration, limit_us, seed, progress).await?;
            search.record(rate, loaded.is_good(limit_us));
            figure.steps.push(loaded);
        }
        if is_over {
            break;
        }
    }
    for figure in &mut figures {
        let good = figure.steps.iter().filter(|step| step.is_good(limit_us));
        figure.highest = good.max_by(|a, b| a.rate.total_cmp(&b.rate)).copied();
    }
    let highest = figures.iter().map(|figure| figure.highest.map_or(0.0, |highest| highest.rate));
    let equal = highest.fold(f64::MAX, f64::min);
    if equal > 0.0 && equal < f64::MAX {
        for (contender, figure) in contenders.iter().zip(&mut figures) {
            let duration = duration.mul_f64(EQUAL_LOAD);
            seed += 1;
            let loaded = open(contender, equal, duration, limit_us, seed, progress).await?;
            figure.equal = Some(loaded);
        }
    }
    Ok(figures)
}

/// Fills the cache, then reads as fast as possible.
async fn closed(
    contender: &Rc<Contender>,
    memory_bytes: u64,
    arguments: &IndexFormatsArguments,
    progress: &mut Progress,
) -> Result<ContenderFigure, BenchError> {
    let (name, under_way) = (&contender.format.name, arguments.concurrency);
    let warm = Limit { duration: MAX_WARM_UP, read_bytes: WARM_UP * memory_bytes };
    let step = &mut progress.step(format!("{name}: the cache is filled"), 1);
    load::closed(contender, under_way, warm, arguments.seed, step).await?;
    let limit =
        Limit { duration: Duration::from_secs_f64(arguments.seconds), read_bytes: u64::MAX };
    let step = &mut progress.step(format!("{name}: {under_way} at once"), 1);
    let closed = load::closed(contender, under_way, limit, arguments.seed + 1, step).await?;
    Ok(ContenderFigure {
        name: name.clone(),
        version: contender.format.version.clone(),
        has_trie: contender.format.has_trie(),
        files: Vec::new(),
        closed,
        steps: Vec::new(),
        highest: None,
        equal: None,
    })
}

async fn open(
    contender: &Rc<Contender>,
    rate: f64,
    duration: Duration,
    limit_us: f64,
    seed: u64,
    progress: &mut Progress,
) -> Result<LoadFigure, BenchError> {
    let what = format!("{}: {rate:.0} a second", contender.format.name);
    let step = &mut progress.step(what, (rate * duration.as_secs_f64()) as u64);
    load::open(contender, rate, duration, limit_us, seed, step).await
}

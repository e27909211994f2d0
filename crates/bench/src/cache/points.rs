//! Point reads by key: memory of each cached row, and rows read a second.

use std::{rc::Rc, sync::Arc};

use espalier_cql::{Prepared, Value};
use espalier_runtime::{maybe_yield, memory::resident_bytes, random::Generator};
use espalier_storage::RowCacheMetrics;

use super::{
    super::{node::Found, watch::Round, watch::Watch},
    BenchError, CacheArguments, InProcessNode, Progress, Verdicts, answer, bigint, print_line,
    scramble,
};

/// Number of requests that arrive together in the measurement with look-ahead.
const PIPELINED: usize = 16;
/// Number of flushes while rows are written, so that memtables need little memory compared with the
/// cache.
const FLUSHES: u64 = 16;

/// The figures of a measurement.
pub(super) struct Figures {
    /// The cache's metrics after each row was read once.
    metrics: RowCacheMetrics,
    /// Growth of the process while the cache was filled, without pages. The cache first reuses
    /// memory that the allocator kept from memtables and a compaction; this figure lacks that
    /// memory.
    grown_bytes: u64,
    /// Growth of the process since before the first write, without pages; it includes filters and
    /// memory that the allocator keeps.
    grown_in_all_bytes: u64,
    fills_s: f64,
    reads_s: f64,
    reads_ahead_s: f64,
    /// Share of the later reads that were hits, in percent.
    hits: f64,
}

pub(super) async fn measure(
    node: &Rc<InProcessNode>,
    arguments: &CacheArguments,
    progress: &mut Progress,
) -> Result<Figures, BenchError> {
    let rows = arguments.rows;
    let empty = resident_bytes();
    node.query("CREATE TABLE bench_cache.points (k bigint PRIMARY KEY, v bigint)").await?;
    let insert = node.prepare("INSERT INTO bench_cache.points (k, v) VALUES (?, ?)")?;
    let select = node.prepare("SELECT v FROM bench_cache.points WHERE k = ?")?;
    let mut step = progress.step("rows are written", rows);
    for number in 0..rows {
        node.write(&insert, &[bigint(scramble(number)), bigint(number)]).await?;
        maybe_yield().await;
        step.at(number);
        if number % (rows / FLUSHES) == 0 {
            node.database().flush("bench_cache", None).await?;
        }
    }
    node.database().compactions().compact("bench_cache", None, true).await?;
    let mut step = progress.step("each row is read once", rows);
    let (resident, pages) =
        (resident_bytes(), node.database().store().metrics().page_cache.used_bytes);
    let mut first = Round::default();
    let watch = Watch::start();
    for number in 0..rows {
        read(node, &select, number).await?;
        maybe_yield().await;
        step.at(number);
    }
    first.add(rows, &watch);
    let metrics = node.database().store().row_cache().metrics();
    // The growth leaves out pages, because they take the same memory without the row cache.
    let (now, all_pages) =
        (resident_bytes(), node.database().store().metrics().page_cache.used_bytes);
    let grown = |since: u64, pages: u64| now.saturating_sub(since).saturating_sub(pages);
    let grown_bytes = grown(resident, all_pages.saturating_sub(pages));
    let grown_in_all_bytes = grown(empty, all_pages);
    let mut best = 0.0_f64;
    let reads = 1_000_000.max(rows);
    let mut random = Generator::from_seed(1);
    for _ in 0..arguments.rounds {
        let mut step = progress.step("random rows are read", reads);
        let mut round = Round::default();
        let watch = Watch::start();
        for number in 0..reads {
            read(node, &select, random.below(rows)).await?;
            maybe_yield().await;
            step.at(number);
        }
        round.add(reads, &watch);
        best = best.max(round.per_core_s());
    }
    let reads_ahead_s = measure_ahead(node, arguments, &select, progress).await?;
    let after = node.database().store().row_cache().metrics();
    let hits = after.reads_without_misses - metrics.reads_without_misses;
    let all = 2 * u64::from(arguments.rounds) * reads;
    Ok(Figures {
        metrics,
        grown_bytes,
        grown_in_all_bytes,
        fills_s: first.per_core_s(),
        reads_s: best,
        reads_ahead_s,
        hits: 100.0 * hits as f64 / all as f64,
    })
}

impl Figures {
    pub(super) fn print(
        &self,
        arguments: &CacheArguments,
        verdicts: &mut Verdicts,
    ) -> Result<(), BenchError> {
        let Self { metrics, grown_bytes, fills_s, reads_s, reads_ahead_s, hits, .. } = self;
        let of_each = |bytes: u64| bytes as f64 / metrics.rows.max(1) as f64;
        let (counted, grown) = (of_each(metrics.used_bytes), of_each(*grown_bytes));
        let in_all = of_each(self.grown_in_all_bytes);
        print_line(format_args!(
            "{} partitions of one row, keys and values of 8 bytes\n\
             memory of a cached row      {counted:>12.1} bytes ({} rows, {} bytes in use)\n\
             growth of the process       {grown:>12.1} bytes for each ({grown_bytes} bytes, beside \
             pages; {in_all:.1} since before rows were written)\n\
             reads that fill the cache   {fills_s:>12.0} a core second\n\
             reads of cached rows        {reads_s:>12.0} a core second (best of {}); {hits:.3} % \
             from the cache\n\
             the same, {PIPELINED} at a time      {reads_ahead_s:>12.0} a core second",
            arguments.rows, metrics.rows, metrics.used_bytes, arguments.rounds,
        ))?;
        let most = f64::from(arguments.max_row_bytes);
        verdicts.at_most("bytes of a cached row, counted", counted, most)?;
        verdicts.at_most("bytes of a cached row, growth of the process", grown, most)?;
        let what = format!("reads of cached rows a core second, {PIPELINED} at a time");
        verdicts.at_least(&what, *reads_ahead_s, f64::from(arguments.min_reads))
    }
}

/// Measures reads when several requests have arrived together on a connection, and returns the best
/// round's rate.
async fn measure_ahead(
    node: &Rc<InProcessNode>,
    arguments: &CacheArguments,
    select: &Arc<Prepared>,
    progress: &mut Progress,
) -> Result<f64, BenchError> {
    let reads = 1_000_000.max(arguments.rows).next_multiple_of(PIPELINED as u64);
    let (mut random, mut best) = (Generator::from_seed(2), 0.0_f64);
    for _ in 0..arguments.rounds {
        let mut step = progress.step("random rows are read, some at a time", reads);
        let mut round = Round::default();
        let watch = Watch::start();
        for number in (0..reads).step_by(PIPELINED) {
            let numbers = [(); PIPELINED].map(|()| random.below(arguments.rows));
            let keys = numbers.map(|number| [bigint(scramble(number))]);
            node.look_ahead(select, keys.iter().map(|key| &key[..]));
            for (key, number) in keys.iter().zip(numbers) {
                expect(node, select, key, number).await?;
                maybe_yield().await;
            }
            step.at(number);
        }
        round.add(reads, &watch);
        best = best.max(round.per_core_s());
    }
    Ok(best)
}

async fn read(
    node: &Rc<InProcessNode>,
    select: &Arc<Prepared>,
    number: u64,
) -> Result<(), BenchError> {
    expect(node, select, &[bigint(scramble(number))], number).await
}

async fn expect(
    node: &Rc<InProcessNode>,
    select: &Arc<Prepared>,
    key: &[Value],
    number: u64,
) -> Result<(), BenchError> {
    match node.read(select, key, &answer(number)).await? {
        Found::Expected => Ok(()),
        other => Err(BenchError::Wrong(format!("row {number}: {other:?}"))),
    }
}

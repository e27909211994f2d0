//! How long the cache's work holds the core: what a flush brings, what is forgotten, what is deleted, what makes room.
//!
//! What a hypervisor takes of the core counts as held, so the least of several rounds is told.

use std::{rc::Rc, sync::Arc, time::Duration};

use espalier_cql::Prepared;
use espalier_runtime::{
    maybe_yield, preempt::take_stall_report, spawn_local, time::Instant, time::sleep,
};

use super::{BenchError, CacheArguments, InProcessNode, Progress, answer, bigint, print_line};

/// Rows under one range tombstone of which users have told (scylladb#8626).
const COVERED_ROWS: u64 = 137_000;
const SELECTS: u32 = 100;

struct Wide {
    node: Rc<InProcessNode>,
    insert: Arc<Prepared>,
    delete: Arc<Prepared>,
    select: Arc<Prepared>,
    select_all: Arc<Prepared>,
}

/// What was done, the longest time for which a task held the core meanwhile, and how long it took.
pub(super) struct Stall {
    what: String,
    longest_us: u64,
    took_ms: f64,
}

/// Prints the least of the rounds.
pub(super) fn print(rounds: &[Vec<Stall>]) -> Result<(), BenchError> {
    print_line(format_args!("the longest time that a task held the core, in us"))?;
    let Some(first) = rounds.first() else { return Ok(()) };
    for (index, Stall { what, .. }) in first.iter().enumerate() {
        let all = || rounds.iter().filter_map(|round| round.get(index));
        let longest_us = all().map(|stall| stall.longest_us).min().unwrap_or_default();
        let took_ms = all().map(|stall| stall.took_ms).fold(f64::INFINITY, f64::min);
        print_line(format_args!("{what:<72} {longest_us:>8} in {took_ms:>8.1} ms"))?;
    }
    Ok(())
}

/// One round.
pub(super) async fn measure(
    node: &Rc<InProcessNode>,
    arguments: &CacheArguments,
    progress: &mut Progress,
) -> Result<Vec<Stall>, BenchError> {
    let rows = arguments.rows;
    let columns = "k bigint, c bigint, v bigint, PRIMARY KEY (k, c)";
    node.query(&format!("CREATE TABLE bench_cache.wide ({columns})")).await?;
    let wide = Rc::new(Wide {
        insert: node.prepare("INSERT INTO bench_cache.wide (k, c, v) VALUES (?, ?, ?)")?,
        delete: node.prepare("DELETE FROM bench_cache.wide WHERE k = ? AND c < ?")?,
        select: node.prepare("SELECT v FROM bench_cache.wide WHERE k = ? LIMIT 10")?,
        select_all: node.prepare("SELECT v FROM bench_cache.wide WHERE k = ?")?,
        node: node.clone(),
    });
    let mut stalls = Vec::new();

    wide.write(0, 0..rows, 0, progress).await?;
    wide.flush().await?;
    wide.read_all(0, rows, 0, progress).await?;
    wide.expect_cached(rows)?;
    wide.write(0, 0..rows, 7, progress).await?;
    let what = format!("flush of {rows} rows into a cached partition");
    stalls.push(watch(what, wide.clone().flush_owned()).await?);
    wide.read_all(0, rows, 7, progress).await?;

    wide.write(1, 0..COVERED_ROWS + 10, 0, progress).await?;
    wide.flush().await?;
    wide.read_all(1, COVERED_ROWS + 10, 0, progress).await?;
    wide.delete(1, COVERED_ROWS).await?;
    let this = wide.clone();
    let what = format!("SELECT behind {COVERED_ROWS} cached rows under a range tombstone");
    let select = async move { this.expect_first(1, COVERED_ROWS, 0).await };
    stalls.push(watch(what, select).await?);

    wide.delete(0, rows - 10).await?;
    let what = format!("flush of a range tombstone over {rows} cached rows");
    stalls.push(watch(what, wide.clone().flush_owned()).await?);
    let this = wide.clone();
    let selects = async move {
        for _ in 0..SELECTS {
            this.expect_first(0, rows - 10, 7).await?;
        }
        Ok(())
    };
    stalls.push(watch(format!("{SELECTS} SELECTs behind it"), selects).await?);

    wide.write(2, 0..rows, 0, progress).await?;
    wide.flush().await?;
    wide.read_all(2, rows, 0, progress).await?;
    wide.expect_cached(rows)?;
    let this = wide.clone();
    let forget = async move {
        this.node.database().forget_cached_rows().await;
        while this.node.database().row_cache_metrics().rows > 0 {
            maybe_yield().await;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    };
    stalls.push(watch(format!("forgetting {rows} rows"), forget).await?);

    // A tenth of the partition has room.
    node.database().set_row_cache_limit(rows as usize * 10);
    let before = node.database().row_cache_metrics().row_evictions;
    let this = wide.clone();
    let what = format!("reading {rows} rows of a partition of which a tenth has room");
    stalls.push(watch(what, async move { this.read_pages(2, rows, 0).await }).await?);
    let evictions = node.database().row_cache_metrics().row_evictions - before;
    if evictions < rows / 2 {
        return Err(BenchError::Wrong(format!("no more than {evictions} rows were evicted")));
    }
    Ok(stalls)
}

/// Runs a task.
async fn watch(
    what: String,
    task: impl Future<Output = Result<(), BenchError>> + 'static,
) -> Result<Stall, BenchError> {
    // What was done before ends before it is measured.
    sleep(Duration::from_millis(50)).await;
    take_stall_report();
    let began = Instant::now();
    spawn_local(task).await?;
    let took_ms = began.elapsed().as_secs_f64() * 1e3;
    Ok(Stall { what, longest_us: take_stall_report().longest_us, took_ms })
}

impl Wide {
    async fn write(
        &self,
        partition: u64,
        rows: std::ops::Range<u64>,
        salt: u64,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        let mut step = progress.step("rows are written", rows.end);
        for row in rows {
            let values = [bigint(partition), bigint(row), bigint(row ^ salt)];
            self.node.write(&self.insert, &values).await?;
            maybe_yield().await;
            step.at(row);
        }
        Ok(())
    }

    async fn delete(&self, partition: u64, below: u64) -> Result<(), BenchError> {
        self.node.write(&self.delete, &[bigint(partition), bigint(below)]).await
    }

    async fn flush(&self) -> Result<(), BenchError> {
        Ok(self.node.database().flush("bench_cache", None).await?)
    }

    async fn flush_owned(self: Rc<Self>) -> Result<(), BenchError> {
        self.flush().await
    }

    async fn read_all(
        &self,
        partition: u64,
        rows: u64,
        salt: u64,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        let step = progress.step("a partition is read", rows);
        self.read_pages(partition, rows, salt).await?;
        drop(step);
        Ok(())
    }

    /// Reads a partition from its beginning to its end and compares it.
    async fn read_pages(&self, partition: u64, rows: u64, salt: u64) -> Result<(), BenchError> {
        let mut paging = None;
        let mut next = 0;
        loop {
            let values = [bigint(partition)];
            let page = self.node.page(&self.select_all, &values, 5000, paging.as_deref()).await?;
            for value in page.content.chunks(12) {
                maybe_yield().await;
                if value != answer(next ^ salt) {
                    return Err(BenchError::Wrong(format!("row {next} of partition {partition}")));
                }
                next += 1;
            }
            paging = page.paging_state.as_ref().map(|state| state.to_vec());
            if paging.is_none() {
                break;
            }
        }
        match next == rows {
            true => Ok(()),
            false => Err(BenchError::Wrong(format!("{next} rows of {rows}"))),
        }
    }

    /// The first ten rows are those from `first` on.
    async fn expect_first(&self, partition: u64, first: u64, salt: u64) -> Result<(), BenchError> {
        let page = self.node.page(&self.select, &[bigint(partition)], 100, None).await?;
        let expected: Vec<u8> = (first..first + 10).flat_map(|row| answer(row ^ salt)).collect();
        match page.content[..] == expected[..] {
            true => Ok(()),
            false => Err(BenchError::Wrong(format!("{} rows behind {first}", page.row_count))),
        }
    }

    fn expect_cached(&self, rows: u64) -> Result<(), BenchError> {
        let metrics = self.node.database().row_cache_metrics();
        match metrics.rows >= rows {
            true => Ok(()),
            false => Err(BenchError::Wrong(format!("{metrics:?} is not {rows} rows"))),
        }
    }
}

//! `espalier bench deletions`: measures the time of a read that passes deleted rows, and the time
//! for which deletions of many rows hold the core.
//!
//! Rows are written to one partition. All but the last ten are deleted, in one of several ways; if
//! the way is to delete the partition, the last ten are written again. Then a query asks for the
//! first ten rows, and its answer is compared with the rows that must be left.

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_cql::{Prepared, Value};
use espalier_runtime::{
    block_on, maybe_yield,
    preempt::take_stall_report,
    random::Generator,
    spawn_local,
    time::{Instant, sleep},
};

use super::{
    BenchError, arguments::DeletionsArguments, node::InProcessNode, print_line, progress::Progress,
};

/// Number of rows that stay, which the query must find.
const LEFT: u64 = 10;

/// Maximum number of reads of a round, of which the median and the longest time are reported.
const READS: usize = 200;

/// The way in which the statements delete rows.
#[derive(Clone, Copy)]
enum Way {
    RowsInOrder,
    RowsShuffled,
    Range,
    Partition,
}

impl Way {
    const ALL: [Way; 4] = [Way::RowsInOrder, Way::RowsShuffled, Way::Range, Way::Partition];

    fn name(self) -> &'static str {
        match self {
            Way::RowsInOrder => "each row, in order",
            Way::RowsShuffled => "each row, shuffled",
            Way::Range => "one range",
            Way::Partition => "the partition",
        }
    }
}

/// Measures and prints a table.
///
/// # Errors
///
/// Fails if the engine fails, or if a read returns other rows than those left.
pub fn run(arguments: &DeletionsArguments) -> Result<(), BenchError> {
    block_on(async {
        let node = Rc::new(InProcessNode::open(&arguments.node.workdir, 1 << 40).await?);
        let mut progress = Progress::new();
        let outcome = Box::pin(measure(&node, arguments, &mut progress)).await;
        progress.clear();
        outcome.and(InProcessNode::close_shared(node).await)
    })
}

async fn measure(
    node: &Rc<InProcessNode>,
    arguments: &DeletionsArguments,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    let rows = arguments.rows;
    node.query(
        "CREATE KEYSPACE bench_deletions WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1} \
         AND durable_writes = false",
    )
    .await?;
    print_line(format_args!(
        "{rows} rows of one partition are deleted; then SELECT ... LIMIT {LEFT} finds the rest"
    ))?;
    print_line(format_args!(
        "{:<20} {:<22} {:>12} {:>13} {:>13} {:>14} {:>12}",
        "deleted",
        "rows were in",
        "deletion ns",
        "its stall us",
        "SELECT us",
        "SELECT max us",
        "stall us"
    ))?;
    for way in Way::ALL {
        for is_flushed in [false, true] {
            let mut least: Option<Figures> = None;
            for _ in 0..arguments.repeated.rounds {
                let table = Deleted::create(node, way, is_flushed).await?;
                let round = table.measure(rows, progress).await?;
                least = Some(least.map_or(round, |least| least.least(round)));
            }
            progress.clear();
            if let Some(figures) = least {
                figures.print(way, is_flushed)?;
            }
        }
    }
    print_line(format_args!(
        "\"its stall\" and \"stall\": the longest time for which a task held the core while \
         deleting, and in a flush after it\n\
         each the least of {} rounds, as the system interrupts any task now and then",
        arguments.repeated.rounds
    ))
}

/// The figures of one round.
#[derive(Clone, Copy)]
struct Figures {
    deletion_ns: f64,
    deletion_stall_us: u64,
    median_us: f64,
    longest_us: f64,
    flush_stall_us: u64,
}

impl Figures {
    fn least(self, other: Self) -> Self {
        Self {
            deletion_ns: self.deletion_ns.min(other.deletion_ns),
            deletion_stall_us: self.deletion_stall_us.min(other.deletion_stall_us),
            median_us: self.median_us.min(other.median_us),
            longest_us: self.longest_us.min(other.longest_us),
            flush_stall_us: self.flush_stall_us.min(other.flush_stall_us),
        }
    }

    fn print(self, way: Way, is_flushed: bool) -> Result<(), BenchError> {
        print_line(format_args!(
            "{:<20} {:<22} {:>12.0} {:>13} {:>13.1} {:>14.1} {:>12}",
            way.name(),
            if is_flushed { "an SSTable" } else { "the memtable" },
            self.deletion_ns,
            self.deletion_stall_us,
            self.median_us,
            self.longest_us,
            self.flush_stall_us,
        ))
    }
}

/// A table, and the way in which its rows are deleted.
struct Deleted {
    node: Rc<InProcessNode>,
    way: Way,
    /// True if the rows are in an SSTable when they are deleted.
    is_flushed: bool,
    insert: Arc<Prepared>,
    delete_row: Arc<Prepared>,
    delete_range: Arc<Prepared>,
    delete_partition: Arc<Prepared>,
    select: Arc<Prepared>,
}

fn bigint(number: u64) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&number.to_be_bytes()))
}

impl Deleted {
    async fn create(
        node: &Rc<InProcessNode>,
        way: Way,
        is_flushed: bool,
    ) -> Result<Self, BenchError> {
        node.query("DROP TABLE IF EXISTS bench_deletions.t").await?;
        let columns = "k int, c bigint, v bigint, PRIMARY KEY (k, c)";
        node.query(&format!("CREATE TABLE bench_deletions.t ({columns})")).await?;
        let prepare = |text: &str| node.prepare(text);
        Ok(Self {
            way,
            is_flushed,
            insert: prepare("INSERT INTO bench_deletions.t (k, c, v) VALUES (0, ?, ?)")?,
            delete_row: prepare("DELETE FROM bench_deletions.t WHERE k = 0 AND c = ?")?,
            delete_range: prepare(
                "DELETE FROM bench_deletions.t WHERE k = 0 AND c >= ? AND c < ?",
            )?,
            delete_partition: prepare("DELETE FROM bench_deletions.t WHERE k = 0")?,
            select: prepare("SELECT c, v FROM bench_deletions.t WHERE k = 0 LIMIT 10")?,
            node: node.clone(),
        })
    }

    async fn insert(&self, number: u64) -> Result<(), BenchError> {
        self.node.write(&self.insert, &[bigint(number), bigint(number ^ 7)]).await
    }

    async fn measure(self, rows: u64, progress: &mut Progress) -> Result<Figures, BenchError> {
        let mut step = progress.step(self.way.name(), 2 * rows);
        for number in 0..rows + LEFT {
            self.insert(number).await?;
            maybe_yield().await;
            step.at(number);
        }
        if self.is_flushed {
            self.node.database().flush("bench_deletions", None).await?;
        }
        let order = self.order(rows);
        // Earlier work ends before the measurement begins.
        sleep(std::time::Duration::from_millis(50)).await;
        take_stall_report();
        let this = Rc::new(self);
        let began = Instant::now();
        let deletions = order.len().max(1);
        let deleting = this.clone();
        spawn_local(async move { deleting.delete(rows, &order).await }).await?;
        let deletion_ns = began.elapsed().as_secs_f64() * 1e9 / deletions as f64;
        let deletion_stall_us = take_stall_report().longest_us;
        let (median_us, longest_us) = this.read(rows).await?;
        take_stall_report();
        let flushing = this.clone();
        spawn_local(async move { flushing.node.database().flush("bench_deletions", None).await })
            .await?;
        let flush_stall_us = take_stall_report().longest_us;
        Ok(Figures { deletion_ns, deletion_stall_us, median_us, longest_us, flush_stall_us })
    }

    fn order(&self, rows: u64) -> Vec<u64> {
        let mut order: Vec<u64> = match self.way {
            Way::RowsInOrder | Way::RowsShuffled => (0..rows).collect(),
            Way::Range | Way::Partition => Vec::new(),
        };
        if matches!(self.way, Way::RowsShuffled) {
            let mut random = Generator::from_seed(1);
            for index in (1..order.len()).rev() {
                order.swap(index, random.below(index as u64 + 1) as usize);
            }
        }
        order
    }

    async fn delete(&self, rows: u64, order: &[u64]) -> Result<(), BenchError> {
        match self.way {
            Way::RowsInOrder | Way::RowsShuffled => {
                for number in order {
                    self.node.write(&self.delete_row, &[bigint(*number)]).await?;
                    maybe_yield().await;
                }
            }
            Way::Range => {
                self.node.write(&self.delete_range, &[bigint(0), bigint(rows)]).await?;
            }
            Way::Partition => {
                self.node.write(&self.delete_partition, &[]).await?;
                for number in rows..rows + LEFT {
                    self.insert(number).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns the median and the longest time of a read, in µs.
    async fn read(&self, rows: u64) -> Result<(f64, f64), BenchError> {
        let mut times_us = Vec::with_capacity(READS);
        let expected: Vec<u8> = (rows..rows + LEFT)
            .flat_map(|number| [number, number ^ 7])
            .flat_map(|value| [&8i32.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        let began = Instant::now();
        while times_us.len() < READS {
            let one = Instant::now();
            let result = self.node.page(&self.select, &[], 100, None).await?;
            times_us.push(one.elapsed().as_secs_f64() * 1e6);
            if result.content[..] != expected[..] {
                return Err(BenchError::Wrong(format!(
                    "{} deleted: {} rows were read and are not the last {LEFT}",
                    self.way.name(),
                    result.row_count
                )));
            }
            // If each read passes all deleted rows, reads are slow, and a few of them suffice.
            if began.elapsed().as_secs() >= 5 {
                break;
            }
        }
        times_us.sort_by(f64::total_cmp);
        let longest_us = times_us.last().copied().unwrap_or_default();
        Ok((times_us[times_us.len() / 2], longest_us))
    }
}

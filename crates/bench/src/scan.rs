//! `espalier bench scan`: the cost of each row of statements that read a whole table.
//!
//! One shard in this process, without sockets, reads the same rows from the memtable, from a file
//! whose pages are not cached, and again from the file. The measurement checks what each statement
//! returns: counts, sums and values.

use std::{path::Path, rc::Rc};

use bytes::Bytes;
use espalier_cql::{Rows, Value};
use espalier_runtime::{block_on, maybe_yield};

use super::{
    BenchError,
    arguments::ScanArguments,
    node::InProcessNode,
    print_line,
    progress::Progress,
    watch::{Lap, Watch},
};

/// The filter keeps one of this many rows.
const KEPT: u64 = 1000;
/// Rows of a page of `SELECT *`: the default of drivers.
const PAGE_ROWS: i32 = 5000;
/// Bytes of the text in each row.
const TEXT_BYTES: usize = 16;

/// Measures and prints a table.
///
/// # Errors
///
/// Fails if the engine fails, or if a statement returns other rows than those that were written.
pub fn run(arguments: &ScanArguments) -> Result<(), BenchError> {
    block_on(async {
        let node = Rc::new(open(&arguments.node.workdir, arguments.page_cache_bytes).await?);
        let mut progress = Progress::new();
        let outcome = Box::pin(measure(&node, arguments, &mut progress)).await;
        progress.clear();
        outcome.and(InProcessNode::close_shared(node).await)
    })
}

async fn open(directory: &Path, page_cache_bytes: u64) -> Result<InProcessNode, BenchError> {
    InProcessNode::open_with(directory, |configuration| {
        configuration.memtables.bytes = 1 << 40;
        configuration.caches.page_cache_bytes =
            usize::try_from(page_cache_bytes).unwrap_or(usize::MAX);
    })
    .await
}

async fn measure(
    node: &InProcessNode,
    arguments: &ScanArguments,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    node.query(
        "CREATE KEYSPACE bench_scan WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1} AND durable_writes = false",
    )
    .await?;
    node.query("CREATE TABLE bench_scan.t (k bigint, c int, v bigint, t text, PRIMARY KEY (k, c))")
        .await?;
    let table = Table { node, rows: arguments.rows, width: arguments.width };
    table.write(progress).await?;
    print_line(format_args!(
        "{} rows of four columns, {} in each partition; ns of the core for each row read",
        table.rows, table.width
    ))?;
    print_line(format_args!("{:<40} {:>10} {:>14} {:>12}", "", "memtable", "first pass", "again"))?;
    let in_memory = table.laps(arguments.repeated.rounds, progress).await?;
    node.database().flush("bench_scan", None).await?;
    node.database().drop_caches().await;
    let mut first = Vec::new();
    for statement in Statement::ALL {
        node.database().drop_caches().await;
        first.push(table.lap(statement).await?);
    }
    let again = table.laps(arguments.repeated.rounds, progress).await?;
    progress.clear();
    for (index, statement) in Statement::ALL.into_iter().enumerate() {
        let ns = |laps: &[Lap]| {
            let lap = laps.get(index).copied().unwrap_or_default();
            lap.core.as_secs_f64() * 1e9 / table.rows as f64
        };
        print_line(format_args!(
            "{:<40} {:>10.1} {:>14.1} {:>12.1}",
            statement.text(),
            ns(&in_memory),
            ns(&first),
            ns(&again),
        ))?;
    }
    Ok(())
}

/// A statement that reads all rows.
#[derive(Clone, Copy, Debug)]
enum Statement {
    Count,
    Sum,
    Filter,
    Group,
    All,
}

impl Statement {
    const ALL: [Self; 5] = [Self::Count, Self::Sum, Self::Filter, Self::Group, Self::All];

    fn text(self) -> &'static str {
        match self {
            Self::Count => "SELECT count(*) FROM t",
            Self::Sum => "SELECT sum(v), max(t) FROM t",
            Self::Filter => "SELECT * FROM t WHERE v = 7 …",
            Self::Group => "SELECT k, count(*) FROM t GROUP BY k",
            Self::All => "SELECT * FROM t, pages of 5000",
        }
    }

    fn cql(self) -> String {
        let text = self.text().replace(", pages of 5000", "").replace('…', "ALLOW FILTERING");
        text.replace("FROM t", "FROM bench_scan.t")
    }
}

/// The table: row `n` is row `n % width` of partition `n / width`.
struct Table<'n> {
    node: &'n InProcessNode,
    rows: u64,
    width: u64,
}

fn value_of(row: u64) -> u64 {
    row % KEPT
}

fn text_of(row: u64) -> [u8; TEXT_BYTES] {
    let mut text = [b'0'; TEXT_BYTES];
    let mut rest = row;
    for byte in text.iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

impl Table<'_> {
    async fn write(&self, progress: &mut Progress) -> Result<(), BenchError> {
        let insert =
            self.node.prepare("INSERT INTO bench_scan.t (k, c, v, t) VALUES (?, ?, ?, ?)")?;
        let mut step = progress.step("rows are written", self.rows);
        for row in 0..self.rows {
            let bytes = |bytes: &[u8]| Value::Bytes(Bytes::copy_from_slice(bytes));
            let values = [
                bytes(&(row / self.width).to_be_bytes()),
                bytes(&((row % self.width) as u32).to_be_bytes()),
                bytes(&value_of(row).to_be_bytes()),
                bytes(&text_of(row)),
            ];
            self.node.write(&insert, &values).await?;
            maybe_yield().await;
            step.at(row);
        }
        Ok(())
    }

    /// Returns the shortest time of each statement.
    async fn laps(&self, rounds: u32, progress: &mut Progress) -> Result<Vec<Lap>, BenchError> {
        let mut least = Vec::new();
        let mut step = progress.step("the table is read", u64::from(rounds) * 5);
        for (index, statement) in Statement::ALL.into_iter().enumerate() {
            let mut shortest = self.lap(statement).await?;
            for round in 1..rounds {
                step.at(index as u64 * u64::from(rounds) + u64::from(round));
                let lap = self.lap(statement).await?;
                if lap.core < shortest.core {
                    shortest = lap;
                }
            }
            least.push(shortest);
        }
        Ok(least)
    }

    /// Executes a statement page by page, and checks its rows.
    async fn lap(&self, statement: Statement) -> Result<Lap, BenchError> {
        let prepared = self.node.prepare(&statement.cql())?;
        let mut found = Found::default();
        let mut state: Option<Bytes> = None;
        let mut lap = Lap::default();
        loop {
            let watch = Watch::start();
            let page = self.node.page(&prepared, &[], PAGE_ROWS, state.as_deref()).await?;
            lap += watch.lap();
            found.add(statement, &page)?;
            state = page.paging_state;
            if state.is_none() {
                break;
            }
        }
        let expected = self.expected(statement);
        if found != expected {
            let what = format!("{}: {found:?} instead of {expected:?}", statement.text());
            return Err(BenchError::Wrong(what));
        }
        Ok(lap)
    }

    fn expected(&self, statement: Statement) -> Found {
        let sum_of = |row: u64| row + value_of(row);
        match statement {
            Statement::Count => Found { rows: 1, sum: self.rows },
            Statement::Sum => {
                let sum = (0..self.rows).map(value_of).sum::<u64>();
                Found { rows: 1, sum: sum + self.rows - 1 }
            }
            Statement::Filter => {
                let kept = (0..self.rows).filter(|row| value_of(*row) == 7);
                kept.fold(Found::default(), |all, row| all.and(sum_of(row)))
            }
            Statement::Group => {
                let partitions = self.rows.div_ceil(self.width);
                let keys = (0..partitions).sum::<u64>();
                Found { rows: partitions, sum: keys + self.rows }
            }
            Statement::All => {
                (0..self.rows).fold(Found::default(), |all, row| all.and(sum_of(row)))
            }
        }
    }
}

/// The rows that a statement has returned, and a sum over their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    rows: u64,
    sum: u64,
}

impl Found {
    fn and(self, number: u64) -> Self {
        Self { rows: self.rows + 1, sum: self.sum.wrapping_add(number) }
    }

    fn add(&mut self, statement: Statement, page: &Rows) -> Result<(), BenchError> {
        let mut values = Values(&page.content);
        for _ in 0..page.row_count {
            let number = match statement {
                Statement::Count => values.number()?,
                Statement::Sum | Statement::Group => values.number()? + values.number()?,
                Statement::Filter | Statement::All => {
                    // In the order of the table: k, c, t, v.
                    values.number()?;
                    values.number()?;
                    values.number()? + values.number()?
                }
            };
            *self = self.and(number);
        }
        Ok(())
    }
}

/// The values of an answer.
struct Values<'a>(&'a [u8]);

impl Values<'_> {
    /// Reads the next value: a number in binary, or as the digits of a text.
    fn number(&mut self) -> Result<u64, BenchError> {
        let wrong = || BenchError::Wrong("an answer ends too early".to_owned());
        let (length, rest) = self.0.split_first_chunk::<4>().ok_or_else(wrong)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (value, rest) = rest.split_at_checked(length).ok_or_else(wrong)?;
        self.0 = rest;
        let digits = |number: u64, byte: &u8| number * 10 + u64::from(byte - b'0');
        Ok(match length {
            TEXT_BYTES => value.iter().fold(0, digits),
            _ => value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        })
    }
}

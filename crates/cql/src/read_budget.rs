//! Limits on the bytes that statements read before they write. Such a statement keeps its rows in
//! memory, and a short text may name many large rows. One limit applies to a statement, another to
//! all statements of a shard together.
//!
//! A statement reads in pages. It claims the bytes of a page before it reads, so that statements
//! that wait for the disk at the same time count, too. After the page, the statement holds the
//! bytes of the rows in place of the claim. The last row of a page and the static row may exceed
//! the claim, so each statement may exceed the limits by two rows.

use std::cell::Cell;

use espalier_mutation::Row;
use espalier_storage::{Node, PartitionRows, ReadCommand, ReadLimits};

use crate::{Error, ErrorCode, Result};

/// Maximum bytes that one statement or batch may read before it writes (arbitrary), maximum bytes
/// of its answer (drivers accept no more), and maximum bytes that the statements of a batch or
/// transaction may write together (arbitrary).
const MAX_BYTES: usize = 256 << 20;

/// Maximum bytes of all statements of a shard together (arbitrary). At this limit, the shard
/// refuses further statements, and further pages of statements that have begun.
const MAX_SHARD_BYTES: usize = 2 * MAX_BYTES;

/// Minimum bytes of a page (arbitrary). Most statements need no second page, and 32,768 statements
/// of a shard can begin to read at the same time.
const MIN_PAGE_BYTES: usize = 16 << 10;
/// Maximum bytes of a page (arbitrary).
const MAX_PAGE_BYTES: usize = 4 << 20;

thread_local! {
    /// Bytes that the statements of this shard have claimed or hold.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The bytes that a statement has read, and its limits. The budget must live as long as the rows.
#[derive(Debug)]
pub struct ReadBudget {
    /// Bytes that the statement has claimed or holds.
    held: usize,
    max_bytes: usize,
    max_shard_bytes: usize,
}

impl Drop for ReadBudget {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(self.held));
    }
}

impl ReadBudget {
    /// Creates the budget of a statement or batch.
    pub fn new() -> Self {
        Self::with_limits(MAX_BYTES, MAX_SHARD_BYTES)
    }

    fn with_limits(max_bytes: usize, max_shard_bytes: usize) -> Self {
        Self { held: 0, max_bytes, max_shard_bytes }
    }

    /// Executes a read, and subtracts the bytes of the rows from the budget.
    ///
    /// # Errors
    /// The rows exceed the budget, other statements of the shard hold too many rows, or the storage
    /// fails.
    pub async fn read(
        &mut self,
        database: &Node,
        mut command: ReadCommand,
    ) -> Result<Vec<PartitionRows>> {
        let mut partitions: Vec<PartitionRows> = Vec::new();
        loop {
            let claim = self.claim()?;
            let limits = ReadLimits { bytes: claim, ..command.limits };
            let page = database.read(ReadCommand { limits, ..command.clone() }).await?;
            command.limits.rows = command.limits.rows.saturating_sub(page.row_count());
            let bytes = join(&mut partitions, page.partitions);
            self.hold(claim, bytes);
            match page.next.filter(|_| command.limits.rows > 0) {
                Some(next) => command.resume = Some(next),
                None => return Ok(partitions),
            }
        }
    }

    /// Claims the bytes of the next page: 4 times the bytes that the statement holds, within
    /// limits, so that a long read has few pages.
    fn claim(&mut self) -> Result<usize> {
        let left = self.max_bytes.saturating_sub(self.held);
        let left_of_shard = self.max_shard_bytes.saturating_sub(HELD.get());
        if left == 0 {
            return Err(too_large("The rows that the statement reads"));
        }
        if left_of_shard == 0 {
            return Err(crowded());
        }
        let page = self.held.saturating_mul(4).clamp(MIN_PAGE_BYTES, MAX_PAGE_BYTES);
        let claim = page.min(left).min(left_of_shard);
        self.held += claim;
        HELD.set(HELD.get() + claim);
        Ok(claim)
    }

    /// Replaces a claim by the bytes of the rows that a page had.
    fn hold(&mut self, claim: usize, bytes: usize) {
        self.held = self.held - claim + bytes;
        HELD.set(HELD.get() - claim + bytes);
    }
}

/// Appends the partitions of a page, and returns their bytes. If the first partition continues the
/// last partition of the page before, drops the static row of the first partition, because the page
/// before had this row.
fn join(partitions: &mut Vec<PartitionRows>, page: Vec<PartitionRows>) -> usize {
    let mut bytes = 0;
    for mut found in page {
        match partitions.last_mut().filter(|last| last.key == found.key) {
            Some(last) => {
                bytes += found.rows.iter().map(Row::page_bytes).sum::<usize>();
                last.rows.append(&mut found.rows);
            }
            None => {
                bytes += found.bytes();
                partitions.push(found);
            }
        }
    }
    bytes
}

/// Checks the length of an answer in bytes while it is made.
///
/// # Errors
/// The answer is too long.
pub fn check_answer(bytes: usize) -> Result<()> {
    if bytes > MAX_BYTES { Err(too_large("The rows of the answer")) } else { Ok(()) }
}

/// Checks the memory that the changes of a batch or transaction take, while its statements are
/// evaluated. The storage limits the bytes of a mutation, by default to 16 MiB, but it sees a batch
/// only after all its statements are evaluated.
///
/// # Errors
/// The changes are too large.
pub fn check_changes(bytes: usize) -> Result<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let maximum = MAX_BYTES >> 20;
    Err(Error::invalid(format!(
        "The changes of the statements take more than {maximum} MiB of memory; send fewer \
         statements at a time"
    )))
}

#[cold]
fn crowded() -> Error {
    let maximum = MAX_SHARD_BYTES >> 20;
    Error::new(
        ErrorCode::Overloaded,
        format!(
            "Statements that read rows before they write them hold {maximum} MiB on this shard; \
             try again later"
        ),
    )
}

#[cold]
fn too_large(what: &str) -> Error {
    let maximum = MAX_BYTES >> 20;
    Error::invalid(format!("{what} are larger than {maximum} MiB; name fewer rows at a time"))
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::Arc, task::Poll};

    use bytes::Bytes;
    use espalier_mutation::DecoratedKey;
    use espalier_runtime::{ShardContext, block_on, file::FileSystem};
    use espalier_storage::{ReadTarget, SharedStorage, StorageConfiguration};
    use futures_util::future::join;

    use super::*;
    use crate::{ClientState, PreparedCache, QueryOptions, QueryProcessor};

    /// Returns a node, and a read of 40 rows of 20 KiB with a static row, which are on the disk.
    async fn open() -> (Node, ReadCommand) {
        let file_system = FileSystem::simulated(1);
        let context = ShardContext { index: 0, count: 1 };
        let configuration = Arc::new(StorageConfiguration::new("node"));
        let shared = SharedStorage::new();
        let database = Node::open(context, file_system, configuration, shared).await.unwrap();
        let processor = QueryProcessor::new(database.clone(), Arc::new(PreparedCache::default()));
        let execute = async |text: &str| {
            let options = QueryOptions::default();
            processor.query(text, &mut ClientState::default(), &options).await.unwrap();
        };
        execute(
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
        .await;
        execute("CREATE TABLE ks.t (k int, c int, s text static, v text, PRIMARY KEY (k, c))")
            .await;
        let value = "x".repeat(20 << 10);
        for row in 0..40 {
            let text = format!("INSERT INTO ks.t (k, c, s, v) VALUES (1, {row}, 's', '{value}')");
            execute(&text).await;
        }
        database.flush("ks", None).await.unwrap();
        database.drop_caches().await;
        let table = database.store().schema().table("ks", "t").unwrap().clone();
        let key = DecoratedKey::new(Bytes::copy_from_slice(&1i32.to_be_bytes()));
        (database, ReadCommand::of_all(table, ReadTarget::Partition(key), 0))
    }

    #[test]
    fn a_read_counts_while_it_waits() {
        block_on(async {
            let (database, command) = open().await;
            let mut first = ReadBudget::with_limits(1 << 20, MIN_PAGE_BYTES);
            let mut reading = Box::pin(first.read(&database, command.clone()));
            let poll = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context).is_pending()));
            assert!(poll.await, "the rows are in memory");
            assert_eq!(HELD.get(), MIN_PAGE_BYTES);
            let mut second = ReadBudget::with_limits(1 << 20, MIN_PAGE_BYTES);
            let error = second.read(&database, command).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::Overloaded);
            drop(reading);
            drop(first);
            assert_eq!(HELD.get(), 0);
        });
    }

    #[test]
    fn two_reads_at_once_share_the_limit_of_the_shard() {
        block_on(async {
            let (database, command) = open().await;
            let mut budgets = [ReadBudget::with_limits(1 << 20, 1 << 20), ReadBudget::new()];
            budgets[1].max_shard_bytes = 1 << 20;
            let [first, second] = &mut budgets;
            let outcomes = join(
                first.read(&database, command.clone()),
                second.read(&database, command.clone()),
            )
            .await;
            let refused = [outcomes.0.is_err(), outcomes.1.is_err()];
            assert!(refused.contains(&true), "1,600 KiB are held with a limit of 1,024");
            // Each may exceed the limit by the last row of a page.
            assert!(HELD.get() <= (1 << 20) + (42 << 10), "{} bytes", HELD.get());
            drop(budgets);
            assert_eq!(HELD.get(), 0);
        });
    }

    #[test]
    fn pages_are_joined_and_end_at_the_limit_of_the_statement() {
        block_on(async {
            let (database, command) = open().await;
            let mut budget = ReadBudget::new();
            let found = budget.read(&database, command.clone()).await.unwrap();
            assert_eq!(found, database.read(command.clone()).await.unwrap().partitions);
            assert_eq!(budget.held, found[0].bytes());
            assert_eq!(HELD.get(), budget.held);
            drop(budget);
            let mut small = ReadBudget::with_limits(400 << 10, MAX_SHARD_BYTES);
            let limits = ReadLimits { rows: 10, ..ReadLimits::NONE };
            let few = ReadCommand { limits, ..command.clone() };
            assert_eq!(small.read(&database, few).await.unwrap()[0].rows.len(), 10);
            let error = small.read(&database, command).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::Invalid);
            assert!(small.held <= 421 << 10, "{} bytes", small.held);
            drop(small);
            assert_eq!(HELD.get(), 0);
        });
    }
}

//! A table of wide partitions and the operations on it. Every row that is read is compared with the
//! row that was written.

use std::{rc::Rc, sync::Arc, time::Duration};

use espalier_cql::Prepared;
use espalier_runtime::{maybe_yield, time::sleep};

use super::super::{BenchError, InProcessNode, Progress, answer, bigint};

/// A table and its statements.
pub(super) struct Wide {
    pub(super) node: Rc<InProcessNode>,
    insert: Arc<Prepared>,
    delete: Arc<Prepared>,
    select: Arc<Prepared>,
    select_all: Arc<Prepared>,
}

impl Wide {
    /// Creates the table.
    pub(super) async fn create(
        node: &Rc<InProcessNode>,
        table: &str,
    ) -> Result<Rc<Self>, BenchError> {
        let columns = "k bigint, c bigint, v bigint, PRIMARY KEY (k, c)";
        let table = format!("bench_cache.{table}");
        node.query(&format!("CREATE TABLE {table} ({columns})")).await?;
        Ok(Rc::new(Self {
            insert: node.prepare(&format!("INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)"))?,
            delete: node.prepare(&format!("DELETE FROM {table} WHERE k = ? AND c < ?"))?,
            select: node.prepare(&format!("SELECT v FROM {table} WHERE k = ? LIMIT 10"))?,
            select_all: node.prepare(&format!("SELECT v FROM {table} WHERE k = ?"))?,
            node: node.clone(),
        }))
    }

    /// Scans a small table, so that the cache has a continuous range of partitions, which it has to
    /// maintain from then on.
    pub(super) async fn cache_a_range_of_partitions(&self) -> Result<(), BenchError> {
        let node = &self.node;
        node.query("CREATE TABLE bench_cache.small (k bigint PRIMARY KEY, v bigint)").await?;
        node.query("INSERT INTO bench_cache.small (k, v) VALUES (1, 1)").await?;
        self.flush().await?;
        let select = node.prepare("SELECT v FROM bench_cache.small")?;
        let mut misses = Vec::new();
        for _ in 0..2 {
            let page = node.page(&select, &[], 100, None).await?;
            if page.content[..] != answer(1)[..] {
                return Err(BenchError::Wrong("the small table".to_owned()));
            }
            misses.push(node.database().store().row_cache().metrics().reads_with_misses);
        }
        if misses[0] == misses[1] {
            Ok(())
        } else {
            Err(BenchError::Wrong("a scan of a small table was not kept".to_owned()))
        }
    }

    /// Forgets all cached rows, and waits until none is left.
    pub(super) async fn forget(&self) -> Result<(), BenchError> {
        self.node.database().forget_cached_rows().await;
        while self.node.database().store().row_cache().metrics().rows > 0 {
            maybe_yield().await;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    pub(super) async fn write(
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

    pub(super) async fn delete(&self, partition: u64, below: u64) -> Result<(), BenchError> {
        self.node.write(&self.delete, &[bigint(partition), bigint(below)]).await
    }

    pub(super) async fn flush(&self) -> Result<(), BenchError> {
        Ok(self.node.database().flush("bench_cache", None).await?)
    }

    pub(super) async fn flush_owned(self: Rc<Self>) -> Result<(), BenchError> {
        self.flush().await
    }

    pub(super) async fn read_all(
        &self,
        partition: u64,
        rows: u64,
        salt: u64,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        progress.step("a partition is read", rows);
        self.read_pages(partition, rows, salt).await
    }

    /// Reads a partition from its beginning to its end and compares every row.
    pub(super) async fn read_pages(
        &self,
        partition: u64,
        rows: u64,
        salt: u64,
    ) -> Result<(), BenchError> {
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
        if next == rows { Ok(()) } else { Err(BenchError::Wrong(format!("{next} rows of {rows}"))) }
    }

    /// Checks that the first ten rows of a partition are row `first` and the nine rows after it.
    pub(super) async fn expect_first(
        &self,
        partition: u64,
        first: u64,
        salt: u64,
    ) -> Result<(), BenchError> {
        let page = self.node.page(&self.select, &[bigint(partition)], 100, None).await?;
        let expected: Vec<u8> = (first..first + 10).flat_map(|row| answer(row ^ salt)).collect();
        if page.content[..] == expected[..] {
            Ok(())
        } else {
            Err(BenchError::Wrong(format!("{} rows behind {first}", page.row_count)))
        }
    }

    pub(super) fn expect_cached(&self, rows: u64) -> Result<(), BenchError> {
        let metrics = self.node.database().store().row_cache().metrics();
        if metrics.rows >= rows {
            Ok(())
        } else {
            Err(BenchError::Wrong(format!("{metrics:?} is not {rows} rows")))
        }
    }
}

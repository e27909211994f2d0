//! `espalier bench indexes`: measures how long the flush and the compaction of a table with three
//! secondary indexes hold the core.
//!
//! The indexes are on a regular column, on a collection and on a clustering column. A further row
//! has a large collection. The INSERT, flush and compaction of this row are measured in the same
//! table and in a table without indexes, for comparison, because a flush or a compaction handles a
//! row in one step in any case. Queries by each index count the rows that the measurement wrote.

use std::{rc::Rc, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use espalier_cql::{Prepared, QueryResult, Value};
use espalier_runtime::{block_on, maybe_yield};

use super::{
    BenchError,
    arguments::IndexesArguments,
    node::InProcessNode,
    progress::Progress,
    stalls::{self, Round, Stall, watch},
};

const KEYSPACE: &str = "bench_indexes";
/// Rows of a partition.
const ROWS: u64 = 10;
/// Elements of the collection of a row.
const ELEMENTS: u64 = 4;
/// Different values of the regular column and of the elements.
const VALUES: u64 = 1000;

/// Measures and prints.
///
/// # Errors
///
/// Fails if the engine fails, if an index finds other rows than were written, or if a task holds
/// the core for too long.
pub fn run(arguments: &IndexesArguments) -> Result<(), BenchError> {
    block_on(async {
        let mut rounds = Vec::new();
        for _ in 0..arguments.repeated.rounds {
            let node = Rc::new(InProcessNode::open(&arguments.node.workdir, 1 << 40).await?);
            let mut progress = Progress::new();
            let outcome = Box::pin(measure(&node, arguments, &mut progress)).await;
            progress.clear();
            let closed = InProcessNode::close_shared(node).await;
            rounds.push(Round(outcome?));
            closed?;
        }
        stalls::print(&[&rounds], arguments.max_us)
    })
}

async fn measure(
    node: &Rc<InProcessNode>,
    arguments: &IndexesArguments,
    progress: &mut Progress,
) -> Result<Vec<Stall>, BenchError> {
    node.query(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}} AND durable_writes = false"
    ))
    .await?;
    let mut stalls = Vec::new();
    let indexed = Table::create(node, "indexed", &["v", "s", "c"]).await?;
    let rows = arguments.rows;
    for half in [0..rows / 2, rows / 2..rows] {
        let count = half.end - half.start;
        indexed.write(half, progress).await?;
        let this = indexed.clone();
        let what = format!("flush of {count} rows with three indexes");
        stalls.push(watch(what, async move { this.flush().await }).await?);
    }
    let this = indexed.clone();
    let what = format!("compaction of {rows} rows with three indexes");
    stalls.push(watch(what, async move { this.compact().await }).await?);
    indexed.expect(rows).await?;
    let plain = Table::create(node, "plain", &[]).await?;
    for (table, indexes) in [(plain, "no"), (indexed, "three")] {
        stalls.extend(large(&table, arguments.elements, indexes).await?);
    }
    Ok(stalls)
}

/// Measures a row with a large collection.
async fn large(table: &Rc<Table>, elements: u64, indexes: &str) -> Result<Vec<Stall>, BenchError> {
    let mut stalls = Vec::new();
    for part in [0, 1] {
        let this = table.clone();
        let what = format!("INSERT of {elements} elements, {indexes} indexes");
        let elements = part * elements..(part + 1) * elements;
        stalls.push(watch(what, async move { this.write_large(elements).await }).await?);
        let this = table.clone();
        let what = format!("flush of them, {indexes} indexes");
        stalls.push(watch(what, async move { this.flush().await }).await?);
    }
    let this = table.clone();
    let what = format!("compaction of them, {indexes} indexes");
    stalls.push(watch(what, async move { this.compact().await }).await?);
    Ok(stalls)
}

/// A table and its statements.
struct Table {
    node: Rc<InProcessNode>,
    name: String,
    insert: Arc<Prepared>,
    update: Arc<Prepared>,
}

impl Table {
    async fn create(
        node: &Rc<InProcessNode>,
        name: &str,
        indexed: &[&str],
    ) -> Result<Rc<Self>, BenchError> {
        let full_name = format!("{KEYSPACE}.{name}");
        node.query(&format!(
            "CREATE TABLE {full_name} (k bigint, c bigint, v bigint, s set<bigint>, \
             PRIMARY KEY (k, c)) WITH compaction = {{'class': 'SizeTieredCompactionStrategy', \
             'enabled': 'false'}}"
        ))
        .await?;
        for column in indexed {
            node.query(&format!("CREATE INDEX ON {full_name} ({column})")).await?;
        }
        let insert = format!("INSERT INTO {full_name} (k, c, v, s) VALUES (?, ?, ?, ?)");
        let update = format!("UPDATE {full_name} SET s = s + ? WHERE k = ? AND c = ?");
        Ok(Rc::new(Self {
            insert: node.prepare(&insert)?,
            update: node.prepare(&update)?,
            node: node.clone(),
            name: name.to_owned(),
        }))
    }

    async fn write(
        &self,
        rows: std::ops::Range<u64>,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        let mut step = progress.step("rows written", rows.end);
        for row in rows {
            let elements = set((0..ELEMENTS).map(|element| (row + element) % VALUES));
            let values = [bigint(row / ROWS), bigint(row % ROWS), bigint(row % VALUES), elements];
            self.node.write(&self.insert, &values).await?;
            maybe_yield().await;
            step.at(row);
        }
        Ok(())
    }

    /// Adds elements to the collection of a row that [`Self::write`] does not write.
    async fn write_large(&self, elements: std::ops::Range<u64>) -> Result<(), BenchError> {
        let elements = set(elements.map(|element| VALUES + element));
        self.node.write(&self.update, &[elements, bigint(u64::MAX >> 1), bigint(ROWS)]).await
    }

    async fn flush(&self) -> Result<(), BenchError> {
        Ok(self.node.database().flush(KEYSPACE, Some(&self.name)).await?)
    }

    async fn compact(&self) -> Result<(), BenchError> {
        let compactions = self.node.database().compactions();
        Ok(compactions.compact(KEYSPACE, Some(&self.name), false).await?)
    }

    /// Checks the number of rows that each index finds.
    async fn expect(&self, rows: u64) -> Result<(), BenchError> {
        let of = |value: u64| (0..rows).filter(|row| row % VALUES == value).count() as u64;
        let with_element: u64 = (0..ELEMENTS).map(|element| of(VALUES - 1 - element)).sum();
        let last = (0..rows).filter(|row| row % ROWS == ROWS - 1).count() as u64;
        for (condition, expected) in [
            (format!("v = {}", VALUES - 1), of(VALUES - 1)),
            (format!("s CONTAINS {}", VALUES - 1), with_element),
            (format!("c = {}", ROWS - 1), last),
        ] {
            let name = &self.name;
            let before = self.node.database().store().metrics().reads.by_index;
            let count = format!("SELECT count(*) FROM {KEYSPACE}.{name} WHERE {condition}");
            let QueryResult::Rows(found) = self.node.query(&count).await? else { continue };
            let found = found.content.last_chunk().copied().map_or(0, u64::from_be_bytes);
            let by_index = self.node.database().store().metrics().reads.by_index - before;
            if found != expected || by_index == 0 {
                return Err(BenchError::Wrong(format!(
                    "{condition}: {found} of {expected} rows, {by_index} reads by index"
                )));
            }
        }
        Ok(())
    }
}

fn bigint(number: u64) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&number.to_be_bytes()))
}

/// Returns a set in the protocol's form.
fn set(elements: impl Iterator<Item = u64>) -> Value {
    let elements: Vec<u64> = elements.collect();
    let mut bytes = BytesMut::new();
    bytes.put_u32(elements.len() as u32);
    for element in elements {
        bytes.put_u32(8);
        bytes.put_u64(element);
    }
    Value::Bytes(bytes.freeze())
}

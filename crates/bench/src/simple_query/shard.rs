//! One shard of the measurement: its node, its statements, and a loop over random entries.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use espalier_cql::{Prepared, Value};
use espalier_mutation::Token;
use espalier_runtime::perf::InstructionCounter;
use espalier_runtime::random::Generator;
use espalier_runtime::time::Instant;
use espalier_runtime::{
    ShardContext, allocation::thread_allocations, maybe_yield, shard_of_token, spawn_local,
};

use super::arguments::SimpleQueryArguments;
use super::entries::{Entries, ExpectedRow};
use super::figures::Iteration;
use crate::BenchError;
use crate::node::{Found, InProcessNode};
use crate::watch::Watch;

/// Number of entries that a task chooses at once. After each such block, the task checks whether it
/// must end.
const BLOCK: u64 = 32;

/// The keyspace of the table.
pub const KEYSPACE: &str = "ks";

/// A shard with its table and statements.
pub struct Shard {
    node: Rc<InProcessNode>,
    context: ShardContext,
    entries: Entries,
    insert: Arc<Prepared>,
    update: Arc<Prepared>,
    select: Arc<Prepared>,
    arguments: Arc<SimpleQueryArguments>,
    instructions: Option<InstructionCounter>,
}

thread_local! {
    static SHARD: RefCell<Option<Rc<Shard>>> = const { RefCell::new(None) };
}

/// The condition on which a task ends.
#[derive(Clone, Copy)]
enum Until {
    Time(Instant),
    Operations(u64),
}

impl Shard {
    /// Creates the table, once for all shards.
    pub async fn create_table(
        node: &InProcessNode,
        arguments: &SimpleQueryArguments,
    ) -> Result<(), BenchError> {
        node.query(&format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
             'replication_factor': 1}} \
             AND durable_writes = false"
        ))
        .await?;
        let columns: Vec<_> = (0..arguments.columns).map(|at| format!("c{at} blob")).collect();
        node.query(&format!(
            "CREATE TABLE {KEYSPACE}.cf (key blob PRIMARY KEY, {}) WITH compression = {}",
            columns.join(", "),
            arguments.compression.option(),
        ))
        .await?;
        Ok(())
    }

    /// Creates the calling shard's state, which [`Shard::here`] returns from then on.
    pub fn install(
        node: Rc<InProcessNode>,
        context: ShardContext,
        arguments: Arc<SimpleQueryArguments>,
    ) -> Result<(), BenchError> {
        let entries = Entries {
            count: arguments.partitions,
            columns: usize::from(arguments.columns),
            value_bytes: arguments.value_bytes as usize,
        };
        let names: Vec<_> = (0..entries.columns).map(|at| format!("c{at}")).collect();
        let names = names.join(", ");
        let marks = vec!["?"; entries.columns].join(", ");
        let insert =
            node.prepare(&format!("INSERT INTO {KEYSPACE}.cf (key, {names}) VALUES (?, {marks})"))?;
        let condition = if arguments.conditional { " IF c0 = ?" } else { "" };
        let update =
            node.prepare(&format!("UPDATE {KEYSPACE}.cf SET c0 = ? WHERE key = ?{condition}"))?;
        let bypass = if arguments.bypass_cache { " BYPASS CACHE" } else { "" };
        let select =
            node.prepare(&format!("SELECT {names} FROM {KEYSPACE}.cf WHERE key = ?{bypass}"))?;
        let instructions = InstructionCounter::of_this_thread().ok();
        let shard =
            Self { node, context, entries, insert, update, select, arguments, instructions };
        SHARD.set(Some(Rc::new(shard)));
        Ok(())
    }

    /// Returns the calling shard's state.
    pub fn here() -> Result<Rc<Self>, BenchError> {
        let missing = || BenchError::Wrong("a shard was asked before it was ready".to_owned());
        SHARD.with_borrow(Clone::clone).ok_or_else(missing)
    }

    /// Drops the calling shard's state.
    pub fn release() {
        SHARD.set(None);
    }

    /// Writes the entries that this shard owns.
    pub async fn fill(&self) -> Result<(), BenchError> {
        for number in 0..self.entries.count {
            let token = Token::of(&Entries::key(number));
            if shard_of_token(token.0, self.context.count) == self.context.index {
                self.node.write(&self.insert, &self.entries.values(number)).await?;
            }
            maybe_yield().await;
        }
        Ok(())
    }

    /// Runs one iteration of this shard.
    pub async fn iterate(self: Rc<Self>, seed: u64) -> Result<Iteration, BenchError> {
        let tasks = u64::from(self.arguments.concurrency);
        let pages = self.node.database().store().metrics();
        let allocations = thread_allocations();
        let instructions = self.instructions.as_ref().and_then(InstructionCounter::read);
        let watch = Watch::start();
        let end = Until::Time(Instant::now() + Duration::from_secs(1));
        let handles: Vec<_> = (0..tasks)
            .map(|task| {
                let until = match self.arguments.operations_per_shard {
                    Some(all) => Until::Operations(all / tasks + u64::from(task < all % tasks)),
                    None => end,
                };
                spawn_local(self.clone().run(seed.wrapping_add(task << 32), until))
            })
            .collect();
        let mut operations = 0;
        for handle in handles {
            operations += handle.await?;
        }
        let lap = watch.lap();
        let counted = self.instructions.as_ref().and_then(InstructionCounter::read);
        let after = self.node.database().store().metrics();
        Ok(Iteration {
            operations,
            clock: lap.clock,
            core: lap.core,
            allocations: thread_allocations() - allocations,
            page_hits: after.page_cache.hits - pages.page_cache.hits,
            page_reads: after.page_cache.misses - pages.page_cache.misses,
            instructions: counted.zip(instructions).map(|(after, before)| after - before),
        })
    }

    /// Runs one task.
    async fn run(self: Rc<Self>, seed: u64, until: Until) -> Result<u64, BenchError> {
        let mut random = Generator::from_seed(seed);
        let mut expected = ExpectedRow::new(self.entries);
        let mut numbers = Vec::with_capacity(BLOCK as usize);
        let mut operations = 0;
        loop {
            let count = match until {
                Until::Time(end) if Instant::now() >= end => return Ok(operations),
                Until::Operations(all) if all == operations => return Ok(operations),
                Until::Time(_) => BLOCK,
                Until::Operations(all) => BLOCK.min(all - operations),
            };
            numbers.clear();
            numbers.extend((0..count).map(|_| random.below(self.entries.count)));
            if self.arguments.write {
                self.write(&self.insert, &numbers, |number| self.entries.values(number)).await?
            } else if self.arguments.update {
                self.write(&self.update, &numbers, |number| self.update_values(number)).await?
            } else {
                self.read(&numbers, &mut expected).await?
            }
            operations += count;
        }
    }

    /// Returns the values of the UPDATE: the present value of the column, the key, and with a
    /// condition the value of the column again.
    fn update_values(&self, number: u64) -> Vec<Value> {
        let mut values = self.entries.values(number);
        values.truncate(2);
        values.reverse();
        if self.arguments.conditional {
            values.extend(values.first().cloned());
        }
        values
    }

    async fn write(
        &self,
        statement: &Arc<Prepared>,
        numbers: &[u64],
        values_of: impl Fn(u64) -> Vec<Value>,
    ) -> Result<(), BenchError> {
        if self.arguments.pipelined == 1 {
            for &number in numbers {
                self.node.write(statement, &values_of(number)).await?;
                maybe_yield().await;
            }
            return Ok(());
        }
        for numbers in numbers.chunks(self.arguments.pipelined as usize) {
            let values: Vec<_> = numbers.iter().map(|number| values_of(*number)).collect();
            self.node.look_ahead(statement, values.iter().map(|values| &values[..]));
            for values in &values {
                self.node.write(statement, values).await?;
                maybe_yield().await;
            }
        }
        Ok(())
    }

    async fn read(&self, numbers: &[u64], expected: &mut ExpectedRow) -> Result<(), BenchError> {
        let is_absent = self.arguments.absent;
        let behind = if is_absent { self.entries.count } else { 0 };
        // One allocation holds the keys of a block. On a connection it is the same: the keys are
        // slices of its read buffer.
        let keys: Vec<u8> =
            numbers.iter().flat_map(|number| Entries::key(number + behind)).collect();
        let keys = Bytes::from(keys);
        let key = |at: usize| [Value::Bytes(keys.slice(8 * at..8 * at + 8))];
        let pipelined = self.arguments.pipelined as usize;
        for (at, &number) in numbers.iter().enumerate() {
            if pipelined > 1 && at.is_multiple_of(pipelined) {
                let ahead: Vec<_> = (at..numbers.len().min(at + pipelined)).map(key).collect();
                self.node.look_ahead(&self.select, ahead.iter().map(|key| &key[..]));
            }
            let key = key(at);
            let found = self.node.read(&self.select, &key, expected.of(number)).await?;
            let wanted = if is_absent { Found::Nothing } else { Found::Expected };
            if found != wanted {
                let reason = format!("entry {number}: {wanted:?} was expected, found {found:?}");
                return Err(BenchError::Wrong(reason));
            }
            maybe_yield().await;
        }
        Ok(())
    }

    /// Returns the node.
    pub fn node(&self) -> &InProcessNode {
        &self.node
    }
}

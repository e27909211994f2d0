//! `espalier bench vectors`: the share of the nearest rows that a search by an index on vectors
//! finds, and the time of the search, in the memtable, in a flushed SSTable and in a compacted one.
//! The time of the first query includes reads of pages that later queries find in the cache.
//!
//! The vectors are random, which is the hardest case for a graph: no vector is much nearer than the
//! others. The measurement finds the nearest rows by comparing all vectors with the query.

use std::{sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use espalier_cql::{Prepared, Value};
use espalier_runtime::{block_on, maybe_yield, random::Generator, time::Instant};
use espalier_storage::Top;
use espalier_types::Similarity;

use super::{
    BenchError, arguments::VectorsArguments, node::InProcessNode, print_line, progress::Progress,
};

const KEYSPACE: &str = "bench_vectors";

/// Bytes of a row of the result: the length of the key, and the key.
const ROW_BYTES: usize = 8;

/// Measures and prints a table.
///
/// # Errors
///
/// Fails if the engine fails, or if the searches find too few of the nearest rows.
pub fn run(arguments: &VectorsArguments) -> Result<(), BenchError> {
    block_on(async {
        let node = InProcessNode::open(&arguments.node.workdir, 1 << 40).await?;
        let mut progress = Progress::new();
        let outcome = Box::pin(measure(&node, arguments, &mut progress)).await;
        progress.clear();
        outcome.and(node.close().await)
    })
}

async fn measure(
    node: &InProcessNode,
    arguments: &VectorsArguments,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    node.query(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}} AND durable_writes = false"
    ))
    .await?;
    print_line(format_args!(
        "{} random vectors, ORDER BY v ANN OF ? LIMIT {}, {} queries, {}",
        arguments.vectors,
        arguments.limit,
        arguments.queries,
        arguments.similarity.to_uppercase()
    ))?;
    print_line(format_args!(
        "{:>10} {:<22} {:>9} {:>10} {:>10} {:>10} {:>12}",
        "dimensions", "rows are in", "recall", "first us", "median us", "p99 us", "made in s"
    ))?;
    for dimension in &arguments.dimensions {
        let table = Table::create(node, *dimension, arguments, progress).await?;
        table.measure(arguments, progress).await?;
    }
    Ok(())
}

/// A table of random vectors, and queries with their answers.
struct Table<'n> {
    node: &'n InProcessNode,
    dimension: usize,
    select: Arc<Prepared>,
    queries: Vec<(Vec<f32>, Vec<i32>)>,
    write_time: Duration,
}

impl<'n> Table<'n> {
    async fn create(
        node: &'n InProcessNode,
        dimension: usize,
        arguments: &VectorsArguments,
        progress: &mut Progress,
    ) -> Result<Table<'n>, BenchError> {
        let name = format!("{KEYSPACE}.d{dimension}");
        node.query(&format!(
            "CREATE TABLE {name} (k int PRIMARY KEY, v vector<float, {dimension}>)"
        ))
        .await?;
        node.query(&format!(
            "CREATE INDEX ON {name} (v) USING 'sai' WITH OPTIONS = {{'similarity_function': '{}'}}",
            arguments.similarity
        ))
        .await?;
        let insert = node.prepare(&format!("INSERT INTO {name} (k, v) VALUES (?, ?)"))?;
        let select = format!("SELECT k FROM {name} ORDER BY v ANN OF ? LIMIT {}", arguments.limit);
        let select = node.prepare(&select)?;
        let mut random = Generator::from_seed(dimension as u64);
        let mut vector =
            || -> Vec<f32> { (0..dimension).map(|_| component(&mut random)).collect() };
        let similarity = Similarity::from_name(&arguments.similarity);
        let similarity = similarity.unwrap_or(Similarity::Cosine);
        let mut queries: Vec<(Vec<f32>, Top<i32>)> =
            (0..arguments.queries).map(|_| (vector(), Top::new(arguments.limit))).collect();
        let mut step = progress.step("writing", u64::from(arguments.vectors));
        let mut write_time = Duration::ZERO;
        for key in 0..arguments.vectors.cast_signed() {
            let written = vector();
            for (query, nearest) in &mut queries {
                nearest.push(similarity.of(query, &written).unwrap_or(f32::NAN), key);
            }
            let values = [Bytes::copy_from_slice(&key.to_be_bytes()), serialised(&written)];
            let began = Instant::now();
            node.write(&insert, &values.map(Value::Bytes)).await?;
            write_time += began.elapsed();
            maybe_yield().await;
            step.at(u64::from(key.cast_unsigned()));
        }
        let keys = |nearest: Top<i32>| {
            nearest.finish(i32::cmp).0.into_iter().map(|(_, key)| key).collect()
        };
        let queries = queries.into_iter().map(|(query, nearest)| (query, keys(nearest))).collect();
        Ok(Table { node, dimension, select, queries, write_time })
    }

    async fn measure(
        &self,
        arguments: &VectorsArguments,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        let database = self.node.database();
        let mut made_in = self.write_time;
        for place in ["the memtable", "a flushed SSTable", "a compacted SSTable"] {
            let began = Instant::now();
            match place {
                "a flushed SSTable" => database.flush(KEYSPACE, None).await?,
                "a compacted SSTable" => {
                    database.compactions().compact(KEYSPACE, None, false).await?
                }
                _ => {}
            }
            if place != "the memtable" {
                made_in = began.elapsed();
            }
            let recall = self.query(place, made_in, progress).await?;
            if recall * 100.0 < f64::from(arguments.min_recall) {
                return Err(BenchError::Wrong(format!(
                    "the searches in {place} found {recall:.3} of the nearest rows, fewer than {} %",
                    arguments.min_recall
                )));
            }
        }
        Ok(())
    }

    /// Runs all queries, and prints a line. Returns the share of the nearest rows that were found.
    async fn query(
        &self,
        place: &str,
        made_in: Duration,
        progress: &mut Progress,
    ) -> Result<f64, BenchError> {
        let (mut times, mut right, mut wanted) = (Vec::new(), 0, 0);
        let mut first = None;
        let mut step = progress.step(place, self.queries.len() as u64);
        // The first round reads the pages. Its first query finds none of a new SSTable's pages in
        // the cache.
        for is_measured in [false, true] {
            for (number, (query, nearest)) in self.queries.iter().enumerate() {
                let values = [Value::Bytes(serialised(query))];
                let began = Instant::now();
                let rows = self.node.page(&self.select, &values, 5000, None).await?;
                let time = began.elapsed();
                first.get_or_insert(time);
                maybe_yield().await;
                step.at(number as u64);
                if !is_measured {
                    continue;
                }
                times.push(time);
                wanted += nearest.len();
                let found = rows.content.chunks_exact(ROW_BYTES);
                let found = found.filter_map(|row| row.last_chunk().copied());
                let found = found.map(i32::from_be_bytes);
                right += found.filter(|key| nearest.contains(key)).count();
            }
        }
        progress.clear();
        times.sort_unstable();
        let at = |part: f64| {
            let index = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
            times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        let recall = right as f64 / wanted.max(1) as f64;
        print_line(format_args!(
            "{:>10} {place:<22} {recall:>9.3} {:>10.0} {:>10.0} {:>10.0} {:>12.2}",
            self.dimension,
            first.unwrap_or_default().as_secs_f64() * 1e6,
            at(0.5),
            at(0.99),
            made_in.as_secs_f64()
        ))?;
        Ok(recall)
    }
}

/// Returns a number between -1 and 1.
fn component(random: &mut Generator) -> f32 {
    (random.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0
}

fn serialised(vector: &[f32]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(size_of_val(vector));
    vector.iter().for_each(|x| bytes.put_f32(*x));
    bytes.freeze()
}

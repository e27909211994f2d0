//! What a scan leaves of a hot set: the experiment of scylladb#29391, with clustering keys. A skewed client reads 60,000 rows while
//! 300,000 others are read once, through a cache that holds 100,000.

use std::rc::Rc;

use espalier_runtime::{maybe_yield, random::Generator};

use super::{super::node::Found, BenchError, InProcessNode, Progress, answer, bigint, print_line};

const HOT: u64 = 60_000;
const SCANNED: u64 = 300_000;
const HELD: u64 = 100_000;
/// Rows of a partition.
const WIDTH: u64 = 1000;

pub(super) async fn measure(
    node: &Rc<InProcessNode>,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    let columns = "k bigint, c bigint, v bigint, PRIMARY KEY (k, c)";
    node.query(&format!("CREATE TABLE bench_cache.scan ({columns})")).await?;
    let insert = node.prepare("INSERT INTO bench_cache.scan (k, c, v) VALUES (?, ?, ?)")?;
    let select = node.prepare("SELECT v FROM bench_cache.scan WHERE k = ? AND c = ?")?;
    let select_all = node.prepare("SELECT v FROM bench_cache.scan WHERE k = ?")?;
    let mut step = progress.step("rows are written", HOT + SCANNED);
    for row in 0..HOT + SCANNED {
        node.write(&insert, &[bigint(row / WIDTH), bigint(row % WIDTH), bigint(row)]).await?;
        maybe_yield().await;
        step.at(row);
    }
    node.database().flush("bench_cache", None).await?;

    // What the scanned rows take says how much 100,000 of them are.
    for partition in HOT / WIDTH..(HOT + HELD) / WIDTH {
        node.page(&select_all, &[bigint(partition)], WIDTH as i32 + 1, None).await?;
    }
    let metrics = node.database().row_cache_metrics();
    let limit = (metrics.used_bytes * HELD / metrics.rows.max(1)) as usize;
    node.database().forget_cached_rows().await;
    while node.database().row_cache_metrics().rows > 0 {
        espalier_runtime::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    node.database().set_row_cache_limit(limit);

    let mut random = Generator::from_seed(7);
    // Zipf's law with exponent 1, by inversion: the n-th of HOT is read in proportion to 1 / n.
    let mut hot = move || {
        let uniform = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        ((HOT as f64).powf(uniform) as u64 - 1).min(HOT - 1)
    };
    let read = async |row: u64| -> Result<(), BenchError> {
        let values = [bigint(row / WIDTH), bigint(row % WIDTH)];
        match node.read(&select, &values, &answer(row)).await? {
            Found::Expected => Ok(()),
            other => Err(BenchError::Wrong(format!("row {row}: {other:?}"))),
        }
    };
    // The client alone, until it has what it wants.
    for _ in 0..20 * HOT {
        read(scattered(hot())).await?;
        maybe_yield().await;
    }
    let hits_alone = hit_rate(node, &read, &mut hot, 5 * HOT, None, &select_all).await?;
    let hits_beside = hit_rate(node, &read, &mut hot, 5 * HOT, Some(SCANNED), &select_all).await?;
    let metrics = node.database().row_cache_metrics();
    progress.clear();
    print_line(format_args!(
        "{HOT} hot rows read by a skewed client, {SCANNED} others read once, room for {HELD} ({limit} bytes)\n\
         hits of the client alone          {:>8.3} %\n\
         hits of the client during a scan  {:>8.3} %   (rows evicted in all: {})",
        hits_alone * 100.0,
        hits_beside * 100.0,
        metrics.row_evictions,
    ))
}

/// Popular rows lie everywhere among the hot ones.
fn scattered(rank: u64) -> u64 {
    rank.wrapping_mul(7919) % HOT
}

/// The share of the client's reads that were answered from memory, while a scan goes on beside.
async fn hit_rate(
    node: &Rc<InProcessNode>,
    read: &impl AsyncFn(u64) -> Result<(), BenchError>,
    hot: &mut impl FnMut() -> u64,
    reads: u64,
    scanned: Option<u64>,
    select_all: &std::sync::Arc<espalier_cql::Prepared>,
) -> Result<f64, BenchError> {
    let partitions = scanned.map_or(0, |rows| rows / WIDTH);
    let mut misses = 0;
    let mut next = 0;
    for number in 0..reads {
        let before = node.database().row_cache_metrics().reads_with_misses;
        read(scattered(hot())).await?;
        misses += node.database().row_cache_metrics().reads_with_misses - before;
        while next < partitions && next * reads < number * partitions {
            let partition = HOT / WIDTH + next;
            let page = node.page(select_all, &[bigint(partition)], WIDTH as i32 + 1, None).await?;
            if page.row_count as u64 != WIDTH {
                return Err(BenchError::Wrong(format!("{} rows", page.row_count)));
            }
            next += 1;
        }
        maybe_yield().await;
    }
    Ok(1.0 - misses as f64 / reads as f64)
}

//! Measures the part of a hot set that stays cached during a scan: the experiment of
//! scylladb#29391, with clustering keys.
//!
//! The cache has room for 100,000 rows. A client reads 60,000 rows, some much more often than
//! others. During these reads, another task reads 300,000 other rows once by the keys of their
//! partitions, and then the whole table once by `SELECT`.

use std::{rc::Rc, sync::Arc};

use espalier_cql::Prepared;
use espalier_runtime::{maybe_yield, random::Generator};

use super::{
    super::node::Found, BenchError, CacheArguments, InProcessNode, Progress, Verdicts, answer,
    bigint, print_line,
};

const HOT: u64 = 60_000;
const SCANNED: u64 = 300_000;
const HELD: u64 = 100_000;
/// Rows of a partition.
const WIDTH: u64 = 1000;

/// The client's hits, in percent, with the size of the cache and the number of evicted rows.
pub(super) struct Figures {
    limit_bytes: usize,
    hits_alone: f64,
    hits_beside_keys: f64,
    hits_beside_scan: f64,
    evictions: u64,
}

/// The work that runs beside the client.
enum Beside {
    Nothing,
    /// Reads each of the other partitions by its key.
    Keys(Arc<Prepared>),
    /// Reads all of the table, page by page.
    Scan(Arc<Prepared>),
}

pub(super) async fn measure(
    node: &Rc<InProcessNode>,
    progress: &mut Progress,
) -> Result<Figures, BenchError> {
    let columns = "k bigint, c bigint, v bigint, PRIMARY KEY (k, c)";
    node.query(&format!("CREATE TABLE bench_cache.scan ({columns})")).await?;
    let insert = node.prepare("INSERT INTO bench_cache.scan (k, c, v) VALUES (?, ?, ?)")?;
    let select = node.prepare("SELECT v FROM bench_cache.scan WHERE k = ? AND c = ?")?;
    let select_all = node.prepare("SELECT v FROM bench_cache.scan WHERE k = ?")?;
    let scan = node.prepare("SELECT v FROM bench_cache.scan")?;
    let mut step = progress.step("rows are written", HOT + SCANNED);
    for row in 0..HOT + SCANNED {
        node.write(&insert, &[bigint(row / WIDTH), bigint(row % WIDTH), bigint(row)]).await?;
        maybe_yield().await;
        step.at(row);
    }
    node.database().flush("bench_cache", None).await?;

    // The limit is computed from the memory of these cached rows.
    for partition in HOT / WIDTH..(HOT + HELD) / WIDTH {
        node.page(&select_all, &[bigint(partition)], WIDTH as i32 + 1, None).await?;
    }
    let metrics = node.database().store().row_cache().metrics();
    let limit = (metrics.used_bytes * HELD / metrics.rows.max(1)) as usize;
    node.database().forget_cached_rows().await;
    while node.database().store().row_cache().metrics().rows > 0 {
        espalier_runtime::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    node.database().store().row_cache().set_limit(limit);

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
    // The client runs alone until its hot set is cached.
    for _ in 0..20 * HOT {
        read(scattered(hot())).await?;
        maybe_yield().await;
    }
    let mut rates = [0.0; 3];
    let all = [Beside::Nothing, Beside::Keys(select_all), Beside::Scan(scan)];
    for (rate, beside) in rates.iter_mut().zip(all) {
        *rate = 100.0 * hit_rate(node, &read, &mut hot, 5 * HOT, &beside).await?;
    }
    let [hits_alone, hits_beside_keys, hits_beside_scan] = rates;
    let evictions = node.database().store().row_cache().metrics().row_evictions;
    Ok(Figures { limit_bytes: limit, hits_alone, hits_beside_keys, hits_beside_scan, evictions })
}

impl Figures {
    pub(super) fn print(
        &self,
        arguments: &CacheArguments,
        verdicts: &mut Verdicts,
    ) -> Result<(), BenchError> {
        let Self { limit_bytes, hits_alone, hits_beside_keys, hits_beside_scan, evictions } = self;
        print_line(format_args!(
            "{HOT} hot rows read by a skewed client, {SCANNED} others read once, room for {HELD} \
             ({limit_bytes} bytes)\n\
             hits of the client alone                    {hits_alone:>8.3} %\n\
             hits while others are read by their keys    {hits_beside_keys:>8.3} %\n\
             hits while all of the table is scanned      {hits_beside_scan:>8.3} %   (rows evicted \
             in all: {evictions})",
        ))?;
        let least = f64::from(arguments.min_hits);
        verdicts.at_least(
            "hits in percent, beside reads of others by their keys",
            *hits_beside_keys,
            least,
        )?;
        verdicts.at_least("hits in percent, beside a scan of the table", *hits_beside_scan, least)
    }
}

/// Spreads popular rows over all of the hot rows.
fn scattered(rank: u64) -> u64 {
    rank.wrapping_mul(7919) % HOT
}

/// Returns the share of the client's reads that were answered from memory while `beside` runs.
async fn hit_rate(
    node: &Rc<InProcessNode>,
    read: &impl AsyncFn(u64) -> Result<(), BenchError>,
    hot: &mut impl FnMut() -> u64,
    reads: u64,
    beside: &Beside,
) -> Result<f64, BenchError> {
    let pages = match beside {
        Beside::Nothing => 0,
        Beside::Keys(_) => SCANNED / WIDTH,
        Beside::Scan(_) => (HOT + SCANNED) / WIDTH,
    };
    let (mut misses, mut next, mut rows) = (0, 0, 0);
    let mut paging: Option<Vec<u8>> = None;
    for number in 0..reads {
        let before = node.database().store().row_cache().metrics().reads_with_misses;
        read(scattered(hot())).await?;
        misses += node.database().store().row_cache().metrics().reads_with_misses - before;
        while next < pages && next * reads < number * pages {
            let page = match beside {
                Beside::Nothing => break,
                Beside::Keys(select) => {
                    let partition = [bigint(HOT / WIDTH + next)];
                    node.page(select, &partition, WIDTH as i32 + 1, None).await?
                }
                Beside::Scan(select) => {
                    node.page(select, &[], WIDTH as i32, paging.as_deref()).await?
                }
            };
            rows += page.row_count as u64;
            paging = page.paging_state.as_ref().map(|state| state.to_vec());
            next += 1;
        }
        maybe_yield().await;
    }
    if rows == pages * WIDTH {
        Ok(1.0 - misses as f64 / reads as f64)
    } else {
        Err(BenchError::Wrong(format!("{rows} rows of {}", pages * WIDTH)))
    }
}

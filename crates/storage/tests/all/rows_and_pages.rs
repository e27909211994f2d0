//! Rows and pages share memory: the part with more repeated misses gets more of it.

use std::sync::Arc;

use espalier_mutation::schema::{TableId, TableMetadata};
use espalier_runtime::{file::FileSystem, random::Generator};
use espalier_storage::Node;
use uuid::Uuid;

use crate::support::*;

const BUDGET: u64 = 1 << 19;
const MAX_ROW_BYTES: u64 = BUDGET / 4 * 3;
/// Number of hot reads between two adjustments of the split.
const READS: u64 = 500;
/// Number of rows that are read by pages. Nine of them fill a chunk of 16 KiB.
const PAGED: u64 = 7500;
const HOT_PAGES: u64 = 12;
/// Number of rows that are cached. Each takes some 400 bytes in the row cache.
const ROWS: u64 = 7500;
const HOT_ROWS: u64 = 600;

struct Caches {
    database: Node,
    /// Table whose rows are not cached.
    of_pages: Arc<TableMetadata>,
    of_rows: Arc<TableMetadata>,
    random: Generator,
    cold: u64,
}

async fn fill(database: &Node, table: &TableMetadata, count: u64, value_bytes: usize) {
    let value = "v".repeat(value_bytes);
    for number in 0..count {
        let name = format!("p{number}");
        database.apply(insert(table, &name, None, 1, &[("v", &value)])).await.unwrap();
    }
}

impl Caches {
    async fn open(file_system: &FileSystem) -> Self {
        let mut settings = configuration();
        settings.caches.page_cache_bytes = BUDGET as usize;
        settings.caches.row_cache_bytes = MAX_ROW_BYTES as usize;
        let database = open(file_system, settings).await.unwrap();
        let (mut paged, mut rows) = (narrow_table(), narrow_table());
        paged.options.caching.insert("enabled".into(), "false".into());
        (rows.name, rows.id) = ("rows".into(), TableId(Uuid::from_u128(0xa9)));
        create(&database, vec![paged, rows]).await;
        let (of_pages, of_rows) = (table(&database, "narrow"), table(&database, "rows"));
        fill(&database, &of_pages, PAGED, 1800).await;
        fill(&database, &of_rows, ROWS, 300).await;
        database.flush("ks", None).await.unwrap();
        Self { database, of_pages, of_rows, random: Generator::from_seed(1), cold: 0 }
    }

    async fn read_page(&self, number: u64) {
        let name = format!("p{number}");
        assert!(read_partition(&self.database, &self.of_pages, &name).await.is_some());
    }

    async fn read_row(&self, number: u64) {
        let name = format!("p{number}");
        assert!(read_partition(&self.database, &self.of_rows, &name).await.is_some());
    }

    fn page_misses(&self) -> u64 {
        self.database.store().metrics().page_cache.data.misses
    }

    fn row_misses(&self) -> u64 {
        self.database.store().row_cache().metrics().row_misses
    }

    fn border(&self) -> u64 {
        self.database.store().row_cache().metrics().limit_bytes
    }

    /// Reads hot pages in rounds, and after every 20 of them as many rows of a long cycle. Returns
    /// the number of misses of a round, as the mean of the last rounds.
    async fn hot_pages(&mut self, rounds: u64) -> u64 {
        let mut all = Vec::new();
        for _ in 0..rounds {
            let mut misses = 0;
            for _ in 0..READS / 20 {
                let before = self.page_misses();
                for _ in 0..20 {
                    let number = self.random.below(HOT_PAGES);
                    self.read_page(number).await;
                }
                misses += self.page_misses() - before;
                for _ in 0..20 {
                    self.cold += 1;
                    self.read_row(HOT_ROWS + self.cold % (ROWS - HOT_ROWS)).await;
                }
            }
            all.push(misses);
            self.database.store().row_cache().split_memory().await;
        }
        mean_of_last(&all)
    }

    /// Reads hot rows in rounds, and a page of a long cycle after each of them. Returns the misses
    /// as [`Self::hot_pages`] does.
    async fn hot_rows(&mut self, rounds: u64) -> u64 {
        let mut all = Vec::new();
        for _ in 0..rounds {
            let before = self.row_misses();
            for _ in 0..READS {
                let number = self.random.below(HOT_ROWS);
                self.read_row(number).await;
                self.cold += 1;
                self.read_page(HOT_PAGES + self.cold % (PAGED - HOT_PAGES)).await;
            }
            all.push(self.row_misses() - before);
            self.database.store().row_cache().split_memory().await;
        }
        mean_of_last(&all)
    }
}

/// Returns the mean of the last fifth, or the last value.
fn mean_of_last(misses: &[u64]) -> u64 {
    let last = &misses[misses.len() - (misses.len() / 5).max(1)..];
    last.iter().sum::<u64>() / last.len() as u64
}

#[test]
fn memory_moves_between_row_and_page_cache_with_the_hot_set() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut caches = Caches::open(&file_system).await;
        let rounds = if espalier_testing::runs_all() { 50 } else { 30 };
        let repetitions = if espalier_testing::runs_all() { 2 } else { 1 };
        for round in 0..repetitions {
            // The rows of the long cycle fill so much memory that they push the pages out.
            let (first, settled) = (caches.hot_pages(3).await, caches.hot_pages(rounds).await);
            println!("round {round}: pages {first} {settled}, border {}", caches.border());
            assert!(settled < READS / 10, "{settled}");
            assert!(round > 0 || first > READS / 4, "{first}");
            assert!(caches.border() < MAX_ROW_BYTES / 2, "{}", caches.border());
            let (first, settled) = (caches.hot_rows(3).await, caches.hot_rows(rounds).await);
            println!("round {round}: rows {first} {settled}, border {}", caches.border());
            assert!(settled < READS / 10, "{settled}");
            assert!(round > 0 || first > READS / 4, "{first}");
            assert!(caches.border() > MAX_ROW_BYTES / 2, "{}", caches.border());
        }
        let used = caches.database.store().metrics();
        assert!(
            used.page_cache.used_bytes + used.row_cache.used_bytes <= BUDGET + 4096,
            "{used:?}"
        );
    });
}

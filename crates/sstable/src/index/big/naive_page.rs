//! This test compares the speed of flat pages with that of a naive page. A naive page has an object
//! for each entry, and each object owns its key.
//!
//!     cargo test --release -p espalier-sstable --lib naive_page -- --ignored --nocapture

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, DecoratedKeyRef, Token};
use espalier_runtime::{random::Generator, time::Instant};
use hashbrown::HashMap;

use super::{
    flat_page::{FlatEntry, FlatPage, FlatPageBuilder},
    partition_index::{PartitionIndexWriter, decode_head_for_test},
};

struct NaiveEntry {
    key: DecoratedKey,
    entry: FlatEntry,
}

#[allow(clippy::vec_box)] // The box for each entry is the cost that the test measures.
struct NaivePage(Vec<Box<NaiveEntry>>);

/// A cache of pages by their numbers, smaller than the index. It evicts the oldest page first.
struct Ring<P> {
    budget: usize,
    used: usize,
    pages: HashMap<usize, (P, usize)>,
    order: VecDeque<usize>,
    made: u64,
}

impl<P> Ring<P> {
    fn new(budget: usize) -> Self {
        let (pages, order) = (HashMap::new(), VecDeque::new());
        Self { budget, used: 0, pages, order, made: 0 }
    }

    fn get(&mut self, number: usize, make: impl FnOnce() -> (P, usize)) -> &P {
        if !self.pages.contains_key(&number) {
            let (page, bytes) = make();
            while self.used + bytes > self.budget
                && let Some(oldest) = self.order.pop_front()
                && let Some((_, bytes)) = self.pages.remove(&oldest)
            {
                self.used -= bytes;
            }
            self.used += bytes;
            self.order.push_back(number);
            self.pages.insert(number, (page, bytes));
            self.made += 1;
        }
        &self.pages[&number].0
    }
}

struct Index {
    bytes: Bytes,
    keys: Vec<DecoratedKey>,
    /// Start, end and tokens of each interval.
    intervals: Vec<(usize, usize, (Token, Token))>,
}

const ENTRIES_OF_A_PAGE: usize = 800;

fn index(count: usize) -> Index {
    let mut keys: Vec<_> = (0..count as u64)
        .map(|number| {
            let key = [number.wrapping_mul(0x9E37_79B9_7F4A_7C15), number];
            DecoratedKey::new(Bytes::from(key.map(u64::to_be_bytes).concat()))
        })
        .collect();
    keys.sort();
    let (mut bytes, mut writer) = (Vec::new(), PartitionIndexWriter::new());
    let mut starts = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let position = writer.append(&mut bytes, &key.key, number as u64 * 40, None).unwrap();
        if number % ENTRIES_OF_A_PAGE == 0 {
            starts.push((position as usize, key.token));
        }
    }
    starts.push((bytes.len(), keys[keys.len() - 1].token));
    let intervals = starts.windows(2).map(|pair| (pair[0].0, pair[1].0, (pair[0].1, pair[1].1)));
    Index { intervals: intervals.collect(), bytes: bytes.into(), keys }
}

fn parse(index: &Index, number: usize, mut each: impl FnMut(&[u8], FlatEntry)) {
    let (mut at, end, _) = index.intervals[number];
    while at < end {
        let (key, data_position, next) = decode_head_for_test(&index.bytes, at);
        let (position, next_position) = (at as u64, next as u64);
        let entry = FlatEntry { data_position, position, promoted: None, next_position };
        each(&index.bytes[key.0..key.1], entry);
        at = next;
    }
}

fn flat(index: &Index, number: usize) -> (Bytes, usize) {
    let mut page = FlatPageBuilder::new(index.intervals[number].0 as u64);
    parse(index, number, |key, entry| assert!(page.add(key, &entry)));
    let page = page.finish();
    let length = page.len();
    (page, length)
}

fn naive(index: &Index, number: usize) -> (NaivePage, usize) {
    let mut page = Vec::new();
    parse(index, number, |key, entry| {
        let key = DecoratedKey::new(Bytes::copy_from_slice(key));
        page.push(Box::new(NaiveEntry { key, entry }));
    });
    // The size as an allocator gives it: an entry, and a key of its own.
    let bytes = page.len() * (8 + size_of::<NaiveEntry>() + 32);
    (NaivePage(page), bytes)
}

fn find_flat(index: &Index, ring: &mut Ring<Bytes>, which: usize) -> FlatEntry {
    let number = which / ENTRIES_OF_A_PAGE;
    let (start, end, tokens) = index.intervals[number];
    let page = ring.get(number, || flat(index, number));
    let key = index.keys[which].borrowed();
    FlatPage::new(page).unwrap().find(key, tokens, start as u64, end as u64).unwrap()
}

fn find_naive(index: &Index, ring: &mut Ring<NaivePage>, which: usize) -> FlatEntry {
    let number = which / ENTRIES_OF_A_PAGE;
    let key: DecoratedKeyRef<'_> = index.keys[which].borrowed();
    let page = ring.get(number, || naive(index, number));
    let found = page.0.binary_search_by(|entry| entry.key.borrowed().compare(key)).unwrap();
    page.0[found].entry
}

#[test]
fn flat_and_naive_pages_find_the_same_entries() {
    let index = index(10_000);
    let (mut flat, mut naive) = (Ring::new(100_000), Ring::new(100_000));
    let mut random = Generator::from_seed(1);
    for _ in 0..500 {
        let which = random.below(10_000) as usize;
        let found = find_flat(&index, &mut flat, which);
        assert_eq!(found, find_naive(&index, &mut naive, which));
        assert_eq!(found.data_position, which as u64 * 40);
    }
    assert!(flat.made < naive.made, "the cache must hold more flat pages than naive ones");
}

#[test]
#[ignore = "a measurement: see the head of the file"]
fn flat_pages_beat_objects_where_the_index_is_larger_than_the_cache() {
    const COUNT: usize = 1_000_000;
    let index = index(COUNT);
    let budget = index.bytes.len() / 4;
    let measure = |mut look_up: Box<dyn FnMut(usize) + '_>| {
        let mut random = Generator::from_seed(2);
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            for _ in 0..10_000 {
                look_up(random.below(COUNT as u64) as usize);
            }
            best = best.min(began.elapsed());
        }
        10_000.0 / best.as_secs_f64()
    };
    let (mut flat, mut naive) = (Ring::new(budget), Ring::new(budget));
    let flat_rate = measure(Box::new(|which| {
        std::hint::black_box(find_flat(&index, &mut flat, which));
    }));
    let naive_rate = measure(Box::new(|which| {
        std::hint::black_box(find_naive(&index, &mut naive, which));
    }));
    let ratio = flat_rate / naive_rate;
    println!(
        "{COUNT} partitions, {ENTRIES_OF_A_PAGE} in a page, a cache of a quarter of Index.db: flat {flat_rate:.0} look-ups/s ({} pages \
         made), an object for each entry {naive_rate:.0}/s ({}), ratio {ratio:.1}",
        flat.made, naive.made
    );
    assert!(ratio >= 4.2, "{ratio}");
}

//! Searches of graphs whose pages are cached, missing, or both.

use espalier_runtime::trace::{Trace, traced};

use super::*;

/// Makes vectors with many components that depend on only four numbers, so that a search of a graph
/// needs only a small width.
fn vectors_of_four_numbers(seed: u64, count: usize) -> Vec<Vec<f32>> {
    let component = |of: &[f32], index: usize| of[index % 4] * (1.0 + index as f32 / 100.0);
    let numbers = random_vectors(seed, count, 4);
    numbers.iter().map(|of| (0..100).map(|index| component(of, index)).collect()).collect()
}

type Outcome = (Vec<Neighbor>, f32, bool);

/// Returns the outcome of a search, and the numbers of cache hits and misses.
async fn search(index: &VectorIndex<'_>, query: &[f32]) -> (Outcome, u64, u64) {
    let before = index.file.cache().metrics();
    let search = NearestSearch { count: 31, width: 0, widths: 1, graph_cost: GRAPH.graph_cost };
    let NearestNodes { found, error, is_cut } = index.nearest(query, search).await.unwrap();
    let after = index.file.cache().metrics();
    ((found, error, is_cut), after.hits - before.hits, after.misses - before.misses)
}

#[test]
fn searches_agree_whether_their_pages_are_cached_or_not() {
    let (vectors, queries) = (vectors_of_four_numbers(1, 600), vectors_of_four_numbers(2, 10));
    block_on(async {
        let (file_system, similarity) = (FileSystem::simulated(1), Similarity::Euclidean);
        let (component, checksums) = written(&file_system, similarity, &vectors, &GRAPH).await;
        let index = opened(&file_system, &component, &checksums).await.unwrap();
        let (private, shared) = (index.vectors(true).unwrap(), index.vectors(false).unwrap());
        let is_narrow = |segment: &Segment| segment.links.is_some_and(|links| links.width <= 128);
        assert!(shared.description.segments.iter().all(is_narrow));
        let cache = shared.file.cache();
        for query in &queries {
            let (expected, ..) = search(&private, query).await;
            assert_eq!(expected.0.len(), 31);
            // About half of the pages fit, so some pages are cached and others are missing.
            cache.set_budget(100_000);
            let (mixed, hits, misses) = search(&shared, query).await;
            assert_eq!(mixed, expected);
            assert!(hits > 0 && misses > 0, "{hits}, {misses}");
            // Each search counts each use of a page once.
            let uses = hits + misses;
            cache.set_budget(16 << 20);
            let (filling, hits, misses) = search(&shared, query).await;
            assert_eq!((filling, hits + misses), (expected.clone(), uses));
            assert_eq!(search(&shared, query).await, (expected.clone(), uses, 0));
            let trace = Trace::new(None);
            let outcome = traced(Some(trace.clone()), search(&shared, query)).await;
            assert_eq!(outcome, (expected, uses, 0));
            let (log, hit) = (trace.take_log(), "Page cache hit: ");
            let reported = log.events().iter().filter(|event| event.text.starts_with(hit)).count();
            // A trace takes 2000 events.
            assert!(reported as u64 >= uses.min(1000), "{reported} of {uses}");
        }
    });
}

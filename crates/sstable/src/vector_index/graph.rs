//! The graph of near vectors. DiskANN's Vamana builds it, one vector after the other.
//!
//! 1. A search from the entry finds the nodes near the new node, and the nodes on the way to them.
//! 2. [`prune`] chooses the new node's links among these: first the nearest node, then each node
//!    whose distance to every chosen node, times [`ALPHA_SQUARE`], is more than its distance to the
//!    new node. So some links are short and some are long.
//! 3. Each chosen node gets a link back. A node with too many links chooses its links again.
//! 4. [`build`] leaves out [`SAMPLES`] vectors that are spread over the segment. It searches for
//!    them with growing widths, and the segment keeps the least width that finds nearly all of
//!    their nearest vectors. Then [`build`] inserts them. Clustered vectors need a small width;
//!    random vectors need a large one.
//! 5. At the end, [`link_unreachable`] walks the graph from the entry. Each node that the walk does
//!    not meet gets a link from the nearest node that has room. Every node reserves room for one
//!    such link, so the walk always finds a node with room.
//!
//! Memory: the codes, and [`MAX_LINKS`] + 2 numbers of four bytes for each node. One step takes
//! some microseconds, and the builder yields between steps.

use espalier_runtime::maybe_yield;

use super::{beam::Beam, codes::Codes, rows::ChunkedRows, top::Top};

/// Maximum number of links that a node chooses.
const LINKS: usize = 32;
/// Maximum number of links of a node.
pub(super) const MAX_LINKS: usize = 40;
/// Maximum number of links of a node, links back included. If it gets one more, the node chooses
/// its links again. The last place is reserved for a link to an unreachable node.
const MAX_LINKS_BACK: usize = MAX_LINKS - 1;
/// The width of the searches during the construction. Cassandra's default is 100, too.
const BEAM_WIDTH: usize = 100;
/// The square of alpha, because distances are squares. DiskANN's own value is 1.44. With it, nodes
/// of word vectors link to little more than their nearest nodes, and searches need four times the
/// width.
const ALPHA_SQUARE: f32 = 1.1;

/// Number of vectors that measure the graph.
const SAMPLES: usize = 128;
/// Minimum number of vectors of a graph that the construction measures.
const MIN_MEASURED: usize = 4 * SAMPLES;
/// Number of nearest vectors of a sample that a search should find.
const NEAREST: usize = 10;
/// Number of best nodes of a search that should include the nearest vectors. A query with LIMIT 10
/// reads this number of rows.
const READ: usize = 31;
/// The share of the nearest vectors that the searches should find. It is above the goal of 95 %,
/// because the samples are few.
const WANTED_SHARE: f64 = 0.96;
/// The widths that the construction tries.
const WIDTHS: [u32; 11] = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];

/// A graph over the vectors of a segment.
pub(super) struct Graph {
    /// The node at which searches begin.
    pub(super) entry: u32,
    /// The width that searches need; `u32::MAX` if none of [`WIDTHS`] is enough.
    pub(super) width: u32,
    /// For each node, the number of its links, and the links.
    links: ChunkedRows<u32>,
}

impl Graph {
    /// Returns the links of a node.
    pub(super) fn links(&self, node: u32) -> &[u32] {
        let row = self.links.row(node as usize);
        let count = row.first().map_or(0, |count| *count as usize);
        row.get(1..=count).unwrap_or_default()
    }

    fn set_links(&mut self, node: u32, links: &[u32]) {
        let row = self.links.row_mut(node as usize);
        if let Some((count, places)) = row.split_first_mut() {
            *count = links.len().min(places.len()) as u32;
            for (place, link) in places.iter_mut().zip(links) {
                *place = *link;
            }
        }
    }

    /// Adds a link. Returns false, and adds none, if the node has `max` links already.
    fn add_link(&mut self, node: u32, link: u32, max: usize) -> bool {
        let row = self.links.row_mut(node as usize);
        let Some((count, places)) = row.split_first_mut() else { return false };
        let Some(places) = places.get_mut(..max) else { return false };
        let Some(place) = places.get_mut(*count as usize) else { return false };
        *place = link;
        *count += 1;
        true
    }
}

/// Builds a graph over all vectors.
pub(super) async fn build(codes: &Codes) -> Graph {
    let links = ChunkedRows::new(MAX_LINKS + 1);
    let mut graph = Graph { entry: 0, width: WIDTHS[0], links };
    for _ in 0..codes.len() {
        graph.links.push([0; MAX_LINKS + 1]);
        maybe_yield().await;
    }
    let mut scratch = Scratch::new(codes.len());
    let samples = spread_samples(codes.len());
    for node in 1..codes.len() as u32 {
        if samples.binary_search(&node).is_err() {
            insert(&mut graph, codes, node, &mut scratch).await;
        }
        maybe_yield().await;
    }
    if !samples.is_empty() {
        graph.width = needed_width(&graph, codes, &samples, &mut scratch).await;
    }
    for node in samples {
        insert(&mut graph, codes, node, &mut scratch).await;
        maybe_yield().await;
    }
    if !link_unreachable(&mut graph, codes, &mut scratch).await {
        graph.width = u32::MAX;
    }
    graph
}

/// Returns the nodes that measure a graph, in ascending order; none if the graph is not measured.
/// They are spread over the segment, because its vectors come in the order of the table: vectors of
/// one partition follow each other and are often alike. The entry is not among them.
fn spread_samples(nodes: usize) -> Vec<u32> {
    if nodes < MIN_MEASURED {
        return Vec::new();
    }
    (0..SAMPLES).map(|sample| ((2 * sample + 1) * nodes / (2 * SAMPLES)) as u32).collect()
}

/// Links each node that is not reachable from the entry. Returns whether the entry then reaches all
/// nodes.
async fn link_unreachable(graph: &mut Graph, codes: &Codes, scratch: &mut Scratch) -> bool {
    let mut reached = vec![false; codes.len()];
    // The node that was linked last has room, because it has no link to an unreachable node yet.
    let mut last = graph.entry;
    reach(graph, last, &mut reached).await;
    let mut are_all_linked = true;
    for node in 0..codes.len() as u32 {
        if reached.get(node as usize) == Some(&false) {
            scratch.search(graph, codes, node).await;
            let mut near = scratch.beam.nodes().map(|(_, near)| near).chain([last]);
            are_all_linked &= near.any(|near| graph.add_link(near, node, MAX_LINKS));
            reach(graph, node, &mut reached).await;
            last = node;
        }
        maybe_yield().await;
    }
    are_all_linked
}

/// Marks all nodes that are reachable from a node. The walk does not go beyond marked nodes.
async fn reach(graph: &Graph, from: u32, reached: &mut [bool]) {
    let mut ahead = vec![from];
    while let Some(node) = ahead.pop() {
        if reached.get_mut(node as usize).is_some_and(|mark| !std::mem::replace(mark, true)) {
            ahead.extend_from_slice(graph.links(node));
        }
        maybe_yield().await;
    }
}

/// Buffers that all insertions share.
struct Scratch {
    beam: Beam,
    /// The number of the last search that met each node.
    met_by: Vec<u32>,
    search: u32,
    near: Vec<(f32, u32)>,
    /// The nodes that the present search has met by the links of one node.
    fresh: Vec<u32>,
    chosen: Vec<u32>,
}

impl Scratch {
    fn new(nodes: usize) -> Self {
        Self {
            beam: Beam::new(BEAM_WIDTH),
            met_by: vec![0; nodes],
            search: 0,
            near: Vec::new(),
            fresh: Vec::with_capacity(MAX_LINKS),
            chosen: Vec::new(),
        }
    }

    /// Marks a node. Returns whether the present search meets it for the first time.
    fn meet(&mut self, node: u32) -> bool {
        match self.met_by.get_mut(node as usize) {
            Some(last) => std::mem::replace(last, self.search) != self.search,
            None => false,
        }
    }

    /// Searches for the nodes near `node`. Afterwards, the beam holds them, and `near` holds all
    /// nodes whose links the search followed.
    ///
    /// The codes of all links of a node are prefetched before the first one is compared, because
    /// they are anywhere in memory.
    async fn search(&mut self, graph: &Graph, codes: &Codes, node: u32) {
        let from = codes.code_of(node);
        self.search += 1;
        self.beam.clear();
        self.near.clear();
        self.beam.add(codes.distance(from, graph.entry), graph.entry);
        self.meet(graph.entry);
        while let Some((distance, near)) = self.beam.expand() {
            self.near.push((distance, near));
            self.fresh.clear();
            for link in graph.links(near) {
                if self.meet(*link) {
                    codes.prefetch(*link);
                    self.fresh.push(*link);
                }
            }
            for link in &self.fresh {
                self.beam.add(codes.distance(from, *link), *link);
            }
            maybe_yield().await;
        }
    }
}

/// Returns the least of [`WIDTHS`] with which searches find nearly all nearest vectors of the
/// samples; `u32::MAX` if there is none. The samples are nodes in ascending order, to which the
/// graph has no links yet.
async fn needed_width(graph: &Graph, codes: &Codes, samples: &[u32], scratch: &mut Scratch) -> u32 {
    let mut with_nearest = Vec::with_capacity(samples.len());
    for sample in samples {
        let (mut top, from) = (Top::new(NEAREST), codes.code_of(*sample));
        for node in 0..codes.len() as u32 {
            if samples.binary_search(&node).is_err() {
                top.push(-codes.distance(from, node), node);
            }
            maybe_yield().await;
        }
        let nearest: Vec<u32> = top.finish(u32::cmp).0.into_iter().map(|(_, node)| node).collect();
        with_nearest.push((*sample, nearest));
    }
    let insertions = std::mem::replace(&mut scratch.beam, Beam::new(0));
    let mut needed = u32::MAX;
    for width in WIDTHS {
        scratch.beam = Beam::new(width as usize);
        let (mut found, mut wanted) = (0, 0);
        for (sample, nearest) in &with_nearest {
            scratch.search(graph, codes, *sample).await;
            let read: Vec<u32> = scratch.beam.nodes().take(READ).map(|(_, node)| node).collect();
            found += nearest.iter().filter(|node| read.contains(node)).count();
            wanted += nearest.len();
        }
        if f64::from(found as u32) >= WANTED_SHARE * f64::from(wanted as u32) {
            needed = width;
            break;
        }
    }
    scratch.beam = insertions;
    needed
}

async fn insert(graph: &mut Graph, codes: &Codes, node: u32, scratch: &mut Scratch) {
    scratch.search(graph, codes, node).await;
    prune(codes, &mut scratch.near, &mut scratch.chosen).await;
    graph.set_links(node, &scratch.chosen);
    let chosen = std::mem::take(&mut scratch.chosen);
    for link in &chosen {
        if !graph.add_link(*link, node, MAX_LINKS_BACK) {
            let near = graph.links(*link).iter().chain([&node]);
            let from = codes.code_of(*link);
            scratch.near.clear();
            scratch.near.extend(near.map(|near| (codes.distance(from, *near), *near)));
            prune(codes, &mut scratch.near, &mut scratch.chosen).await;
            graph.set_links(*link, &scratch.chosen);
        }
    }
    scratch.chosen = chosen;
}

/// Chooses links among near nodes. `near` has their distances.
async fn prune(codes: &Codes, near: &mut [(f32, u32)], chosen: &mut Vec<u32>) {
    near.sort_unstable_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    chosen.clear();
    for (distance, node) in near.iter() {
        if chosen.len() >= LINKS {
            return;
        }
        let from = codes.code_of(*node);
        let is_far = |other: &u32| ALPHA_SQUARE * codes.distance(from, *other) > *distance;
        if chosen.iter().all(is_far) {
            chosen.push(*node);
        }
        maybe_yield().await;
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, random::Generator};
    use espalier_types::Similarity;

    use super::*;

    #[test]
    fn all_nodes_are_reachable_though_many_are_nearly_equal() {
        let mut random = Generator::from_seed(5);
        let mut codes = Codes::new(Similarity::Euclidean, vec![0.0; 8]);
        for index in 0..1200_u32 {
            // Half of the codes differ only by the last bits of their scales.
            let mut vector = [1.0, 0.5, -0.5, 0.25, 0.1, -1.0, 0.3, 0.7];
            match index % 2 {
                0 => vector = vector.map(|x| x * (1.0 + index as f32 * f32::EPSILON)),
                _ => vector = vector.map(|_| (random.next_u64() >> 40) as f32 / 1e7),
            }
            codes.push(&vector);
        }
        assert!(codes.len() > 1000, "{}", codes.len());
        block_on(async {
            let graph = build(&codes).await;
            let mut reached = vec![false; codes.len()];
            reach(&graph, graph.entry, &mut reached).await;
            assert!(reached.iter().all(|mark| *mark));
        });
    }

    const CLUSTERS: usize = 30;
    const IN_CLUSTER: usize = MAX_LINKS;

    /// Returns codes in the order of clusters that are far from each other.
    fn clustered_codes() -> Codes {
        let mut random = Generator::from_seed(6);
        let mut next = || (random.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let mut codes = Codes::new(Similarity::Euclidean, vec![0.0; 16]);
        for _ in 0..CLUSTERS {
            let middle: Vec<f32> = (0..16).map(|_| 8.0 * next()).collect();
            for _ in 0..IN_CLUSTER {
                let vector: Vec<f32> = middle.iter().map(|x| x + next()).collect();
                codes.push(&vector);
            }
        }
        assert_eq!(codes.len(), CLUSTERS * IN_CLUSTER);
        codes
    }

    #[test]
    fn a_graph_without_most_clusters_is_measured_as_useless() {
        let codes = clustered_codes();
        let nodes = codes.len() as u32;
        let samples = spread_samples(codes.len());
        assert_eq!((samples.len(), samples.contains(&0)), (SAMPLES, false));
        // A segment of the least size that is measured has different samples, too.
        let of_few = spread_samples(MIN_MEASURED);
        assert!(of_few.windows(2).all(|pair| pair[0] < pair[1]) && of_few[0] > 0);
        assert!(spread_samples(MIN_MEASURED - 1).is_empty());
        // The entry has links to the last cluster. No other node has links.
        let last = nodes - IN_CLUSTER as u32..nodes;
        let mut graph = Graph { entry: 0, width: 0, links: ChunkedRows::new(MAX_LINKS + 1) };
        (0..nodes).for_each(|_| graph.links.push([0; MAX_LINKS + 1]));
        let (in_last, linked): (Vec<u32>, Vec<u32>) = last.partition(|node| samples.contains(node));
        graph.set_links(0, &linked);
        let mut scratch = Scratch::new(codes.len());
        block_on(async {
            // Samples of the last cluster alone do not show that the others are missing.
            assert!(!in_last.is_empty());
            assert_eq!(needed_width(&graph, &codes, &in_last, &mut scratch).await, WIDTHS[0]);
            assert_eq!(needed_width(&graph, &codes, &samples, &mut scratch).await, u32::MAX);
        });
    }

    #[test]
    fn the_measured_width_finds_the_nearest_in_the_order_of_clusters() {
        let codes = clustered_codes();
        let nodes = codes.len() as u32;
        block_on(async {
            let graph = build(&codes).await;
            // The samples were inserted, too.
            assert!((0..nodes).all(|node| !graph.links(node).is_empty()));
            let mut scratch = Scratch::new(codes.len());
            scratch.beam = Beam::new((graph.width as usize).min(codes.len()));
            let (mut found, mut wanted) = (0, 0);
            for node in (0..nodes).step_by(7) {
                let (mut top, from) = (Top::new(NEAREST), codes.code_of(node));
                (0..nodes).for_each(|other| top.push(-codes.distance(from, other), other));
                scratch.search(&graph, &codes, node).await;
                let read: Vec<u32> =
                    scratch.beam.nodes().take(READ).map(|(_, near)| near).collect();
                let nearest = top.finish(u32::cmp).0;
                found += nearest.iter().filter(|(_, near)| read.contains(near)).count();
                wanted += nearest.len();
            }
            assert!(found * 100 >= wanted * 95, "{found} of {wanted}, width {}", graph.width);
        });
    }
}

//! The graph of near vectors. DiskANN's Vamana builds it, one vector after the other.
//!
//! 1. A search from the entry finds the nodes near the new node, and the nodes on the way to them.
//! 2. [`prune`] chooses the new node's links among these: first the nearest node, then each node
//!    whose distance to every chosen node, times [`ALPHA_SQUARE`], is more than its distance to the
//!    new node. So some links are short and some are long.
//! 3. Each chosen node gets a link back. A node with too many links chooses its links again.
//! 4. Before [`build`] inserts the last [`SAMPLES`] vectors, it searches for them with growing
//!    widths. The segment keeps the least width that finds nearly all of their nearest vectors.
//!    Clustered vectors, such as embeddings of texts, need a small width; random vectors need a
//!    large one.
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
/// The square of DiskANN's alpha, 1.2, because distances are squares.
const ALPHA_SQUARE: f32 = 1.44;

/// Number of vectors that measure the graph.
const SAMPLES: usize = 32;
/// Minimum number of vectors of a graph that the construction measures.
const MIN_MEASURED: usize = 4 * SAMPLES;
/// Number of nearest vectors of a sample that a search should find.
const NEAREST: usize = 10;
/// Number of best nodes of a search that should include the nearest vectors. A query with LIMIT 10
/// reads this number of rows.
const READ: usize = 31;
/// The share of the nearest vectors that the searches should find. It is above the goal of 95 %,
/// because the samples are few.
const WANTED_SHARE: f64 = 0.97;
/// The widths that the construction tries.
const WIDTHS: [u32; 6] = [64, 128, 256, 512, 1024, 2048];

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
    let mut scratch = Scratch::new(codes.len());
    for node in 0..codes.len() as u32 {
        if codes.len() >= MIN_MEASURED && node as usize + SAMPLES == codes.len() {
            graph.width = needed_width(&graph, codes, node, &mut scratch).await;
        }
        graph.links.push([0; MAX_LINKS + 1]);
        if node > 0 {
            insert(&mut graph, codes, node, &mut scratch).await;
        }
        maybe_yield().await;
    }
    if !link_unreachable(&mut graph, codes, &mut scratch).await {
        graph.width = u32::MAX;
    }
    graph
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
    chosen: Vec<u32>,
}

impl Scratch {
    fn new(nodes: usize) -> Self {
        Self {
            beam: Beam::new(BEAM_WIDTH),
            met_by: vec![0; nodes],
            search: 0,
            near: Vec::new(),
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
    async fn search(&mut self, graph: &Graph, codes: &Codes, node: u32) {
        self.search += 1;
        self.beam.clear();
        self.near.clear();
        self.beam.add(codes.distance(node, graph.entry), graph.entry);
        self.meet(graph.entry);
        while let Some((distance, near)) = self.beam.expand() {
            self.near.push((distance, near));
            for link in graph.links(near) {
                if self.meet(*link) {
                    self.beam.add(codes.distance(node, *link), *link);
                }
            }
            maybe_yield().await;
        }
    }
}

/// Returns the least of [`WIDTHS`] with which searches find nearly all nearest vectors of the
/// samples; `u32::MAX` if there is none. The samples are the vectors from `first` on, which the
/// graph does not have yet.
async fn needed_width(graph: &Graph, codes: &Codes, first: u32, scratch: &mut Scratch) -> u32 {
    let mut samples = Vec::with_capacity(SAMPLES);
    for sample in first..codes.len() as u32 {
        let mut top = Top::new(NEAREST);
        for node in 0..first {
            top.push(-codes.distance(sample, node), node);
            maybe_yield().await;
        }
        let nearest: Vec<u32> = top.finish(u32::cmp).0.into_iter().map(|(_, node)| node).collect();
        samples.push((sample, nearest));
    }
    let insertions = std::mem::replace(&mut scratch.beam, Beam::new(0));
    let mut needed = u32::MAX;
    for width in WIDTHS {
        scratch.beam = Beam::new(width as usize);
        let (mut found, mut wanted) = (0, 0);
        for (sample, nearest) in &samples {
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
            scratch.near.clear();
            scratch.near.extend(near.map(|near| (codes.distance(*link, *near), *near)));
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
        let is_far = |other: &u32| ALPHA_SQUARE * codes.distance(*other, *node) > *distance;
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
}

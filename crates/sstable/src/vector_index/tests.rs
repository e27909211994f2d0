mod cached;
mod long_vectors;

use std::path::Path;

use espalier_runtime::{
    block_on,
    file::{FileSystem, PAGE_BYTES},
    random::Generator,
};
use espalier_types::Similarity;

use super::{
    layout::{END_BYTES, Form, Links, Segment},
    *,
};
use crate::{
    checksums::FileChecksums,
    components::{Component, Descriptor},
    page_cache::{CachedFile, PageCache, Part},
    secondary_index::SecondaryIndex,
};

const EXACT: VectorLimits =
    VectorLimits { max_exact: 10_000, max_short: 0, min_graph: 10_000, graph_cost: 60 };
const CODES: VectorLimits =
    VectorLimits { max_exact: 10, max_short: 0, min_graph: 100_000, graph_cost: 60 };
const GRAPH: VectorLimits =
    VectorLimits { max_exact: 10, max_short: 0, min_graph: 10, graph_cost: 1 };

fn descriptor() -> Descriptor {
    Descriptor::parse(Path::new("/da-1-bti-Data.db")).unwrap().0
}

fn random_vectors(seed: u64, count: usize, dimension: usize) -> Vec<Vec<f32>> {
    let mut random = Generator::from_seed(seed);
    let mut next = || (random.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0;
    (0..count).map(|_| (0..dimension).map(|_| next()).collect()).collect()
}

fn place(index: usize) -> Vec<u8> {
    let mut place = format!("place {index} ").into_bytes();
    place.resize(place.len() + index % 300, 7);
    place
}

async fn written(
    file_system: &FileSystem,
    similarity: Similarity,
    vectors: &[Vec<f32>],
    limits: &VectorLimits,
) -> (Component, FileChecksums) {
    let dimension = vectors[0].len();
    let (settings, descriptor) = ((similarity, dimension), descriptor());
    let writer =
        VectorIndexWriter::create(file_system, &descriptor, "i", "v", settings, limits, true);
    let mut writer = writer.await.unwrap();
    // Writes two segments; the second one is smaller.
    let middle = vectors.len() * 2 / 3;
    let mut points = VectorPoints::new(similarity, dimension, limits);
    for (index, vector) in vectors.iter().enumerate() {
        if index == middle {
            let next = VectorPoints::new(similarity, dimension, limits);
            let full = std::mem::replace(&mut points, next);
            writer.write_segment(full, true).await.unwrap();
        }
        points.push(&place(index), vector);
    }
    writer.write_segment(points, true).await.unwrap();
    let (component, file) = writer.finish().await.unwrap();
    (component, FileChecksums { length: file.length, pages: file.pages.into() })
}

async fn opened(
    file_system: &FileSystem,
    component: &Component,
    checksums: &FileChecksums,
) -> crate::Result<SecondaryIndex> {
    let (cache, path) = (PageCache::new(16 << 20), descriptor().path(component));
    let file = CachedFile::open(file_system, &path, Part::Index, &cache, Some(checksums.clone()));
    SecondaryIndex::open(file.await?, 0).await
}

/// Returns the places of the `count` most similar vectors. Compares all vectors.
fn expected(
    similarity: Similarity,
    vectors: &[Vec<f32>],
    query: &[f32],
    count: usize,
) -> Vec<Vec<u8>> {
    let mut top = Top::new(count);
    for (index, vector) in vectors.iter().enumerate() {
        top.push(similarity.of(query, vector).unwrap(), index);
    }
    top.finish(usize::cmp).0.into_iter().map(|(_, index)| place(index)).collect()
}

/// Returns the share of the ten nearest vectors that the searches find, over all queries. Each
/// search returns `count` vectors.
fn recall(
    similarity: Similarity,
    (vectors, dimension): (usize, usize),
    count: usize,
    limits: &VectorLimits,
) -> f64 {
    const QUERIES: usize = 20;
    let vectors = random_vectors(1, vectors, dimension);
    let queries = random_vectors(2, QUERIES, dimension);
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let (component, checksums) = written(&file_system, similarity, &vectors, limits).await;
        let index = opened(&file_system, &component, &checksums).await.unwrap();
        let mut right = 0;
        for (query, bypass) in queries.iter().zip([true, false].into_iter().cycle()) {
            let index = index.vectors(bypass).unwrap();
            assert_eq!(index.count() as usize, vectors.len());
            let search =
                NearestSearch { count, width: 0, widths: 1, graph_cost: limits.graph_cost };
            let nearest = index.nearest(query, search).await.unwrap();
            assert!(nearest.is_cut);
            assert_eq!(nearest.found.len(), count);
            let mut places = Vec::new();
            for found in &nearest.found {
                places.push(index.place(found).await.unwrap());
            }
            let wanted = expected(similarity, &vectors, query, 10);
            if limits == &EXACT {
                assert_eq!(places[..10], wanted);
            }
            right += wanted.iter().filter(|place| places.contains(place)).count();
        }
        right as f64 / (QUERIES * 10) as f64
    })
}

#[test]
fn vectors_as_they_are_give_the_exact_answer() {
    for similarity in Similarity::ALL {
        // A vector of 2000 components is longer than a page.
        for shape in [(700, 3), (60, 2000)] {
            assert!(recall(similarity, shape, 10, &EXACT) >= 1.0);
        }
    }
}

#[test]
fn codes_hide_nearly_none_of_the_nearest() {
    for similarity in Similarity::ALL {
        for shape in [(1500, 24), (60, 5000)] {
            let found = recall(similarity, shape, 16, &CODES);
            assert!(found >= 0.99, "{similarity:?} {shape:?}: {found}");
        }
    }
}

/// Returns random vectors that are close to one another and far from zero.
fn offset_vectors(seed: u64, count: usize, dimension: usize) -> Vec<Vec<f32>> {
    let mut vectors = random_vectors(seed, count, dimension);
    vectors.iter_mut().flatten().for_each(|x| *x = *x / 8.0 + 1000.0);
    vectors
}

#[test]
fn a_common_offset_hides_no_differences() {
    let (vectors, queries) = (offset_vectors(1, 1500, 16), offset_vectors(2, 20, 16));
    block_on(async {
        let similarity = Similarity::Euclidean;
        let file_system = FileSystem::simulated(1);
        let (component, checksums) = written(&file_system, similarity, &vectors, &CODES).await;
        let index = opened(&file_system, &component, &checksums).await.unwrap();
        let index = index.vectors(false).unwrap();
        let mut right = 0;
        for query in &queries {
            let found = places(&index, query, 16).await;
            let wanted = expected(similarity, &vectors, query, 10);
            right += wanted.iter().filter(|place| found.contains(place)).count();
        }
        assert!(right >= 198, "{right} of 200");
    });
}

#[test]
fn errors_of_coded_similarities_stay_within_their_bounds() {
    for similarity in Similarity::ALL {
        for dimension in [2, 16, 700] {
            let mut vectors = random_vectors(8, 300, dimension);
            vectors.extend(offset_vectors(9, 300, dimension));
            let equal = vectors[7].clone();
            vectors.extend((0..40).map(|_| equal.clone()));
            block_on(async {
                let file_system = FileSystem::simulated(1);
                let written = written(&file_system, similarity, &vectors, &CODES).await;
                let index = opened(&file_system, &written.0, &written.1).await.unwrap();
                let index = index.vectors(false).unwrap();
                for query in [&vectors[7], &vectors[400], &random_vectors(3, 1, dimension)[0]] {
                    let search = NearestSearch { count: 640, width: 0, widths: 1, graph_cost: 60 };
                    let nearest = index.nearest(query, search).await.unwrap();
                    assert_eq!(nearest.found.len(), 640);
                    for found in &nearest.found {
                        let place = index.place(found).await.unwrap();
                        let number = place.split(|byte| *byte == b' ').nth(1).unwrap();
                        let number: usize = str::from_utf8(number).unwrap().parse().unwrap();
                        let exact = similarity.of(query, &vectors[number]).unwrap();
                        let wrong = (found.similarity - exact).abs();
                        assert!(
                            wrong <= found.error,
                            "{similarity:?}, {dimension}: {wrong} > {}, {exact}",
                            found.error
                        );
                    }
                }
            });
        }
    }
}

#[test]
fn the_error_covers_a_coarse_code_that_is_left_out() {
    block_on(async {
        let similarity = Similarity::DotProduct;
        let mut vectors = random_vectors(4, 300, 8);
        vectors.iter_mut().flatten().for_each(|x| *x = x.abs() * 0.3);
        // The first component makes the code of this vector so coarse that the others are lost.
        vectors.push([vec![100.0], vec![0.39; 7]].concat());
        let query = [vec![0.0], vec![1.0; 7]].concat();
        let file_system = FileSystem::simulated(1);
        // One of the two segments has the coarse code.
        let written = written(&file_system, similarity, &vectors, &CODES).await;
        let index = opened(&file_system, &written.0, &written.1).await.unwrap();
        let search = NearestSearch { count: 10, width: 0, widths: 1, graph_cost: 60 };
        let nearest = index.vectors(true).unwrap().nearest(&query, search).await.unwrap();
        let (least, exact) =
            (nearest.found[9].similarity, similarity.of(&query, &vectors[300]).unwrap());
        assert!(nearest.is_cut && exact > nearest.found[0].similarity);
        assert!(nearest.found.iter().all(|found| found.error < 0.1));
        assert!(exact <= least + nearest.error, "{exact} > {least} + {}", nearest.error);
    });
}

#[test]
fn short_vectors_are_never_coded() {
    let limits = VectorLimits { max_short: 3, ..CODES };
    for similarity in Similarity::ALL {
        assert!(recall(similarity, (700, 3), 10, &limits) >= 1.0);
    }
    for dimension in [3, 4] {
        block_on(async {
            let vectors = random_vectors(1, 60, dimension);
            let file_system = FileSystem::simulated(1);
            let written = written(&file_system, Similarity::Euclidean, &vectors, &limits).await;
            let index = opened(&file_system, &written.0, &written.1).await.unwrap();
            let search = NearestSearch { count: 5, width: 0, widths: 1, graph_cost: 60 };
            let nearest = index.vectors(true).unwrap().nearest(&vectors[0], search).await.unwrap();
            let are_exact = nearest.found.iter().all(|found| found.error == 0.0);
            assert_eq!(are_exact, dimension == 3);
        });
    }
}

#[test]
fn a_graph_leads_to_most_of_the_nearest() {
    for similarity in Similarity::ALL {
        let found = recall(similarity, (1500, 24), 31, &GRAPH);
        assert!(found >= 0.95, "{similarity:?}: {found}");
    }
}

#[test]
fn equal_vectors_are_all_found_and_hide_no_others() {
    for similarity in Similarity::ALL {
        // The searches begin at the first vector. It is one of 3000 equal ones.
        let mut vectors = random_vectors(6, 5400, 16);
        let (often, seldom) = (vectors[0].clone(), vectors[1].clone());
        for (index, vector) in vectors.iter_mut().enumerate() {
            match index % 9 {
                0..5 => vector.clone_from(&often),
                5 => vector.clone_from(&seldom),
                _ => {}
            }
        }
        block_on(async {
            let file_system = FileSystem::simulated(1);
            let (component, checksums) = written(&file_system, similarity, &vectors, &GRAPH).await;
            let index = opened(&file_system, &component, &checksums).await.unwrap();
            let index = index.vectors(false).unwrap();
            assert_eq!((index.count(), index.graphs()), (5400, 2));
            for (query, count, equal) in [(&often, 3100, 3000), (&seldom, 700, 600)] {
                let found = places(&index, query, count).await;
                let is_equal = |index: &usize| vectors[*index] == *query;
                let mut wanted = (0..vectors.len()).filter(is_equal).map(place);
                assert_eq!((found.len(), wanted.clone().count()), (count, equal));
                assert!(wanted.all(|place| found.contains(&place)), "{similarity:?} {count}");
            }
            let (mut right, queries) = (0, random_vectors(7, 20, 16));
            for query in &queries {
                // If vectors are equal, any of them may be among the ten nearest.
                let mut all: Vec<f32> =
                    vectors.iter().map(|vector| similarity.of(query, vector).unwrap()).collect();
                let wanted: Vec<Vec<u8>> = {
                    let of_each = all.clone();
                    all.sort_by(|left, right| right.total_cmp(left));
                    let is_near = |index: &usize| of_each[*index] >= all[9];
                    (0..vectors.len()).filter(is_near).map(place).collect()
                };
                let found = places(&index, query, 31).await;
                right += wanted.iter().filter(|place| found.contains(place)).count().min(10);
            }
            assert!(right >= 190, "{similarity:?}: {right} of 200");
        });
    }
}

/// Returns the places of the `count` vectors that a search finds.
async fn places(index: &VectorIndex<'_>, query: &[f32], count: usize) -> Vec<Vec<u8>> {
    let search = NearestSearch { count, width: 0, widths: 1, graph_cost: GRAPH.graph_cost };
    let mut places = Vec::new();
    for found in &index.nearest(query, search).await.unwrap().found {
        places.push(index.place(found).await.unwrap());
    }
    places
}

#[test]
fn damage_is_found_before_it_is_used() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let vectors = random_vectors(3, 400, 16);
        let written = written(&file_system, Similarity::Euclidean, &vectors, &GRAPH).await;
        let (component, checksums) = written;
        let path = descriptor().path(&component);
        let bytes = file_system.read(&path).await.unwrap().to_vec();
        for at in (0..bytes.len()).step_by(4001).chain(bytes.len() - 90..bytes.len()) {
            let mut harmed = bytes.clone();
            harmed[at] ^= 4;
            file_system.remove_file(&path).await.unwrap();
            file_system.create_new(&path).await.unwrap().append(harmed).await.unwrap();
            let is_found = match opened(&file_system, &component, &checksums).await {
                Err(_) => true,
                Ok(index) => is_damaged(&index, &vectors, true).await,
            };
            assert!(is_found, "byte {at}");
        }
    });
}

#[test]
fn wrong_contents_with_right_checksums_are_errors_or_harmless() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let vectors = random_vectors(3, 400, 16);
        let written = written(&file_system, Similarity::Euclidean, &vectors, &GRAPH).await;
        let (component, checksums) = written;
        let index = opened(&file_system, &component, &checksums).await.unwrap();
        let segment = index.vectors(true).unwrap().description.segments[0].clone();
        let links = segment.links.unwrap();
        let path = descriptor().path(&component);
        let bytes = file_system.read(&path).await.unwrap().to_vec();
        let (first, record) = (links.start as usize, links.records().length);
        let of_entry = first + links.entry as usize * record;
        let (ends, points) = (segment.ends as usize, segment.points as usize);
        let number = |number: u32| number.to_be_bytes();
        // All nodes link to themselves alone.
        let mut cycle = Vec::new();
        for node in 0..segment.nodes {
            cycle.extend_from_slice(&number(1));
            cycle.extend_from_slice(&number(node));
            cycle.resize(cycle.len() + record - 8, 0);
            let next = links.records().locate(node as usize + 1);
            cycle.resize(next.0 as usize * PAGE_BYTES + next.1, 0);
        }
        for (name, at, change, is_error) in [
            ("a link to no vector", of_entry + 4, number(segment.nodes).to_vec(), true),
            ("ends out of order", ends, number(u32::MAX).to_vec(), true),
            ("an end behind the places", ends + 4, number(1 << 30).to_vec(), true),
            ("more links than fit", of_entry, number(u32::MAX).to_vec(), false),
            ("no links", of_entry, number(0).to_vec(), false),
            ("cycles", first, cycle, false),
            ("a scale that is no number", points, f32::NAN.to_le_bytes().to_vec(), true),
            ("a negative scale", points, (-1.0_f32).to_le_bytes().to_vec(), true),
            ("a square", points + 4, f32::INFINITY.to_le_bytes().to_vec(), true),
        ] {
            let mut changed = bytes.clone();
            changed[at..at + change.len()].copy_from_slice(&change);
            let checksums = FileChecksums {
                length: checksums.length,
                pages: changed.chunks(PAGE_BYTES).map(crc32fast::hash).collect(),
            };
            file_system.remove_file(&path).await.unwrap();
            file_system.create_new(&path).await.unwrap().append(changed).await.unwrap();
            let index = opened(&file_system, &component, &checksums).await.unwrap();
            // The third time, the pages are cached.
            for bypass in [true, false, false] {
                assert_eq!(is_damaged(&index, &vectors, bypass).await, is_error, "{name}");
            }
        }
    });
}

/// Returns whether one of the searches fails. Together, the searches read all pages of vectors,
/// links and places.
async fn is_damaged(index: &SecondaryIndex, vectors: &[Vec<f32>], bypass: bool) -> bool {
    let index = index.vectors(bypass).unwrap();
    // The first search follows the links of all nodes of the smaller segment but one; the second
    // one does so in the larger segment. The third one compares all codes.
    for (count, width, graph_cost) in [(130, 133, 1), (260, 265, 1), (390, 1, 1000)] {
        let search = NearestSearch { count, width, widths: 1, graph_cost };
        let Ok(nearest) = index.nearest(&vectors[0], search).await else { return true };
        for found in &nearest.found {
            if index.place(found).await.is_err() {
                return true;
            }
        }
    }
    false
}

/// Returns a description of one segment (codes with a graph), and the position in the file at which
/// the description begins.
fn description() -> (VectorDescription, u64) {
    let page = |number: u64| number * PAGE_BYTES as u64;
    let segment = Segment {
        form: Form::Codes,
        center: vec![0.5; 2],
        count: 30,
        nodes: 20,
        firsts: Some(page(3)),
        points: page(0),
        links: Some(Links { start: page(1), most: 40, entry: 19, width: 64 }),
        ends: page(4),
        places: page(5),
        places_length: 100,
    };
    let (signature, similarity) = ("v".to_owned(), Similarity::Euclidean);
    let description =
        VectorDescription { signature, similarity, dimension: 2, segments: vec![segment] };
    (description, page(6))
}

fn decoded(description: &VectorDescription, position: u64) -> crate::Result<VectorDescription> {
    let name = crate::FileName::new(Path::new("SecondaryIndex_i.db"));
    let mut bytes = Vec::new();
    description.encode(position, &mut bytes);
    let end = bytes.len() - END_BYTES;
    VectorDescription::decode(&name, &bytes[..end], position)
}

#[test]
fn each_part_of_a_description_is_checked() {
    let (valid, position) = description();
    assert_eq!(decoded(&valid, position).unwrap(), valid);
    type Change = fn(&mut Segment);
    let changes: [(&str, Change); 14] = [
        ("the center", |segment| segment.center[1] = f32::NAN),
        ("a short center", |segment| segment.center.truncate(1)),
        ("more nodes than entries", |segment| segment.count = 19),
        ("nodes without first entries", |segment| segment.firsts = None),
        ("first entries behind the end", |segment| segment.firsts = Some(6 << 12)),
        ("first entries within a page", |segment| segment.firsts = Some((3 << 12) + 4)),
        ("vectors behind the end", |segment| segment.points = 6 << 12),
        ("the last vectors", |segment| segment.nodes = u32::MAX),
        ("links behind the end", |segment| segment.links.as_mut().unwrap().start = 6 << 12),
        ("too many links", |segment| segment.links.as_mut().unwrap().most = 1001),
        ("the entry", |segment| segment.links.as_mut().unwrap().entry = 20),
        ("ends behind the end", |segment| segment.ends = 6 << 12),
        ("places behind the end", |segment| segment.places_length = 4097),
        ("the length of the places", |segment| segment.places_length = u64::MAX),
    ];
    for (name, change) in changes {
        let (mut changed, position) = description();
        change(&mut changed.segments[0]);
        assert!(decoded(&changed, position).is_err(), "{name}");
    }
    let (mut changed, position) = description();
    changed.dimension = 0;
    assert!(decoded(&changed, position).is_err());
    let name = crate::FileName::new(Path::new("SecondaryIndex_i.db"));
    let mut bytes = Vec::new();
    valid.encode(position, &mut bytes);
    let end = bytes.len() - END_BYTES;
    for length in 0..end {
        assert!(VectorDescription::decode(&name, &bytes[..length], position).is_err(), "{length}");
    }
    assert!(VectorDescription::decode(&name, &bytes[..=end], position).is_err());
}

#[test]
fn descriptions_that_are_no_descriptions_are_errors() {
    let name = crate::FileName::new(Path::new("SecondaryIndex_i.db"));
    let mut random = Generator::from_seed(4);
    for length in 0..200 {
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        // The bytes begin with a signature of four bytes.
        if let Some(start) = bytes.get_mut(..8) {
            start.copy_from_slice(b"\0\0\0\x04sign");
        }
        assert!(VectorDescription::decode(&name, &bytes, 1 << 20).is_err());
    }
}

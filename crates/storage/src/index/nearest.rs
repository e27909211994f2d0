//! Searches for the vectors that are most similar to a query.
//!
//! 1. The search compares all vectors of each memtable. In each SSTable's component, it uses codes
//!    and graphs if the component has many vectors.
//! 2. The best vectors of all sources name places. If most of them name a place again, because a
//!    row was written often, the search asks for more vectors.
//! 3. The read takes the places in the order of the table. The caller compares the vectors of the
//!    rows themselves, because entries may be stale.
//! 4. [`NearestPlaces::bound`] is the greatest similarity that any other row may have. A caller
//!    that has not found enough rows above the bound searches again, for more.
//!
//! The search loses no row to a stale entry: the row's present vector has an entry, too, and this
//! entry names the row if its similarity is high enough.

use std::{cmp::Ordering, collections::BTreeSet, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_memtable::Memtable;
use espalier_mutation::{
    Listed,
    schema::{TableMetadata, VectorIndexOptions},
};
use espalier_runtime::maybe_yield;
use espalier_sstable::{NearestSearch, Neighbor, Top, VectorLimits};
use espalier_types::similarity::floats;

use super::{candidates::Places, component::vectors_at_once, entry, source::IndexFile};
use crate::{NearestBound, StorageError, table::TableView};

/// Minimum number of nodes whose links a search of a graph follows. The graph may need more.
const MIN_WIDTH: usize = 64;
/// The factor by which an index that is optimized for recall multiplies the width.
const RECALL_WIDTHS: usize = 2;

/// The factor by which a search asks for more vectors if most of them name a place again.
const GROWTH: usize = 8;
/// Maximum number of vectors that such a search asks for (arbitrary).
const MAX_VECTORS: usize = 64 << 10;

/// The places of the most similar vectors.
pub(super) struct NearestPlaces {
    memtables: Vec<Rc<Memtable>>,
    files: Vec<IndexFile>,
    index: String,
    options: VectorIndexOptions,
    vector: Vec<f32>,
    count: usize,
    limits: VectorLimits,
    bound: Option<NearestBound>,
    compared: u64,
    table: Arc<TableMetadata>,
    listed: Listed,
}

/// The outcome of a search of all sources.
struct Nearest {
    /// The most similar vectors, in descending order.
    vectors: Vec<(f32, Found)>,
    /// The greatest similarity of the other vectors; `None` if there are none.
    bound: Option<f32>,
    /// The greatest likely error of these similarities.
    error: f32,
}

/// A vector in one of the sources.
#[derive(Clone, Copy)]
enum Found {
    InMemory { memtable: usize, number: usize },
    InFile { file: usize, neighbor: Neighbor },
}

impl NearestPlaces {
    /// Opens the vectors of an index in all memtables and SSTables. Returns `None` if a memtable or
    /// SSTable has none, or if the query has another dimension.
    pub(super) fn open(
        view: &TableView,
        table: &Arc<TableMetadata>,
        (index, signature): (&str, &str),
        (options, listed): (VectorIndexOptions, Listed),
        (vector, count): (&Bytes, usize),
        limits: VectorLimits,
    ) -> Option<Self> {
        let memtables: Vec<Rc<Memtable>> =
            view.memtables().filter(|memtable| !memtable.is_empty()).cloned().collect();
        let has_index = |memtable: &Rc<Memtable>| {
            memtable.with_indexes(|indexes| indexes.has(index, signature)) == Some(true)
        };
        if !memtables.iter().all(has_index) {
            return None;
        }
        let mut files = Vec::with_capacity(view.sstables.len());
        for sstable in view.sstables.iter() {
            let found = sstable.reader().secondary_index(index);
            found.filter(|found| found.signature() == signature)?;
            files.push(IndexFile::new(sstable.clone()));
        }
        let vector: Vec<f32> = floats(vector).collect();
        (vector.len() == options.dimension).then(|| Self {
            memtables,
            files,
            index: index.into(),
            options,
            vector,
            count,
            limits,
            bound: None,
            compared: 0,
            table: table.clone(),
            listed,
        })
    }

    /// Returns the greatest similarity that a row without a returned place may have; `None` if the
    /// search has returned all places.
    pub(super) fn bound(&self) -> Option<NearestBound> {
        self.bound
    }

    /// Returns the number of vectors in memtables that the search has compared.
    pub(super) fn compared(&self) -> u64 {
        self.compared
    }

    /// Searches all sources. Returns the places from `from` to `end`, without `end`.
    pub(super) async fn next(
        &mut self,
        from: &[u8],
        end: Option<&[u8]>,
        bypass_cache: bool,
    ) -> Result<Places, StorageError> {
        let mut vectors = self.count;
        let mut places = loop {
            let Nearest { vectors: found, bound, error } =
                self.search(vectors, bypass_cache).await?;
            let found_vectors = found.len();
            let (places, bound) = self.distinct(found, bound, bypass_cache).await?;
            self.bound = bound.map(|similarity| NearestBound { similarity, error });
            let are_enough = places.len() >= self.count || 2 * places.len() >= found_vectors;
            if are_enough || bound.is_none() || vectors >= MAX_VECTORS {
                break places;
            }
            vectors = vectors.saturating_mul(GROWTH).min(MAX_VECTORS);
        };
        places.retain(|place| {
            place.as_slice() >= from && end.is_none_or(|end| place.as_slice() < end)
        });
        Ok(Places { places, is_last: true })
    }

    /// Finds the `count` most similar vectors of all sources.
    async fn search(&mut self, count: usize, bypass_cache: bool) -> Result<Nearest, StorageError> {
        let (mut top, mut error) = (Top::new(count), 0_f32);
        for memtable in 0..self.memtables.len() {
            self.search_memtable(memtable, &mut top).await;
        }
        for file in 0..self.files.len() {
            let of_file = self.search_file(file, (count, bypass_cache), &mut top).await?;
            error = error.max(of_file);
        }
        let (vectors, bound) = top.finish_in_steps(|_, _| Ordering::Equal).await;
        Ok(Nearest { vectors, bound, error })
    }

    /// Returns the places of vectors, each once and in order: the first [`Self::count`]. Also
    /// returns the greatest similarity of other places.
    async fn distinct(
        &mut self,
        found: Vec<(f32, Found)>,
        mut bound: Option<f32>,
        bypass_cache: bool,
    ) -> Result<(Vec<Vec<u8>>, Option<f32>), StorageError> {
        // An ordered set, because a sort of all places would not yield.
        let mut places = BTreeSet::new();
        for (similarity, found) in found {
            if places.len() == self.count {
                bound = Some(similarity);
                break;
            }
            places.insert(self.place(found, bypass_cache).await?);
            maybe_yield().await;
        }
        Ok((places.into_iter().collect(), bound))
    }

    async fn search_memtable(&mut self, memtable: usize, top: &mut Top<Found>) {
        let Some(source) = self.memtables.get(memtable) else { return };
        let similarity = self.options.similarity.with_query(&self.vector);
        let at_once = vectors_at_once(self.options.dimension);
        let mut from = 0;
        loop {
            let compared = source.with_indexes(|indexes| {
                let Some(vectors) = indexes.vectors_of(&self.index) else { return 0 };
                let mut compared = 0;
                for vector in vectors.vectors(from, at_once) {
                    let found = Found::InMemory { memtable, number: from + compared };
                    top.push(similarity.of(vector).unwrap_or(f32::NAN), found);
                    compared += 1;
                }
                compared
            });
            let compared = compared.unwrap_or(0);
            from += compared;
            if compared < at_once {
                self.compared += from as u64;
                return;
            }
            maybe_yield().await;
        }
    }

    /// Searches an SSTable. Returns the greatest likely error of its similarities.
    async fn search_file(
        &mut self,
        file: usize,
        (count, bypass_cache): (usize, bool),
        top: &mut Top<Found>,
    ) -> Result<f32, StorageError> {
        let Some(searched) = self.files.get_mut(file) else { return Ok(0.0) };
        let vectors = searched.vectors(&self.index, bypass_cache)?;
        let widths = if self.options.optimizes_recall { RECALL_WIDTHS } else { 1 };
        let search =
            NearestSearch { count, width: MIN_WIDTH, widths, graph_cost: self.limits.graph_cost };
        let nearest = vectors.nearest(&self.vector, search).await;
        let nearest = searched.record(nearest)?;
        for neighbor in nearest.found {
            top.push(neighbor.similarity, Found::InFile { file, neighbor });
        }
        if nearest.is_cut {
            top.cut();
        }
        Ok(nearest.error)
    }

    async fn place(&mut self, found: Found, bypass_cache: bool) -> Result<Vec<u8>, StorageError> {
        match found {
            Found::InMemory { memtable, number } => {
                let place = self.memtables.get(memtable).and_then(|memtable| {
                    memtable.with_indexes(|indexes| {
                        Some(indexes.vectors_of(&self.index)?.place(number)?.to_vec())
                    })
                });
                Ok(place.flatten().unwrap_or_default())
            }
            Found::InFile { file, neighbor } => {
                let Some(searched) = self.files.get_mut(file) else { return Ok(Vec::new()) };
                let vectors = searched.vectors(&self.index, bypass_cache)?;
                let place = vectors.place(&neighbor).await.map_err(StorageError::from);
                // Check the place here, because a later read takes most places, and that read does
                // not know their files.
                let place = place.and_then(|place| {
                    entry::check_place(self.table.comparator(), self.listed, &place)?;
                    Ok(place)
                });
                searched.record(place)
            }
        }
    }

    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut IndexFile> {
        self.files.iter_mut()
    }
}

#[cfg(test)]
mod tests;

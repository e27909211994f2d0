//! What the pages of an index hold: nodes by kind, payloads, padding, and how many pages a look-up reads.
//!
//! Every node of every trie is visited once. The tree is walked depth first, so that the number of pages between the root
//! and a node is known when it is reached: a child lies before its parent, hence a way down never comes back to a page it
//! has left, and the pages it changes to are the distinct pages of the look-up.
//!
//! Memory: the way to the current node, and 48 bytes for each page of 4 KiB.

mod tally;
mod walk;

pub use tally::{KindTally, PageTally, TrieSurvey};

use espalier_mutation::DeletionTime;
use espalier_runtime::file::FileSystem;
use espalier_trie::page::Node;
use espalier_types::vint;

use self::walk::Walk;
use super::{
    partition_index::{IndexPosition, PartitionIndexReader, decode_payload, payload_size},
    row_index::{RowIndexEntry, RowIndexReader, block_payload_size, decode_block},
};
use crate::{
    components::{Component, Descriptor},
    error::{Result, SSTableError},
    page_cache::{CachedFile, PageCache, Part},
    versions::IndexKind,
};

/// Partitions.db and Rows.db.
#[derive(Clone, Debug)]
pub struct IndexSurvey {
    /// Partitions.db.
    pub partitions: TrieSurvey,
    /// Rows.db: a trie for each wide partition. Its depths and look-ups are those inside one partition.
    pub rows: TrieSurvey,
}

/// Walks the whole index of an SSTable that has tries. `watch` is told from time to time how many bytes of Partitions.db
/// have been seen.
///
/// # Errors
/// Files that are corrupt; versions whose index is no trie.
pub async fn survey(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    cache: &PageCache,
    mut watch: impl FnMut(u64),
) -> Result<IndexSurvey> {
    if !matches!(descriptor.features()?.index, IndexKind::Trie(_)) {
        let name = descriptor.name_in_errors(&Component::Data);
        let what =
            format!("the index of version '{}' is no trie; drawing it is", descriptor.version);
        return Err(SSTableError::unsupported(&name, what));
    }
    let open = |component: Component| async move {
        CachedFile::open(file_system, &descriptor.path(&component), Part::Index, cache, None).await
    };
    let file = open(Component::Partitions).await?;
    let rows_file = open(Component::Rows).await?;
    let name = file.name().clone();
    let wrong = |error| SSTableError::index(&name, error);
    let index = PartitionIndexReader::open(file.clone(), file.length()).await.map_err(wrong)?;
    let footer = index.footer().clone();
    let mut partitions = TrieSurvey::new(Component::Partitions, file.length());
    let mut rows = TrieSurvey::new(Component::Rows, rows_file.length());
    partitions.tries = 1;
    // The first and the last key, and three numbers.
    let tail = (footer.first_key.len() + footer.last_key.len() + 4 + 24) as u64;
    partitions.add_other(file.length().saturating_sub(tail), tail);

    let mut walk = Walk::new(&file, footer.root);
    let mut visited = 0u64;
    while let Some(place) = walk.next().await? {
        let (size, leads_to) = {
            let node = walk.node(place.position)?;
            let size = if node.has_payload() { payload_size(node.payload_bits()) } else { 0 };
            let leads_to = match node.has_payload() {
                true => Some(decode_payload(&node).map_err(|error| wrong(error.into()))?.position),
                false => None,
            };
            partitions.add_node(&node, size, place);
            (size, leads_to)
        };
        partitions.check_not_endless(&name)?;
        debug_assert!(size <= 9);
        if let Some(IndexPosition::RowIndex(entry)) = leads_to {
            survey_rows(&rows_file, entry, &mut rows).await?;
        }
        visited += 1;
        if visited.is_multiple_of(1024) {
            watch(partitions.used_bytes());
            espalier_runtime::maybe_yield().await;
        }
    }
    Ok(IndexSurvey { partitions, rows })
}

async fn survey_rows(file: &CachedFile, position: u64, rows: &mut TrieSurvey) -> Result<()> {
    let name = file.name().clone();
    let wrong = |error| SSTableError::index(&name, error);
    let index = RowIndexReader::open(file.clone(), position).await.map_err(wrong)?;
    let entry = index.entry();
    rows.tries += 1;
    rows.add_other(position, entry_length(entry, position));
    let mut walk = Walk::new(file, entry.root);
    let mut visited = 0u64;
    while let Some(place) = walk.next().await? {
        let node: Node<'_> = walk.node(place.position)?;
        let size = match node.has_payload() {
            true => {
                decode_block(&node).map_err(|error| wrong(error.into()))?;
                block_payload_size(node.payload_bits())
            }
            false => 0,
        };
        rows.add_node(&node, size, place);
        rows.check_not_endless(&name)?;
        visited += 1;
        if visited.is_multiple_of(1024) {
            espalier_runtime::maybe_yield().await;
        }
    }
    Ok(())
}

/// Bytes of an entry of Rows.db, as every writer makes it.
fn entry_length(entry: &RowIndexEntry, position: u64) -> u64 {
    let base = position + 2 + entry.key.len() as u64;
    let deletion = if entry.partition_deletion == DeletionTime::LIVE { 1 } else { 12 };
    let numbers = vint::unsigned_length(entry.data_position)
        + vint::signed_length(entry.root.wrapping_sub(base) as i64)
        + vint::unsigned_length(entry.block_count);
    2 + entry.key.len() as u64 + (numbers + deletion) as u64
}

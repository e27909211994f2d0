//! A survey counts the content of an index's pages: nodes by kind, payloads, padding, and the
//! number of pages that a look-up reads.
//!
//! The survey visits every node of every trie once, depth first, so that the number of pages
//! between the root and a node is known when the walk reaches the node. A child lies before its
//! parent in the file, so a path downwards never returns to a page that it has left. The pages that
//! the path enters are therefore the distinct pages of the look-up.
//!
//! Memory: the path to the current node, and 38 bytes for each page of 4 KiB.

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

/// The surveys of both files of an index.
#[derive(Clone, Debug)]
pub struct IndexSurvey {
    /// The survey of Partitions.db.
    pub partitions: TrieSurvey,
    /// The survey of Rows.db, which has a trie for each wide partition. Depths and look-ups count
    /// inside one partition.
    pub rows: TrieSurvey,
}

/// Surveys the whole trie index of an SSTable. Calls `watch` regularly with the number of bytes of
/// Partitions.db visited so far.
///
/// # Errors
/// Fails if a file is corrupt or cannot be read, or if the SSTable's version has no trie index.
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
    // The tail consists of the first and the last key and three numbers.
    let tail = (footer.first_key.len() + footer.last_key.len() + 4 + 24) as u64;
    partitions.add_other(file.length().saturating_sub(tail), tail);

    let mut walk = Walk::new(&file, footer.root);
    let mut visited = 0u64;
    while let Some(place) = walk.next().await? {
        let (size, leads_to) = {
            let node = walk.node(place.position)?;
            let size = if node.has_payload() { payload_size(node.payload_bits()) } else { 0 };
            let leads_to = if node.has_payload() {
                Some(decode_payload(&node).map_err(|error| wrong(error.into()))?.position)
            } else {
                None
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
        let size = if node.has_payload() {
            decode_block(&node).map_err(|error| wrong(error.into()))?;
            block_payload_size(node.payload_bits())
        } else {
            0
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

/// Returns the length of an entry of Rows.db in bytes, if its partition is not deleted at a
/// negative timestamp.
fn entry_length(entry: &RowIndexEntry, position: u64) -> u64 {
    let base = position + 2 + entry.key.len() as u64;
    let deletion = if entry.partition_deletion == DeletionTime::LIVE { 1 } else { 12 };
    let numbers = vint::unsigned_length(entry.data_position)
        + vint::signed_length(entry.root.wrapping_sub(base) as i64)
        + vint::unsigned_length(entry.block_count);
    2 + entry.key.len() as u64 + (numbers + deletion) as u64
}

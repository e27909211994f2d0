//! This module writes the index of either kind, as the version requires.

use std::collections::BTreeMap;

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, DeletionTime};
use espalier_runtime::file::FileSystem;
use espalier_types::{CqlType, byte_comparable::encode_decorated_key};

use super::{options::WriterOptions, row_index::BlockBuilder};
use crate::{
    append_file::{AppendFile, WrittenFile},
    components::Component,
    data::{clustering_values::borrowed, decode::UniformPlace},
    error::{Result, SSTableError},
    index::{
        big::{
            partition_index::PartitionIndexWriter as BigIndexWriter,
            promoted_index::{BlockPositionRef, PositionKind, PromotedIndexBuilder},
            summary::SummaryBuilder,
        },
        bti::partition_index::{IndexPosition, PartitionIndexWriter},
    },
    versions::{IndexKind, VersionFeatures},
};

/// The facts about a finished partition for its index.
pub(super) struct EndedPartition<'a> {
    pub(super) key: &'a DecoratedKey,
    /// Murmur3 of the key.
    pub(super) hash: (u64, u64),
    pub(super) deletion: DeletionTime,
    /// Position in Data.db.
    pub(super) start: u64,
    /// Length from the start to the byte that ends the partition.
    pub(super) end_offset: u64,
    pub(super) last: Option<BlockPositionRef<'a>>,
}

/// A writer of the index files.
#[expect(clippy::large_enum_variant, reason = "one for each writer")]
pub(super) enum IndexWriter {
    /// Partitions.db and Rows.db.
    Trie {
        blocks: BlockBuilder,
        partitions: AppendFile,
        index: PartitionIndexWriter,
        scratch: Vec<u8>,
    },
    /// Index.db; Summary.db is written at the end.
    Big {
        file: AppendFile,
        index: BigIndexWriter,
        blocks: PromotedIndexBuilder,
        summary: SummaryBuilder,
        promoted: Vec<u8>,
    },
}

/// The finished index files, and the small components that are still to be written.
pub(super) struct WrittenIndex {
    pub(super) files: Vec<(Component, WrittenFile)>,
    pub(super) small: BTreeMap<Component, Bytes>,
}

impl IndexWriter {
    pub(super) async fn create(
        file_system: &FileSystem,
        features: &VersionFeatures,
        options: &WriterOptions,
    ) -> Result<Self> {
        let create = |component: Component| async move {
            let path = options.descriptor.path(&component);
            AppendFile::create(file_system, &path, options.is_durable).await
        };
        Ok(match features.index {
            IndexKind::Trie(_) => Self::Trie {
                blocks: BlockBuilder::new(
                    create(Component::Rows).await?,
                    features,
                    (options.column_index_size, options.first_block_size),
                ),
                partitions: create(Component::Partitions).await?,
                index: PartitionIndexWriter::new(),
                scratch: Vec::new(),
            },
            IndexKind::Big => Self::Big {
                file: create(Component::Index).await?,
                index: BigIndexWriter::new(),
                // Readers expect the last block as Cassandra writes it, because the writer gives an
                // SSTable with this index no Scylla.db, which could announce ScyllaDB's rule.
                blocks: PromotedIndexBuilder::new(
                    features.deletion_time,
                    options.column_index_size,
                ),
                summary: match options.summary_ratio.filter(|ratio| *ratio > 0.0) {
                    Some(ratio) => SummaryBuilder::with_ratio(options.min_index_interval, ratio),
                    None => SummaryBuilder::new(options.min_index_interval),
                },
                promoted: Vec::new(),
            },
        })
    }

    /// Returns the number of partitions written.
    pub(super) fn key_count(&self) -> u64 {
        match self {
            Self::Trie { index, .. } => index.key_count(),
            Self::Big { index, .. } => index.key_count(),
        }
    }

    /// Begins the row or marker of `position`, at `offset` bytes of the partition. `open` is the
    /// range deletion in force.
    #[inline]
    pub(super) fn begin(
        &mut self,
        types: &[(CqlType, bool)],
        position: BlockPositionRef<'_>,
        offset: u64,
        open: DeletionTime,
    ) -> Result<()> {
        match self {
            Self::Trie { blocks, .. } => {
                blocks.begin(types, values_and_weight(position), offset, open)
            }
            Self::Big { blocks, file, .. } => {
                blocks.begin(types, position, offset).map_err(|error| rejected(file, error))
            }
        }
    }

    /// Ends the row or marker at `offset` bytes of the partition. `open` is the range deletion in
    /// force after it. The caller must call [`IndexWriter::flush_if_large`] next.
    #[inline]
    pub(super) fn end(
        &mut self,
        types: &[(CqlType, bool)],
        position: BlockPositionRef<'_>,
        offset: u64,
        open: DeletionTime,
    ) -> Result<()> {
        match self {
            Self::Trie { blocks, .. } => {
                blocks.end(types, values_and_weight(position), offset, open)
            }
            Self::Big { blocks, file, .. } => {
                blocks.end(types, position, offset, open).map_err(|error| rejected(file, error))
            }
        }
    }

    /// Returns whether the next row begins a block.
    #[inline]
    pub(super) fn is_between_blocks(&self) -> bool {
        match self {
            Self::Trie { blocks, .. } => blocks.is_between_blocks(),
            Self::Big { blocks, .. } => blocks.is_between_blocks(),
        }
    }

    /// Returns whether a row that ends at `offset` bytes of the partition ends a block, if no range
    /// deletion is open.
    #[inline]
    pub(super) fn is_block_full(&self, offset: u64) -> bool {
        match self {
            Self::Trie { blocks, .. } => blocks.is_block_full(offset),
            Self::Big { blocks, .. } => blocks.is_block_full(offset),
        }
    }

    /// Works like [`IndexWriter::begin`] for a row that begins a block while no range deletion is
    /// open.
    pub(super) fn begin_uniform(
        &mut self,
        types: &[(CqlType, bool)],
        row: &UniformPlace<'_>,
        offset: u64,
    ) -> Result<()> {
        match self {
            Self::Trie { blocks, .. } => {
                blocks.begin(types, (row.values(), 0), offset, DeletionTime::LIVE)
            }
            Self::Big { .. } => {
                let values: Vec<_> = row.shared_values().collect();
                let place = BlockPositionRef { kind: PositionKind::Row, values: &values };
                self.begin(types, place, offset, DeletionTime::LIVE)
            }
        }
    }

    /// Works like [`IndexWriter::end`] for a row that fills a block while no range deletion is
    /// open. The caller must call [`IndexWriter::flush_if_large`] next.
    pub(super) fn end_uniform(
        &mut self,
        types: &[(CqlType, bool)],
        row: &UniformPlace<'_>,
        offset: u64,
    ) -> Result<()> {
        match self {
            Self::Trie { blocks, .. } => {
                blocks.end(types, (row.values(), 0), offset, DeletionTime::LIVE)
            }
            Self::Big { .. } => {
                let values: Vec<_> = row.shared_values().collect();
                let place = BlockPositionRef { kind: PositionKind::Row, values: &values };
                self.end(types, place, offset, DeletionTime::LIVE)
            }
        }
    }

    /// Returns whether [`IndexWriter::flush_if_large`] would write something.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Trie { blocks, partitions, .. } => blocks.is_large() || partitions.is_large(),
            // Blocks are held in memory until the partition ends.
            Self::Big { file, .. } => file.is_large(),
        }
    }

    /// Writes out the buffers if they are large.
    pub(super) async fn flush_if_large(&mut self) -> Result<()> {
        match self {
            Self::Trie { blocks, partitions, .. } => {
                blocks.flush_if_large().await?;
                partitions.flush_if_large().await
            }
            Self::Big { file, .. } => file.flush_if_large().await,
        }
    }

    /// Ends the partition. The caller must call [`IndexWriter::flush_if_large`] next.
    pub(super) fn end_partition(
        &mut self,
        types: &[(CqlType, bool)],
        ended: EndedPartition<'_>,
    ) -> Result<()> {
        let EndedPartition { key, hash, deletion, start, end_offset, last } = ended;
        match self {
            Self::Trie { blocks, partitions, index, scratch } => {
                let last = last.map(|last| last.position());
                let entry =
                    blocks.finish_partition(types, last, &key.key, start, deletion, end_offset)?;
                let position = entry.map_or(IndexPosition::Data(start), IndexPosition::RowIndex);
                scratch.clear();
                encode_decorated_key(key.token.0, &key.key, scratch);
                let hash_byte = hash.1 as u8;
                index
                    .add(partitions, scratch, &key.key, hash_byte, position)
                    .map_err(|error| rejected(partitions, error))
            }
            Self::Big { file, index, blocks, summary, promoted } => {
                let finished = blocks.finish(types, last, deletion, end_offset, promoted);
                finished.map_err(|error| rejected(file, error))?;
                let promoted = (!promoted.is_empty()).then_some(promoted.as_slice());
                let position = index
                    .append(file, &key.key, start, promoted)
                    .map_err(|error| rejected(file, error))?;
                summary.add_at(&key.key, position, start);
                Ok(())
            }
        }
    }

    /// Writes the rest of the index files and, if they are to be durable, syncs them.
    pub(super) async fn finish(self) -> Result<WrittenIndex> {
        match self {
            Self::Trie { blocks, mut partitions, index, .. } => {
                index.finish(&mut partitions).map_err(|error| {
                    SSTableError::rejected(partitions.name(), error.to_string())
                })?;
                let files = vec![
                    (Component::Partitions, partitions.finish().await?),
                    (Component::Rows, blocks.finish().await?),
                ];
                Ok(WrittenIndex { files, small: BTreeMap::new() })
            }
            Self::Big { file, summary, .. } => Ok(WrittenIndex {
                files: vec![(Component::Index, file.finish().await?)],
                small: BTreeMap::from([(Component::Summary, summary.finish().into())]),
            }),
        }
    }
}

/// Returns the parts of a position that a builder of blocks takes.
#[inline]
fn values_and_weight(
    position: BlockPositionRef<'_>,
) -> (impl Iterator<Item = Option<&[u8]>> + Clone, i8) {
    let position = position.position();
    (borrowed(position.values), position.weight)
}

fn rejected(file: &AppendFile, error: impl std::fmt::Display) -> SSTableError {
    SSTableError::rejected(file.name(), error.to_string())
}

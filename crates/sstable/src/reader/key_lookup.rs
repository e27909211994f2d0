//! Finds the partition of a key, or the first partition of a range.
//!
//! Format: docs/formats/partition-index.md.

use espalier_mutation::{DecoratedKey, DeletionTime, KeyBound, KeyRange, murmur3};
use espalier_runtime::{trace, trace_event};
use espalier_types::byte_comparable::{GT_NEXT, LT_NEXT};

use super::{
    index::{Index, TrieIndex},
    row_index::RowIndex,
    sstable_reader::SSTableReader,
    trie_keys::encode_token,
};
use crate::{
    data::{input::DataInput, stream::DataStream},
    error::{Result, SSTableError},
    index::{
        big::BigIndex,
        bti::{
            IndexError,
            partition_index::{Candidate, IndexPosition},
            row_index::RowIndexReader,
        },
    },
    page_cache::{CachedFile, Caching},
};

/// A partition that the index has found.
pub(crate) struct FoundPartition {
    /// The position of the partition's head in Data.db.
    pub(crate) position: u64,
    /// The partition's deletion, if the partition has a row index. Otherwise this field is live,
    /// and the partition's head holds the deletion.
    pub(crate) deletion: DeletionTime,
    pub(crate) index: Option<RowIndex>,
    /// A stream at the partition's head if the look-up has read the head, so that the head is not
    /// read twice.
    pub(crate) data: Option<DataStream>,
}

impl SSTableReader {
    /// Finds the partition with exactly this key, by the filter and the index. A trie stores only a
    /// prefix of the key, so the look-up compares the key in Rows.db or Data.db. `known` is a
    /// position in Data.db where the caller has seen this key, so that the look-up does not read
    /// the key there again.
    pub(crate) async fn find_partition(
        &self,
        key: &DecoratedKey,
        known: Option<u64>,
        caching: Caching,
    ) -> Result<Option<FoundPartition>> {
        let hash = murmur3::hash(&key.key);
        if !self.may_contain_hash(key.borrowed(), hash) {
            return Ok(None);
        }
        let found = match &self.0.index {
            Index::Trie(index) => self.find_in_trie(index, key, hash.1 as u8, known, caching).await,
            Index::Big(index) => self.find_in_big(index, key, caching).await,
        }?;
        if trace::is_on() {
            let place = found.as_ref().map(|found| (found.position, found.index.is_some()));
            self.trace_found(place);
        }
        Ok(found)
    }

    /// Traces the position in Data.db at which a look-up in the index ended, and whether the
    /// partition has a row index. `None` means that the SSTable lacks the partition.
    #[cold]
    pub(super) fn trace_found(&self, found: Option<(u64, bool)>) {
        let sstable = &self.0.descriptor;
        match found {
            None => trace_event!(
                "Partition index lookup complete (bloom filter false positive) for sstable {sstable}"
            ),
            Some((position, has_row_index)) => {
                let index = if has_row_index { "a row index" } else { "no row index" };
                trace_event!(
                    "Partition index lookup complete for sstable {sstable}: at offset {position} of its data, {index}"
                );
            }
        }
    }

    async fn find_in_trie(
        &self,
        trie: &TrieIndex,
        key: &DecoratedKey,
        hash_byte: u8,
        known: Option<u64>,
        caching: Caching,
    ) -> Result<Option<FoundPartition>> {
        let mut bytes = Vec::with_capacity(key.key.len() + 16);
        trie.keys.encode(key, &mut bytes);
        let source = trie.partitions.source().for_one_read(caching);
        let candidate = trie
            .partitions
            .exact_candidate(&source, &bytes, hash_byte)
            .await
            .map_err(|error| self.partitions_error(error))?;
        match candidate {
            None => Ok(None),
            Some(IndexPosition::RowIndex(entry)) => {
                let index = self.open_row_index(trie, entry, caching).await?;
                if index.entry().key != key.key {
                    return Ok(None);
                }
                let (position, deletion) =
                    (index.entry().data_position, index.entry().partition_deletion);
                let index = Some(RowIndex::Trie(index));
                Ok(Some(FoundPartition { position, deletion, index, data: None }))
            }
            Some(IndexPosition::Data(position)) => {
                let mut data = None;
                if known != Some(position) {
                    let (found, stream) = self.key_at(position, caching).await?;
                    if found != *key {
                        return Ok(None);
                    }
                    data = Some(stream);
                }
                let deletion = DeletionTime::LIVE;
                Ok(Some(FoundPartition { position, deletion, index: None, data }))
            }
        }
    }

    async fn find_in_big(
        &self,
        big: &BigIndex<CachedFile>,
        key: &DecoratedKey,
        caching: Caching,
    ) -> Result<Option<FoundPartition>> {
        let file = big.file().for_one_read(caching);
        let Some(entry) = big.exact(&file, key).await? else { return Ok(None) };
        let positions = self.0.positions.borrow().clone();
        let form = self.0.features.deletion_time;
        let index = big.promoted_index(file, &entry, &positions, form).await?;
        let deletion =
            index.as_ref().map_or(DeletionTime::LIVE, |index| index.partition_deletion());
        let (position, index) = (entry.data_position, index.map(RowIndex::Promoted));
        Ok(Some(FoundPartition { position, deletion, index, data: None }))
    }

    async fn open_row_index(
        &self,
        trie: &TrieIndex,
        entry: u64,
        caching: Caching,
    ) -> Result<RowIndexReader<CachedFile>> {
        let index = RowIndexReader::open(trie.rows.for_one_read(caching), entry)
            .await
            .map_err(|error| SSTableError::index(trie.rows.name(), error))?;
        if index.entry().data_position < self.0.data.length() {
            Ok(index)
        } else {
            let reason = "an entry leads past the end of Data.db";
            Err(SSTableError::corrupt(trie.rows.name(), entry, reason))
        }
    }

    /// Reads the key at a position of Data.db, and returns it with a stream at that position.
    async fn key_at(&self, position: u64, caching: Caching) -> Result<(DecoratedKey, DataStream)> {
        if position >= self.0.data.length() {
            let name = self.0.index.name();
            let reason = "a leaf leads past the end of Data.db";
            return Err(SSTableError::corrupt(name, position, reason));
        }
        let mut stream = DataStream::cached(self.0.data.with_caching(caching), position);
        stream.fill(2).await?;
        let length = stream.input().u16().map_err(|wrong| stream.corrupt(wrong.reason()))?;
        stream.fill(2 + usize::from(length)).await?;
        let mut input = DataInput::new(stream.window(), stream.offset() + 2);
        let key =
            input.span(usize::from(length)).map_err(|wrong| stream.corrupt(wrong.reason()))?;
        Ok((DecoratedKey::new(stream.window().slice(key.0..key.1)), stream))
    }

    /// Resolves an entry of the index to a position in Data.db and a key.
    pub(crate) async fn resolve(
        &self,
        trie: &TrieIndex,
        candidate: Candidate,
        caching: Caching,
    ) -> Result<(u64, DecoratedKey)> {
        match candidate.position {
            IndexPosition::Data(position) => {
                Ok((position, self.key_at(position, caching).await?.0))
            }
            IndexPosition::RowIndex(entry) => {
                let index = self.open_row_index(trie, entry, caching).await?;
                let entry = index.entry();
                Ok((entry.data_position, DecoratedKey::new(entry.key.clone().into())))
            }
        }
    }

    /// Finds the position in Data.db of the first partition of a range; `None` if no partition
    /// begins at or after the range's start.
    pub(crate) async fn first_position(
        &self,
        range: &KeyRange,
        caching: Caching,
    ) -> Result<Option<u64>> {
        if range.starts_before(&self.0.first_key) {
            return Ok(Some(0));
        }
        match &self.0.index {
            Index::Trie(index) => self.first_position_in_trie(index, range, caching).await,
            Index::Big(index) => {
                let file = index.file().for_one_read(caching);
                let entry = index.ceiling(&file, &range.start).await?;
                Ok(entry.map(|entry| entry.data_position))
            }
        }
    }

    async fn first_position_in_trie(
        &self,
        trie: &TrieIndex,
        range: &KeyRange,
        caching: Caching,
    ) -> Result<Option<u64>> {
        let mut bytes = Vec::new();
        match &range.start {
            KeyBound::Unbounded => return Ok(Some(0)),
            KeyBound::BeforeToken(token) => {
                encode_token(token.0, &mut bytes);
                bytes.push(LT_NEXT);
            }
            KeyBound::AfterToken(token) => {
                encode_token(token.0, &mut bytes);
                bytes.push(GT_NEXT);
            }
            KeyBound::BeforeKey(key) | KeyBound::AfterKey(key) => trie.keys.encode(key, &mut bytes),
        }
        let file = trie.partitions.source().for_one_read(caching);
        let mut cursor = trie.partitions.cursor(file);
        let mut candidate =
            cursor.seek_ceiling(&bytes).await.map_err(|error| self.partitions_error(error))?;
        // The trie compares prefixes only: the first entry may lie before the bound.
        while let Some(found) = candidate {
            let (position, key) = self.resolve(trie, found, caching).await?;
            trie.keys.encode(&key, &mut bytes);
            // A wrong pointer may lead to a later partition, and the scan would omit the partitions
            // before it.
            if !bytes.starts_with(cursor.prefix()) {
                let name = self.0.index.name();
                let reason = "a leaf leads to another key than its own";
                return Err(SSTableError::corrupt(name, position, reason));
            }
            if range.starts_before(&key) {
                return Ok(Some(position));
            }
            espalier_runtime::maybe_yield().await;
            candidate = cursor.next().await.map_err(|error| self.partitions_error(error))?;
        }
        Ok(None)
    }

    pub(crate) fn partitions_error(&self, error: IndexError<SSTableError>) -> SSTableError {
        SSTableError::index(self.0.index.name(), error)
    }
}

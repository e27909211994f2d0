//! The targets of the legacy index, without the Data.db to which it points.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{ClusteringComparator, DecoratedKey, KeyBound, Token};
use espalier_sstable::{
    Component, FileName,
    index::big::{
        BigIndex, MemoryFile,
        partition_index::PromotedLocation,
        promoted_index::{PositionFormat, PromotedIndexReader},
        summary::Summary,
    },
    versions::DeletionTimeForm,
};
use espalier_types::CqlType;

use crate::{executor::block_on, input::Input, sets::set, types::clustering_types};

const MAX_STEPS: usize = 2000;
/// The number of a set that Cassandra wrote in version `nb`.
const SET_WITH_SUMMARY: usize = 4;

fn name(component: Component) -> FileName {
    FileName::new(component.name().as_ref().as_ref())
}

fn file(bytes: &[u8]) -> MemoryFile {
    MemoryFile::new(name(Component::Index), Bytes::copy_from_slice(bytes))
}

fn form(byte: u8) -> DeletionTimeForm {
    match byte % 2 {
        0 => DeletionTimeForm::Unsigned,
        _ => DeletionTimeForm::Legacy,
    }
}

/// Reads Index.db. Input: `DELETION FORM, CLUSTERING TYPES, be16 length of Data.db in KiB`, then
/// Index.db.
pub fn index(data: &[u8]) {
    let mut input = Input(data);
    let form = form(input.byte());
    let types = clustering_types(&mut input);
    let data_length = u64::from(input.short()) << 10;
    block_on(ask(input.0, None, data_length, form, &types));
}

/// Reads Summary.db. Input: `PART: Index.db`, or an empty part for the index of a real set, then
/// Summary.db.
pub fn summary(data: &[u8]) {
    let mut input = Input(data);
    let part = input.part();
    let real = set(SET_WITH_SUMMARY);
    let index = match part {
        [] => real.component(&Component::Index),
        bytes => Bytes::copy_from_slice(bytes),
    };
    let summary = Bytes::copy_from_slice(input.0);
    block_on(async {
        if let Ok(summary) = Summary::read(&name(Component::Summary), &summary).await {
            for number in 0..summary.len().min(64) {
                let key = summary.key(number);
                let _ = summary.interval_of(Token::of(key), key);
                let _ = summary.position(number);
            }
            let _ = (summary.last_interval(), summary.memory_bytes());
        }
        ask(&index, Some(&summary), 1 << 30, DeletionTimeForm::Legacy, &[]).await;
    });
}

async fn ask(
    index: &[u8],
    summary: Option<&Bytes>,
    data_length: u64,
    form: DeletionTimeForm,
    types: &[(CqlType, bool)],
) {
    let summary_name = name(Component::Summary);
    let summary = summary.map(|bytes| (&summary_name, bytes));
    let Ok(index) = BigIndex::open(file(index), summary, data_length, 2).await else { return };
    let format = format_of(types);
    let mut keys = vec![DecoratedKey::new(Bytes::from_static(b"absent"))];
    let mut entries = index.entries();
    let mut steps = 0;
    while let (Ok(Some(entry)), true) = (entries.next().await, steps < MAX_STEPS) {
        steps += 1;
        if keys.len() < 8 {
            keys.push(entry.key.clone());
            if let Ok(Some(blocks)) =
                index.promoted_index(index.file().clone(), &entry, &format, form).await
            {
                ask_blocks(&blocks).await;
            }
        }
    }
    for key in &keys {
        let _ = index.exact(index.file(), key).await;
        let bounds = [
            KeyBound::Unbounded,
            KeyBound::AfterKey(key.clone()),
            KeyBound::BeforeKey(key.clone()),
            KeyBound::BeforeToken(key.token),
            KeyBound::AfterToken(key.token),
        ];
        for bound in bounds {
            let _ = index.ceiling(index.file(), &bound).await;
        }
    }
}

fn format_of(types: &[(CqlType, bool)]) -> Arc<PositionFormat> {
    let comparator = ClusteringComparator { types: types.into() };
    Arc::new(PositionFormat::new(types, comparator))
}

/// Reads a promoted index. Input: `DELETION FORM, CLUSTERING TYPES`, then a promoted index.
pub fn promoted_index(data: &[u8]) {
    let mut input = Input(data);
    let form = form(input.byte());
    let format = format_of(&clustering_types(&mut input));
    let location = PromotedLocation { start: 0, length: input.0.len() as u64 };
    block_on(async {
        if let Ok(blocks) = PromotedIndexReader::open(file(input.0), location, format, form).await {
            ask_blocks(&blocks).await;
        }
    });
}

async fn ask_blocks(index: &PromotedIndexReader<MemoryFile>) {
    for number in 0..index.block_count().min(32) {
        let _ = index.block(number).await;
        let Ok(block) = index.promoted_block(number).await else { continue };
        for position in [&block.first, &block.last] {
            let _ = index.floor_block(position.position()).await;
            let _ = index.end_block(position.position()).await;
        }
    }
    let _ = index.last_block().await;
}

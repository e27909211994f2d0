//! A cache of the encoded columns of prepared statements, so that a result copies them instead of
//! encoding them again.
//!
//! The key is the address of the metadata, which stays valid because the cache holds the metadata.
//! Memory: at most [`CAPACITY`] entries with [`MAX_COLUMNS`] columns on a shard. A full cache drops
//! all entries, and later requests add the entries that they need.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use espalier_cql::ResultMetadata;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::convert::encode_columns;
use crate::protocol::ProtocolVersion;
use crate::protocol::response::EncodedColumns;

/// Maximum number of entries of one shard. Arbitrary; an application has tens or hundreds of
/// statements.
const CAPACITY: usize = 10_000;

/// Maximum number of columns of all entries of one shard. A column of an entry takes about 200
/// bytes, so all columns together take at most about 20 MB.
const MAX_COLUMNS: usize = 100_000;

/// The cached columns of one shard.
#[derive(Debug, Default)]
pub(crate) struct ColumnCache {
    by_address: RefCell<HashMap<usize, Rc<CachedColumns>, RandomState>>,
    /// The number of columns of all entries.
    columns: Cell<usize>,
}

/// The encoded columns of a result. The form of each protocol version is encoded when a request
/// first needs it.
#[derive(Debug)]
pub(crate) struct CachedColumns {
    metadata: Arc<ResultMetadata>,
    encoded: [OnceCell<EncodedColumns>; 3],
}

impl ColumnCache {
    /// Returns the columns of a prepared statement's result.
    pub fn get(&self, metadata: &Arc<ResultMetadata>) -> Rc<CachedColumns> {
        let mut by_address = self.by_address.borrow_mut();
        let address = Arc::as_ptr(metadata).addr();
        if let Some(cached) = by_address.get(&address) {
            return Rc::clone(cached);
        }
        let columns = metadata.columns.len();
        if by_address.len() >= CAPACITY || self.columns.get() + columns > MAX_COLUMNS {
            by_address.clear();
            self.columns.set(0);
        }
        self.columns.set(self.columns.get() + columns);
        let metadata = Arc::clone(metadata);
        let cached = Rc::new(CachedColumns { metadata, encoded: Default::default() });
        by_address.insert(address, Rc::clone(&cached));
        cached
    }
}

impl CachedColumns {
    /// Returns the columns as `version` of the protocol encodes them.
    pub fn encoded(&self, version: ProtocolVersion) -> &EncodedColumns {
        let [v3, v4, v5] = &self.encoded;
        let cell = match version {
            ProtocolVersion::V3 => v3,
            ProtocolVersion::V4 => v4,
            ProtocolVersion::V5 => v5,
        };
        cell.get_or_init(|| encode_columns(version, &self.metadata.columns))
    }
}

#[cfg(test)]
mod tests {
    use espalier_cql::ColumnSpec;
    use espalier_types::CqlType;

    use super::*;

    #[test]
    fn columns_are_bounded() {
        let column = |number: usize| ColumnSpec {
            keyspace: "k".into(),
            table: "t".into(),
            name: format!("c{number}"),
            column_type: CqlType::Int,
        };
        let cache = ColumnCache::default();
        let one = || Arc::new(ResultMetadata::new((0..1000).map(column).collect()));
        let all: Vec<_> = (0..150).map(|_| one()).collect();
        for metadata in &all {
            let cached = cache.get(metadata);
            assert!(Arc::ptr_eq(&cached.metadata, metadata));
            assert!(Rc::ptr_eq(&cache.get(metadata), &cached));
        }
        let held = all.iter().filter(|metadata| Arc::strong_count(metadata) > 1).count();
        assert_eq!(held, 50);
    }
}

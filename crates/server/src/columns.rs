//! A cache of the encoded columns of prepared statements, so that a result copies them instead of
//! encoding them again.
//!
//! The key is the address of the metadata, which stays valid because the cache holds the metadata.
//! Memory: at most [`CAPACITY`] entries on a shard. A full cache drops all entries, and later
//! requests add the entries that they need.

use std::cell::{OnceCell, RefCell};
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

/// The cached columns of one shard.
#[derive(Debug, Default)]
pub(crate) struct ColumnCache {
    by_address: RefCell<HashMap<usize, Rc<CachedColumns>, RandomState>>,
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
        if by_address.len() >= CAPACITY {
            by_address.clear();
        }
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

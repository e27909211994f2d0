//! The data model: schema, keys, tokens, cells, rows, tombstones, streams of fragments, and the
//! rules that reconcile them.
//!
//! The layers above (trie memtable, SSTables, commit log, CQL) exchange these types:
//!
//! * a **partition** is named by a [`DecoratedKey`] and ordered by (token, key bytes);
//! * it holds a partition deletion, a static row, and [`Unfiltered`]s: rows and range tombstone
//!   markers in clustering order;
//! * a write is a [`Mutation`]: partition updates applied together;
//! * a read is a merge of [`UnfilteredStream`]s by the rules in [`reconcile`].
//!
//! Values are serialised bytes (`bytes::Bytes`); nothing here owns a file, a clock or a thread.

mod cell;
pub mod clustering;
pub mod counter;
mod deletion;
pub mod encoding;
mod fragment;
mod index_entries;
mod key;
mod log_position;
mod lookup;
pub mod murmur3;
mod packed;
mod partition_update;
pub mod path;
pub mod purge;
mod range_tombstones;
pub mod reconcile;
mod row;
mod row_content;
pub mod schema;
mod term_forms;
mod visibility;

pub use cell::{
    Cell, CellRef, EXPIRED_LIVENESS_TTL, Liveness, MAX_TTL_SECONDS, NO_DELETION_TIME, NO_TIMESTAMP,
};
pub use clustering::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, ClusteringSlice,
    ClusteringSlices, PositionRef,
};
pub use deletion::DeletionTime;
pub use fragment::{
    Direction, PartitionHeader, RangeTombstoneMarker, Unfiltered, UnfilteredStream,
};
pub use index_entries::{
    IndexedColumn, IndexedRow, Listed, MAX_FORM_BYTES, put_entry_value, put_form,
};
pub use key::{
    CompositeError, DecoratedKey, DecoratedKeyRef, KeyBound, KeyRange, Token, build_composite,
    put_composite_component, split_composite,
};
pub use log_position::{LogPosition, joined_intervals};
pub use lookup::{FoundRow, Lookup};
pub use packed::{PackError, PackedCells, PackedColumn, PackedRow, pack_row, unpack_row};
pub use partition_update::{Mutation, PartitionUpdate};
pub use range_tombstones::{RangeTombstone, RangeTombstoneList};
pub use row::{ColumnData, ComplexColumn, Row};
pub use row_content::{ColumnRef, RowContent, RowRef};
pub use term_forms::TermForms;
pub use visibility::Visibility;

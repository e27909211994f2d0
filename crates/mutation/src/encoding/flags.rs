//! Flags of rows, markers and cells. Format: docs/formats/data.md.

/// Ends a partition.
pub const END_OF_PARTITION: u8 = 0x01;
/// The item is a range tombstone marker.
pub const IS_MARKER: u8 = 0x02;
/// The row has a liveness.
pub const HAS_TIMESTAMP: u8 = 0x04;
/// The liveness expires.
pub const HAS_TTL: u8 = 0x08;
/// The row has a deletion.
pub const HAS_DELETION: u8 = 0x10;
/// The row has all columns of the header, so that no subset is written.
pub const HAS_ALL_COLUMNS: u8 = 0x20;
/// Each complex column of the row has a deletion.
pub const HAS_COMPLEX_DELETION: u8 = 0x40;
/// Extended flags follow.
pub const EXTENSION: u8 = 0x80;

/// The row is a static row.
pub const EXTENDED_STATIC: u8 = 0x01;
/// Cassandra: the row deletion is shadowable.
pub const EXTENDED_SHADOWABLE: u8 = 0x02;
/// ScyllaDB: a shadowable deletion follows the row deletion, or replaces it.
pub const EXTENDED_SHADOWABLE_FOLLOWS: u8 = 0x80;

/// The cell is a tombstone.
pub const CELL_DELETED: u8 = 0x01;
/// The cell has a time to live.
pub const CELL_EXPIRING: u8 = 0x02;
/// The value has no bytes.
pub const CELL_EMPTY: u8 = 0x04;
/// The cell has the timestamp of the row's liveness.
pub const CELL_ROW_TIMESTAMP: u8 = 0x08;
/// The cell expires with the row's liveness.
pub const CELL_ROW_TTL: u8 = 0x10;
/// All flags of a cell.
pub const CELL_FLAGS: u8 = 0x1F;

//! The byte-comparable paths of partitions, rows and bounds: the keys of the memtable's trie, which
//! the row cache, secondary indexes, empty ranges and turns use as well.
//!
//! ```text
//! partition   40 token 40 escaped key 38
//!   + 10 bound       a boundary of range deletions: prefix values, then 20 (before) or 60
//!                    (behind)
//!   + 14 position    a tombstone run at its first position (the path of a row, or a bound); the
//!                    content is its last position
//!   + 18             the static row
//!   + clustering     a row: its values, then 38 (a table without clustering columns: just 38)
//! ```
//!
//! Clustering values have the ordered byte-comparable form, whose byte order is the comparator's
//! order. The order of keys is: the partition, its deletion branch, its runs, its static row, its
//! rows in clustering order. The deletion branch and the rows use the same encoding, so bounds and
//! rows compare by their bytes. After a common prefix of values comes a bound before it (20), the
//! end of a row (38), another value (3E, 3F, 40 or 41) or a bound behind it (60), in this order.

use espalier_types::{
    CqlType, DecodeError,
    byte_comparable::{
        GT_NEXT, LT_NEXT, NEXT_COMPONENT, TERMINATOR, append_clustering, decode_clustering,
        decode_decorated_key, encode_decorated_key, encode_ordered_clustering,
    },
};

use crate::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, DecoratedKey, DecoratedKeyRef,
    Direction, KeyBound, Token,
};

/// Returns the least byte string behind all strings that begin with `prefix`; `None` if there is
/// none.
pub fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut behind = prefix.to_vec();
    while behind.last() == Some(&u8::MAX) {
        behind.pop();
    }
    *behind.last_mut()? += 1;
    Some(behind)
}

/// Leads to the boundaries of range deletions.
pub const DELETIONS: u8 = 0x10;
/// Leads to the tombstone runs.
pub const TOMBSTONE_RUNS: u8 = 0x14;
/// Leads to the static row.
pub const STATIC: u8 = 0x18;
/// The least byte with which a row's clustering can begin.
pub const FIRST_ROW: u8 = TERMINATOR;

/// Greater than any byte that follows a partition's path or a token in a key.
pub const BEHIND: u8 = 0xFF;

/// The bound before all rows.
pub const BOTTOM: u8 = LT_NEXT;
/// The bound behind all rows.
pub const TOP: u8 = GT_NEXT;

/// Appends the path of a partition.
#[inline]
pub fn put_partition(key: DecoratedKeyRef<'_>, path: &mut Vec<u8>) {
    encode_decorated_key(key.token.0, key.key, path);
}

/// Appends the common beginning of the paths of all partitions with a token.
pub fn put_token(token: Token, path: &mut Vec<u8>) {
    path.push(NEXT_COMPONENT);
    path.extend_from_slice(&(token.0 ^ i64::MIN).to_be_bytes());
}

/// Returns the bound at a token that has this path; `None` for the path of anything else.
pub fn token_bound(path: &[u8]) -> Option<KeyBound> {
    let (token, rest) = path.strip_prefix(&[NEXT_COMPONENT])?.split_first_chunk::<8>()?;
    let token = Token(i64::from_be_bytes(*token) ^ i64::MIN);
    match rest {
        [] => Some(KeyBound::BeforeToken(token)),
        [BEHIND] => Some(KeyBound::AfterToken(token)),
        _ => None,
    }
}

/// Appends the path from which a seek finds the first partition behind the bound. All partitions
/// before the bound have smaller paths; no partition behind it has a smaller path.
pub fn put_key_bound(bound: &KeyBound, path: &mut Vec<u8>) {
    match bound {
        KeyBound::Unbounded => {}
        KeyBound::BeforeToken(token) => put_token(*token, path),
        KeyBound::AfterToken(token) => {
            put_token(*token, path);
            path.push(BEHIND);
        }
        KeyBound::BeforeKey(key) => put_partition(key.borrowed(), path),
        KeyBound::AfterKey(key) => {
            put_partition(key.borrowed(), path);
            path.push(BEHIND);
        }
    }
}

/// Returns the key of the partition to which the entry at `path` belongs. If `is_own`, `path` is
/// the partition's own path. Otherwise it is the path of the partition's only row, in a table
/// without clustering columns; that path is one byte longer.
///
/// # Errors
///
/// Fails if the path is malformed.
pub fn partition_key(path: &[u8], is_own: bool) -> Result<DecoratedKey, DecodeError> {
    let partition = if is_own {
        path
    } else {
        path.split_last().map(|(_, partition)| partition).unwrap_or_default()
    };
    let (token, key) = decode_decorated_key(partition)?;
    Ok(DecoratedKey { token: Token(token), key: key.into() })
}

/// Appends the path of a row within its partition.
#[inline]
pub fn put_row<V: AsRef<[u8]>>(
    comparator: &ClusteringComparator,
    values: &[Option<V>],
    path: &mut Vec<u8>,
) {
    encode_ordered_clustering(&comparator.types, values, TERMINATOR, path);
}

/// Appends a bound, as in the deletion branch (without [`DELETIONS`]).
pub fn put_bound(comparator: &ClusteringComparator, bound: &ClusteringBound, path: &mut Vec<u8>) {
    let terminator = if bound.kind.weight() < 0 { LT_NEXT } else { GT_NEXT };
    encode_ordered_clustering(&comparator.types, &bound.values, terminator, path);
}

/// Returns the clustering of a row from its path within the partition.
///
/// # Errors
///
/// Fails if the path is malformed.
pub fn clustering(
    comparator: &ClusteringComparator,
    path: &[u8],
) -> Result<Clustering, DecodeError> {
    let (values, _) = decode_clustering(&comparator.types, path)?;
    Ok(Clustering { values: values.into() })
}

/// Appends the values of a row's clustering, each behind its length as a be32 (−1: null), from
/// its path within the partition.
///
/// # Errors
///
/// Fails if the path is malformed.
pub fn append_values(
    comparator: &ClusteringComparator,
    path: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    append_clustering(&comparator.types, path, out)
}

/// Returns a bound from its path in the deletion branch. The path does not say whether the bound
/// starts or ends a deletion, so the kind is always a start. The caller knows the deletions on both
/// sides.
///
/// # Errors
///
/// Fails if the path is malformed.
pub fn bound(
    comparator: &ClusteringComparator,
    path: &[u8],
) -> Result<ClusteringBound, DecodeError> {
    let (values, terminator) = decode_clustering(&comparator.types, path)?;
    Ok(ClusteringBound { kind: kind_of(terminator), values: values.into() })
}

/// Returns the far end of a range that is walked in `direction`. If `path` is a bound, the range
/// ends there. If it is a row, the range includes the row.
///
/// # Errors
///
/// Fails if the path is malformed.
pub fn far_end(
    comparator: &ClusteringComparator,
    path: &[u8],
    direction: Direction,
) -> Result<ClusteringBound, DecodeError> {
    let (values, terminator) = decode_clustering(&comparator.types, path)?;
    let kind = match (terminator, direction) {
        (LT_NEXT, _) => BoundKind::InclusiveStart,
        (GT_NEXT, _) => BoundKind::ExclusiveStart,
        (_, Direction::Forward) => BoundKind::ExclusiveStart,
        (_, Direction::Reverse) => BoundKind::InclusiveStart,
    };
    Ok(ClusteringBound { kind, values: values.into() })
}

/// Returns the start kind of a bound with this terminator.
pub fn kind_of(terminator: u8) -> BoundKind {
    if terminator == LT_NEXT { BoundKind::InclusiveStart } else { BoundKind::ExclusiveStart }
}

/// Returns whether a path decodes to the exact bytes of the values of clustering columns. For types
/// with different bytes of equal values (decimal 1.0 and 1.00, NaN with other bits), the row keeps
/// the bytes that were written first.
pub fn is_exact(comparator: &ClusteringComparator) -> bool {
    comparator.types.iter().all(|(column_type, _)| {
        matches!(
            column_type,
            CqlType::Ascii
                | CqlType::Text
                | CqlType::Blob
                | CqlType::Inet
                | CqlType::Tinyint
                | CqlType::Smallint
                | CqlType::Int
                | CqlType::Bigint
                | CqlType::Timestamp
                | CqlType::Date
                | CqlType::Time
                | CqlType::Timeuuid
                | CqlType::Uuid
        )
    })
}

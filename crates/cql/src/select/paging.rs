//! The paging state: a client stores it between two pages and sends it back, perhaps after a flush
//! or a restart.
//!
//! ```text
//! version u8 = 1, flags u8 (1: clustering follows),
//! rows left by LIMIT be32 (2^32 - 1: no limit), rows of this partition already returned be32,
//! key length be16, key, [1: clustering count be16, each be32 length (-1: null) and bytes]
//! ```
//! The state names a key and a clustering, not a position in any structure. It comes from the
//! network, so decoding checks the lengths of all fields and the clustering values.

use bytes::Bytes;
use espalier_mutation::{Clustering, DecoratedKey, schema::TableMetadata};
use espalier_storage::ReadPosition;

use super::group::put;
use crate::{Error, ErrorCode, Result};

const VERSION: u8 = 1;
const HAS_CLUSTERING: u8 = 1;

/// The position after which the next page begins.
#[derive(Clone, Debug, PartialEq)]
pub struct PagingState {
    /// The row or partition after which the next page begins.
    pub position: ReadPosition,
    /// Rows that LIMIT still allows.
    pub rows_left: u32,
}

impl PagingState {
    /// Encodes the state for the client.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION, 0];
        out.extend_from_slice(&self.rows_left.to_be_bytes());
        let rows_of_partition = u32::try_from(self.position.rows_of_partition).unwrap_or(u32::MAX);
        out.extend_from_slice(&rows_of_partition.to_be_bytes());
        out.extend_from_slice(&(self.position.key.key.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.position.key.key);
        if let Some(clustering) = &self.position.clustering {
            out[1] |= HAS_CLUSTERING;
            out.extend_from_slice(&(clustering.values.len() as u16).to_be_bytes());
            for value in &clustering.values {
                put(value.as_deref(), &mut out);
            }
        }
        out.into()
    }

    /// Decodes and checks the state that a client sent back.
    ///
    /// # Errors
    /// [`ErrorCode::ProtocolError`] if a field is malformed or the clustering does not fit the
    /// table's columns.
    pub fn decode(table: &TableMetadata, state: &[u8]) -> Result<Self> {
        let malformed =
            || Error::new(ErrorCode::ProtocolError, "Invalid value for the paging state");
        let mut rest = state;
        let mut take = |length: usize| -> Result<&[u8]> {
            let taken = rest.get(..length).ok_or_else(malformed)?;
            rest = &rest[length..];
            Ok(taken)
        };
        let be16 = |bytes: &[u8]| bytes.try_into().map(u16::from_be_bytes).unwrap_or_default();
        let be32 = |bytes: &[u8]| bytes.try_into().map(u32::from_be_bytes).unwrap_or_default();
        let &[version, flags] = take(2)? else { return Err(malformed()) };
        if version != VERSION || flags & !HAS_CLUSTERING != 0 {
            return Err(malformed());
        }
        let rows_left = be32(take(4)?);
        let rows_of_partition = be32(take(4)?) as usize;
        let length = usize::from(be16(take(2)?));
        let key = Bytes::copy_from_slice(take(length)?);
        let clustering = if flags & HAS_CLUSTERING != 0 {
            let count = usize::from(be16(take(2)?));
            if count != table.clustering_columns().len() {
                return Err(malformed());
            }
            let mut values = Vec::with_capacity(count);
            for column in table.clustering_columns() {
                let length = be32(take(4)?) as i32;
                if length < 0 {
                    values.push(None);
                    continue;
                }
                let value = take(length as usize)?;
                column.column_type.validate(value).map_err(|_| malformed())?;
                values.push(Some(Bytes::copy_from_slice(value)));
            }
            Some(Clustering { values: values.into() })
        } else {
            None
        };
        // A page that reaches LIMIT has no state.
        if !rest.is_empty() || key.is_empty() || rows_left == 0 {
            return Err(malformed());
        }
        let position = ReadPosition { key: DecoratedKey::new(key), clustering, rows_of_partition };
        Ok(Self { position, rows_left })
    }
}

#[cfg(test)]
mod tests {
    use espalier_mutation::schema::{TableBuilder, TableId};
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_state_without_rows_left_is_refused() {
        let table = TableBuilder::new("k", "t", TableId(Uuid::from_u128(1)))
            .partition_key("k", CqlType::Blob)
            .build();
        let key = DecoratedKey::new(Bytes::from_static(b"k"));
        let position = ReadPosition { key, clustering: None, rows_of_partition: 1 };
        for rows_left in [0, 1, u32::MAX] {
            let state = PagingState { position: position.clone(), rows_left };
            let decoded = PagingState::decode(&table, &state.encode());
            assert_eq!(decoded.is_ok(), rows_left > 0, "{rows_left}: {decoded:?}");
        }
    }
}

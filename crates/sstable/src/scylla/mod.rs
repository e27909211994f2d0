//! Scylla.db is a component that only ScyllaDB's format has. `verify` compares the checksums in it;
//! Espalier uses no other part of it. Format: docs/formats/scylla.md.
//!
//! The file has a be32 number of parts; each part is a be32 tag, a be32 length, and bytes. If the
//! checksums of components are among the parts, a be32 CRC-32 of everything before follows. The
//! order of the parts is free, and the reader skips parts with unknown tags.
//!
//! ScyllaDB treats an SSTable without Scylla.db as one of Apache Cassandra. Espalier writes `me`
//! files without it, because both servers read them. Of these two servers, only ScyllaDB reads
//! `mt`, so `mt` files have a Scylla.db. The schema in it names the key columns.

mod layout;
mod reader;
mod writer;

pub use layout::{ALL_FEATURES, ScyllaColumn, ScyllaColumnKind, ScyllaMetadata, ScyllaSchema};

/// Maximum length in bytes of a Scylla.db that the reader accepts (arbitrary). Real files have some
/// KiB.
pub const MAX_LENGTH: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use espalier_mutation::Token;
    use uuid::Uuid;

    use super::*;
    use crate::{Component, error::FileName};

    fn metadata() -> ScyllaMetadata {
        ScyllaMetadata {
            token_ranges: vec![(Token(-5), Token(7))],
            features: ALL_FEATURES,
            run_identifier: Some(Uuid::from_u128(1)),
            sstable_identifier: Some(Uuid::from_u128(2)),
            origin: "memtable".into(),
            build_id: String::new(),
            version: "1".into(),
            schema: Some(ScyllaSchema {
                table_id: Uuid::from_u128(3),
                schema_version: Uuid::nil(),
                keyspace: "ks".into(),
                table: "t".into(),
                columns: vec![ScyllaColumn {
                    kind: ScyllaColumnKind::Clustering,
                    name: "$ck0".into(),
                    type_name: "org.apache.cassandra.db.marshal.Int32Type".into(),
                }],
            }),
            checksums: vec![(Component::Rows, 0x1234_5678), (Component::Data, 1)],
        }
    }

    #[test]
    fn metadata_round_trips_and_every_cut_is_corrupt() {
        let file = FileName::new(Path::new("Scylla.db"));
        let bytes = metadata().to_bytes();
        assert_eq!(ScyllaMetadata::read(&file, &bytes).unwrap(), metadata());
        for length in 0..bytes.len() {
            assert!(ScyllaMetadata::read(&file, &bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn the_checksum_finds_every_flipped_bit() {
        let file = FileName::new(Path::new("Scylla.db"));
        let bytes = metadata().to_bytes();
        for place in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place / 8] ^= 1 << (place % 8);
            let read = ScyllaMetadata::read(&file, &flipped);
            // If the tag of the checksums part is flipped, the reader does not see the part. The
            // checksum of the file then remains as extra bytes.
            assert!(read.is_err(), "bit {place}");
        }
    }

    #[test]
    fn scylla_metadata_without_checksums_round_trips() {
        let file = FileName::new(Path::new("Scylla.db"));
        let metadata = ScyllaMetadata { checksums: Vec::new(), ..metadata() };
        assert_eq!(ScyllaMetadata::read(&file, &metadata.to_bytes()).unwrap(), metadata);
    }
}

//! This module writes Scylla.db.

use bytes::BufMut;
use espalier_mutation::schema::TableMetadata;
use espalier_types::CqlType;

use super::layout::{
    BUILD_ID, COMPONENT_CHECKSUMS, COMPONENTS, FEATURES, ORIGIN, RUN_IDENTIFIER, SCHEMA, SHARDING,
    SSTABLE_IDENTIFIER, ScyllaColumn, ScyllaColumnKind, ScyllaMetadata, ScyllaSchema, VERSION,
};
use crate::statistics::serialization_header::type_name;

impl ScyllaMetadata {
    /// Returns the bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut add = |tag: u32, write: &dyn Fn(&mut Vec<u8>)| {
            let mut body = Vec::new();
            write(&mut body);
            parts.push((tag, body));
        };
        if !self.checksums.is_empty() {
            add(COMPONENT_CHECKSUMS, &|out| self.put_checksums(out));
        }
        if let Some(schema) = &self.schema {
            add(SCHEMA, &|out| put_schema(schema, out));
        }
        if let Some(id) = self.sstable_identifier {
            add(SSTABLE_IDENTIFIER, &|out| out.put_slice(id.as_bytes()));
        }
        for (tag, text) in
            [(BUILD_ID, &self.build_id), (VERSION, &self.version), (ORIGIN, &self.origin)]
        {
            if !text.is_empty() {
                add(tag, &|out| put_text(text, out));
            }
        }
        if let Some(id) = self.run_identifier {
            add(RUN_IDENTIFIER, &|out| out.put_slice(id.as_bytes()));
        }
        add(FEATURES, &|out| out.put_u64(self.features));
        add(SHARDING, &|out| self.put_ranges(out));

        let mut out = Vec::new();
        out.put_u32(parts.len() as u32);
        for (tag, body) in &parts {
            out.put_u32(*tag);
            out.put_u32(body.len() as u32);
            out.put_slice(body);
        }
        if !self.checksums.is_empty() {
            out.put_u32(crc32fast::hash(&out));
        }
        out
    }

    fn put_checksums(&self, out: &mut Vec<u8>) {
        let numbered: Vec<_> = self
            .checksums
            .iter()
            .filter_map(|(component, checksum)| {
                let (number, _) = COMPONENTS.iter().find(|(_, other)| other == component)?;
                Some((*number, *checksum))
            })
            .collect();
        out.put_u32(numbered.len() as u32);
        for (number, checksum) in numbered {
            out.put_u32(number);
            out.put_u32(checksum);
        }
    }

    fn put_ranges(&self, out: &mut Vec<u8>) {
        out.put_u32(self.token_ranges.len() as u32);
        for (first, last) in &self.token_ranges {
            for token in [first, last] {
                out.put_u8(0);
                out.put_u16(8);
                out.put_i64(token.0);
            }
        }
    }
}

impl ScyllaSchema {
    /// Creates the description of a table's current schema.
    pub fn of(table: &TableMetadata) -> Self {
        let column = |kind, name: &str, column_type: &CqlType, reversed| ScyllaColumn {
            kind,
            name: name.into(),
            type_name: type_name(column_type, reversed),
        };
        let keys = table
            .partition_key_columns()
            .iter()
            .map(|key| column(ScyllaColumnKind::PartitionKey, &key.name, &key.column_type, false));
        let clusterings = table.clustering_columns().iter().map(|clustering| {
            let reversed = clustering.reversed;
            column(
                ScyllaColumnKind::Clustering,
                &clustering.name,
                &clustering.column_type,
                reversed,
            )
        });
        let statics = table.static_columns().iter().map(|c| (ScyllaColumnKind::Static, c));
        let regulars = table.regular_columns().iter().map(|c| (ScyllaColumnKind::Regular, c));
        let others =
            statics.chain(regulars).map(|(kind, c)| column(kind, &c.name, &c.column_type, false));
        Self {
            table_id: table.id.0,
            // ScyllaDB would take a schema version of Espalier's for one of its own.
            schema_version: uuid::Uuid::nil(),
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            columns: keys.chain(clusterings).chain(others).collect(),
        }
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.put_u32(text.len() as u32);
    out.put_slice(text.as_bytes());
}

fn put_schema(schema: &ScyllaSchema, out: &mut Vec<u8>) {
    out.put_slice(schema.table_id.as_bytes());
    out.put_slice(schema.schema_version.as_bytes());
    put_text(&schema.keyspace, out);
    put_text(&schema.table, out);
    out.put_u32(schema.columns.len() as u32);
    for column in &schema.columns {
        out.put_u8(column.kind as u8);
        put_text(&column.name, out);
        put_text(&column.type_name, out);
    }
}

//! `system_virtual_schema`: the virtual tables and their columns.

use super::{VirtualRows, text};
use crate::{
    node::Node,
    system::{column_row, is_virtual},
};

impl Node {
    pub(super) fn put_virtual_schema(&self, view: &str, rows: &mut VirtualRows<'_>) {
        let schema = self.store().schema();
        for keyspace in schema.keyspaces.values().filter(|keyspace| is_virtual(&keyspace.name)) {
            let key = [keyspace.name.as_str()];
            if view == "keyspaces" {
                rows.put(&key, [], |row| row);
            }
            for table in keyspace.tables.values() {
                match view {
                    "tables" => rows.put(&key, [text(&table.name)], |row| {
                        row.text("comment", &table.options.comment)
                    }),
                    "columns" => table.columns().iter().for_each(|column| {
                        rows.put_row(&key, |columns, timestamp_us| {
                            column_row(columns, table, column, timestamp_us)
                        });
                    }),
                    _ => {}
                }
            }
        }
    }
}

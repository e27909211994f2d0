//! `system_virtual_schema`: the virtual tables and their columns.

use super::{VirtualRows, text};
use crate::{
    node::Node,
    system::{is_virtual, with_column},
};

impl VirtualRows<'_> {
    pub(super) fn put_virtual_schema(&mut self, node: &Node, view: &str) {
        let schema = node.store().schema();
        for keyspace in schema.keyspaces.values().filter(|keyspace| is_virtual(&keyspace.name)) {
            let key = [keyspace.name.as_str()];
            if view == "keyspaces" {
                self.put(&key, [], |row| row);
            }
            for table in keyspace.tables.values() {
                match view {
                    "tables" => self.put(&key, [text(&table.name)], |row| {
                        row.text("comment", &table.options.comment)
                    }),
                    "columns" => table.columns().iter().for_each(|column| {
                        let names = [text(&table.name), text(&column.name)];
                        self.put(&key, names, |row| with_column(row, column));
                    }),
                    _ => {}
                }
            }
        }
    }
}

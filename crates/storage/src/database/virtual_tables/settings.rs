//! `system_views.settings`: the settings that the opener of the database gave.

use super::VirtualRows;
use crate::database::Database;

impl Database {
    pub(super) fn put_settings(&self, rows: &mut VirtualRows<'_>) {
        for (name, value) in self.inner.shared.settings() {
            rows.put(&[name], [], |row| match &value {
                Some(value) => row.text("value", value),
                None => row,
            });
        }
    }
}

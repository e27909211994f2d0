//! `system_views.settings`: the settings that the opener of the node gave, and the present
//! values of guardrails.

use super::VirtualRows;
use crate::node::Node;

impl VirtualRows<'_> {
    pub(super) fn put_settings(&mut self, node: &Node) {
        let guardrails = node.store().configuration().guardrails.settings().into_iter();
        let guardrails = guardrails.map(|(name, value)| (name.to_owned(), value));
        for (name, value) in node.store().shared.settings().into_iter().chain(guardrails) {
            self.put(&[name], [], |row| row.optional_text("value", value.as_deref()));
        }
    }
}

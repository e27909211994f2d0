//! Prints the structure as text, for tests and for people.
//!
//! One line for each node, indented by its depth in nodes: its type and block, then its
//! transitions. The content of a node is on the line of the node.

use super::node::{Inner, Node};
use super::pointer::Pointer;
use super::trie::InMemoryTrie;
use super::view::View;
use std::fmt::Write;

impl<C> InMemoryTrie<C> {
    /// Returns the nodes of the trie as text; `show` prints the contents. Takes time and memory in
    /// proportion to the size of the trie.
    pub fn dump(&self, show: impl Fn(&C) -> String) -> String {
        let view = self.view();
        let root = view.root();
        let mut dump = Dump { text: String::new(), view, show };
        if !root.is_none() {
            dump.node(root, 0, "");
        }
        dump.text
    }
}

struct Dump<'a, C, F> {
    text: String,
    view: View<'a, C>,
    show: F,
}

impl<C, F: Fn(&C) -> String> Dump<'_, C, F> {
    fn line(&mut self, level: usize, label: &str, what: std::fmt::Arguments<'_>, content: Pointer) {
        let space = if label.is_empty() { "" } else { " " };
        let indent = 2 * level;
        let _ = write!(self.text, "{:indent$}{label}{space}{what}", "");
        if !content.is_none() {
            let content = self.view.content(content);
            let _ = write!(self.text, " = {}", (self.show)(content));
        }
        self.text.push('\n');
    }

    fn node(&mut self, pointer: Pointer, level: usize, label: &str) {
        let (mut pointer, mut content, mut how) = (pointer, Pointer::NONE, String::new());
        if let Node::Prefix(prefix) = self.view.open(pointer) {
            content = prefix.content.get();
            how = match prefix.inner {
                Inner::Embedded(_) => " prefix".to_owned(),
                Inner::Standalone(_) => format!(" prefix {}", pointer.index()),
            };
            pointer = prefix.inner.pointer();
        }
        let block = pointer.index();
        match self.view.open(pointer) {
            Node::Leaf => self.line(level, label, format_args!("leaf"), pointer),
            Node::Chain(chain) => {
                let bytes = hex(chain.bytes);
                let what = format_args!("chain {block}+{}{how} [{bytes}]", pointer.offset());
                self.line(level, label, what, content);
                self.node(chain.child.get(), level + 1, "");
            }
            Node::Sparse(sparse) => {
                self.line(level, label, format_args!("sparse {block}{how}"), content);
                let word = sparse.load_word();
                let mut order = word.order();
                for _ in 0..word.count() {
                    let index = (order & 7) as usize;
                    order >>= 3;
                    let label = hex(&[word.byte(index)]);
                    self.node(sparse.children[index].get(), level + 1, &label);
                }
            }
            Node::Array(array) => {
                let room = array.layout().capacity;
                self.line(level, label, format_args!("array {block} for {room}{how}"), content);
                for (byte, child) in array.children() {
                    self.node(child, level + 1, &hex(&[byte]));
                }
            }
            Node::Wide(wide) => {
                self.line(level, label, format_args!("wide {block}{how}"), content);
                for (byte, child) in wide.children() {
                    self.node(child, level + 1, &hex(&[byte]));
                }
            }
            Node::Prefix(_) => self.line(level, label, format_args!("prefix of a prefix"), content),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

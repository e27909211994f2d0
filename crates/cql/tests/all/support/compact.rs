//! A readable form of syntax trees: Rust's `{:?}` without empty and default parts and without
//! positions.

use std::fmt::Debug;

/// A value, parsed from its `{:?}` form.
enum Node {
    /// A number, string or name.
    Leaf(String),
    /// `Name { field: value, ... }`.
    Struct(String, Vec<(String, Node)>),
    /// `Name(value, ...)` or `(value, ...)`.
    Tuple(String, Vec<Node>),
    /// `[value, ...]`.
    List(Vec<Node>),
}

/// Structs that print without their name, because their fields suffice.
const NAMELESS: &[&str] = &[
    "Arithmetic",
    "Assignment",
    "ColumnDefinition",
    "FunctionCall",
    "Ordering",
    "PrimaryKey",
    "Property",
    "Relation",
    "Selector",
    "TableOptions",
    "WhereClause",
];
/// Variants that print without their name, because their value suffices.
const TRANSPARENT: &[&str] = &["Some", "Literal", "Native", "BindMarker"];

/// Formats the value with a line for each of its fields.
pub fn compact(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let mut reader = Reader { rest: &text };
    let mut node = reader.node();
    // `Update(Update { .. })`.
    if let Node::Tuple(_, items) = &mut node
        && let [Node::Struct(..)] = items[..]
    {
        node = items.remove(0);
    }
    match node {
        Node::Struct(name, fields) => {
            let mut lines = vec![name];
            lines.extend(kept(&fields).map(|(name, node)| format!("  {name}: {}", print(node))));
            lines.join("\n")
        }
        node => print(&node),
    }
}

fn kept(fields: &[(String, Node)]) -> impl Iterator<Item = &(String, Node)> {
    fields.iter().filter(|(name, node)| name != "position" && !is_default(node))
}

fn is_default(node: &Node) -> bool {
    match node {
        Node::Leaf(text) => text == "None" || text == "false",
        Node::List(items) => items.is_empty(),
        Node::Struct(_, fields) => kept(fields).next().is_none(),
        Node::Tuple(..) => false,
    }
}

fn print(node: &Node) -> String {
    match node {
        Node::Leaf(text) => text.clone(),
        Node::List(items) => format!("[{}]", join(items)),
        Node::Tuple(name, items) => match &items[..] {
            [item] if TRANSPARENT.contains(&name.as_str()) => print(item),
            // `Select(Select { .. })`.
            [Node::Struct(inner, _)] if name == inner => print(&items[0]),
            _ => format!("{name}({})", join(items)),
        },
        Node::Struct(name, fields) => {
            let fields: Vec<_> = kept(fields).collect();
            let printed: Vec<_> = fields.iter().map(|(_, node)| print(node)).collect();
            match (name.as_str(), &printed[..]) {
                ("Name", [text]) => bare(text),
                ("QualifiedName", names) => names.join("."),
                ("BindMarker", [index]) => format!("?{index}"),
                ("Expression" | "TypeName", [kind]) => kind.clone(),
                _ => {
                    let with_names = fields.iter().zip(&printed);
                    let fields: Vec<_> =
                        with_names.map(|((name, _), text)| format!("{name}: {text}")).collect();
                    let name = if NAMELESS.contains(&name.as_str()) { "" } else { name };
                    format!("{name}{{{}}}", fields.join(", "))
                }
            }
        }
    }
}

fn join(items: &[Node]) -> String {
    items.iter().map(print).collect::<Vec<_>>().join(", ")
}

/// Returns a quoted name without its quotes, if it is readable without them.
fn bare(text: &str) -> String {
    let inside = text.trim_matches('"');
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if inside.chars().all(is_plain) { inside.to_owned() } else { text.to_owned() }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn accept(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start();
        let stripped = rest.strip_prefix(text);
        self.rest = stripped.unwrap_or(rest);
        stripped.is_some()
    }

    fn node(&mut self) -> Node {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('"') {
            return Node::Leaf(self.string().to_owned());
        }
        if self.accept("[") {
            return Node::List(self.nodes("]"));
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.rest.starts_with('(') {
            self.accept("(");
            return Node::Tuple(word.to_owned(), self.nodes(")"));
        }
        if self.rest.starts_with(" {") {
            self.accept("{");
            let mut fields = Vec::new();
            while !self.accept("}") {
                let Node::Leaf(name) = self.node() else { panic!("no field at {}", self.rest) };
                assert!(self.accept(":"), "no colon at {}", self.rest);
                fields.push((name, self.node()));
                self.accept(",");
            }
            return Node::Struct(word.to_owned(), fields);
        }
        assert!(!word.is_empty(), "nothing to read at {}", self.rest);
        Node::Leaf(word.to_owned())
    }

    fn nodes(&mut self, end: &str) -> Vec<Node> {
        let mut nodes = Vec::new();
        while !self.accept(end) {
            nodes.push(self.node());
            self.accept(",");
        }
        nodes
    }

    fn string(&mut self) -> &'a str {
        let bytes = self.rest.as_bytes();
        let mut at = 1;
        while bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        let (string, rest) = self.rest.split_at(at + 1);
        self.rest = rest;
        string
    }
}

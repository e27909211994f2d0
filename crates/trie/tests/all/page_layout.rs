//! The layout of a small page-packed trie, as text.

use std::fmt::Write as _;

use espalier_trie::page::{MemoryPages, Walker};
use insta::assert_snapshot;

use crate::page_support::*;

/// Shows each node below its parent: the byte that leads to it, position, kind, size without the
/// payload, and the payload's bits, which number the words.
fn show(file: &[u8], position: u64, edge: &str, depth: usize, out: &mut String) {
    let mut walker = Walker::new(MemoryPages(file));
    let node = block_on(walker.node(position)).unwrap();
    let indent = "  ".repeat(depth);
    write!(out, "{indent}{edge} at {position}: {:?}, {} B", node.kind(), node.body_size()).unwrap();
    if node.has_payload() {
        write!(out, ", payload {}", node.payload_bits()).unwrap();
    }
    out.push('\n');
    for slot in 0..node.slots() {
        if let Some(child) = node.child(slot).unwrap() {
            let edge = format!("{:?}", char::from(node.transition(slot)));
            show(file, child, &edge, depth + 1, out);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "insta reads files, and starts cargo")]
fn the_words_of_the_paper() {
    let words = [
        "a", "allow", "an", "any", "bit", "node", "of", "on", "the", "this", "to", "trie", "tries",
    ];
    let entries = words.iter().zip(1_u8..);
    let model: Model = entries
        .map(|(word, number)| (word.as_bytes().to_vec(), (number % 16, payload(2, number))))
        .collect();
    let (file, root) = build(&model, 0);
    let mut shown = format!("{} bytes\n", file.len());
    show(&file, root, "root", 0, &mut shown);
    assert_snapshot!(shown, @r"
    102 bytes
    root at 90: Sparse8, 12 B
      'a' at 17: Sparse8, 6 B, payload 1
        'l' at 7: SingleNoPayload4, 2 B
          'l' at 5: SingleNoPayload4, 2 B
            'o' at 3: SingleNoPayload4, 2 B
              'w' at 0: PayloadOnly, 1 B, payload 2
        'n' at 12: Single8, 3 B, payload 3
          'y' at 9: PayloadOnly, 1 B, payload 4
      'b' at 30: SingleNoPayload4, 2 B
        'i' at 28: SingleNoPayload4, 2 B
          't' at 25: PayloadOnly, 1 B, payload 5
      'n' at 39: SingleNoPayload4, 2 B
        'o' at 37: SingleNoPayload4, 2 B
          'd' at 35: SingleNoPayload4, 2 B
            'e' at 32: PayloadOnly, 1 B, payload 6
      'o' at 47: Sparse8, 6 B
        'f' at 41: PayloadOnly, 1 B, payload 7
        'n' at 44: PayloadOnly, 1 B, payload 8
      't' at 82: Sparse8, 8 B
        'h' at 61: Sparse8, 6 B
          'e' at 53: PayloadOnly, 1 B, payload 9
          'i' at 59: SingleNoPayload4, 2 B
            's' at 56: PayloadOnly, 1 B, payload 10
        'o' at 67: PayloadOnly, 1 B, payload 11
        'r' at 80: SingleNoPayload4, 2 B
          'i' at 78: SingleNoPayload4, 2 B
            'e' at 73: Single8, 3 B, payload 12
              's' at 70: PayloadOnly, 1 B, payload 13
    ");
}

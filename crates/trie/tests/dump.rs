//! The structure as text: which nodes keys make, and what becomes of them.
#![allow(clippy::unwrap_used)]

use espalier_trie::memory::InMemoryTrie;

fn trie(keys: &[&str]) -> InMemoryTrie<String> {
    let mut trie = InMemoryTrie::new();
    for key in keys {
        trie.put(key.as_bytes(), key.to_string()).unwrap();
    }
    trie
}

#[track_caller]
fn assert_dump(trie: &InMemoryTrie<String>, expected: &str) {
    trie.verify().unwrap();
    let dump = trie.dump(|content| format!("{content:?}"));
    let expected: Vec<&str> =
        expected.trim().lines().map(|line| line.strip_prefix("        ").unwrap_or(line)).collect();
    let expected = expected.join("\n");
    assert!(dump.trim() == expected, "the trie is\n{dump}\nand was expected to be\n{expected}");
}

#[test]
fn the_words_of_the_paper() {
    // Figure 1.
    let words = [
        "a", "allow", "an", "any", "bit", "in", "node", "of", "on", "the", "this", "to", "trie",
        "tries", "types", "with", "without",
    ];
    assert_dump(
        &trie(&words),
        r#"
        split 36 (37 21 27 7)
          61 sparse 1 prefix 8 = "a"
            6c chain 5+25 [6c6f77]
              leaf = "allow"
            6e chain 11+27 prefix [79] = "an"
              leaf = "any"
          62 chain 13+26 [6974]
            leaf = "bit"
          69 chain 15+27 [6e]
            leaf = "in"
          6e chain 17+25 [6f6465]
            leaf = "node"
          6f sparse 3
            66 leaf = "of"
            6e leaf = "on"
          74 sparse 23
            68 sparse 19
              65 leaf = "the"
              69 chain 25+27 [73]
                leaf = "this"
            6f leaf = "to"
            72 chain 29+26 [6965]
              chain 31+27 prefix [73] = "trie"
                leaf = "tries"
            79 chain 33+25 [706573]
              leaf = "types"
          77 chain 35+25 [697468]
            chain 39+25 prefix [6f7574] = "with"
              leaf = "without""#,
    );
}

#[test]
fn chains_fill_blocks_from_the_end() {
    let long = "0123456789012345678901234567890123456789";
    assert_dump(
        &trie(&[&long[..27]]),
        r#"
        chain 3+1 [303132333435363738393031323334353637383930313233343536]
          leaf = "012345678901234567890123456""#,
    );
    assert_dump(
        &trie(&[&long[..28]]),
        r#"
        chain 1+27 [30]
          chain 3+1 [313233343536373839303132333435363738393031323334353637]
            leaf = "0123456789012345678901234567""#,
    );
    assert_dump(
        &trie(&[long]),
        r#"
        chain 1+15 [30313233343536373839303132]
          chain 3+1 [333435363738393031323334353637383930313233343536373839]
            leaf = "0123456789012345678901234567890123456789""#,
    );
}

#[test]
fn a_fork_leaves_the_rest_of_a_chain_where_it_is() {
    assert_dump(
        &trie(&["abcdefgh", "abcDEF"]),
        r#"
        chain 6+25 [616263]
          sparse 1
            44 chain 5+26 [4546]
              leaf = "abcDEF"
            64 chain 3+24 [65666768]
              leaf = "abcdefgh""#,
    );
    assert_dump(
        &trie(&["abcdefgh", "abcdefgH"]),
        r#"
        chain 5+21 [61626364656667]
          sparse 1
            48 leaf = "abcdefgH"
            68 leaf = "abcdefgh""#,
    );
    assert_dump(
        &trie(&["abcdefgh", "Abc"]),
        r#"
        sparse 1
          41 chain 5+26 [6263]
            leaf = "Abc"
          61 chain 3+21 [62636465666768]
            leaf = "abcdefgh""#,
    );
}

#[test]
fn a_content_shares_the_block_of_a_short_chain() {
    assert_dump(
        &trie(&["", "abc"]),
        r#"
        chain 5+25 prefix [616263] = ""
          leaf = "abc""#,
    );
    assert_dump(
        &trie(&["abcdef", "abc"]),
        r#"
        chain 1+25 [616263]
          chain 5+25 prefix [646566] = "abc"
            leaf = "abcdef""#,
    );
    assert_dump(
        &trie(&["ab", "ab0123456789012345678901234"]),
        r#"
        chain 3+26 [6162]
          chain 5+3 prefix 1 [30313233343536373839303132333435363738393031323334] = "ab"
            leaf = "ab0123456789012345678901234""#,
    );
    assert_dump(
        &trie(&["ab", "ab01234567890123456789012"]),
        r#"
        chain 3+26 [6162]
          chain 5+5 prefix [3031323334353637383930313233343536373839303132] = "ab"
            leaf = "ab01234567890123456789012""#,
    );
    assert_dump(
        &trie(&["", "a", "b"]),
        r#"
        sparse 3 prefix 1 = ""
          61 leaf = "a"
          62 leaf = "b""#,
    );
}

#[test]
fn a_seventh_child_splits_a_node_and_a_content_goes_into_its_lead_block() {
    let mut trie = trie(&["a", "b", "c", "d", "e", "f"]);
    assert_dump(
        &trie,
        r#"
        sparse 1
          61 leaf = "a"
          62 leaf = "b"
          63 leaf = "c"
          64 leaf = "d"
          65 leaf = "e"
          66 leaf = "f""#,
    );
    trie.put(b"g", "g".into()).unwrap();
    assert_dump(
        &trie,
        r#"
        split 16 (17 13)
          61 leaf = "a"
          62 leaf = "b"
          63 leaf = "c"
          64 leaf = "d"
          65 leaf = "e"
          66 leaf = "f"
          67 leaf = "g""#,
    );
    trie.put(b"G", "G".into()).unwrap();
    trie.put(b"", "".into()).unwrap();
    assert_dump(
        &trie,
        r#"
        split 16 (17 1 13) prefix = ""
          47 leaf = "G"
          61 leaf = "a"
          62 leaf = "b"
          63 leaf = "c"
          64 leaf = "d"
          65 leaf = "e"
          66 leaf = "f"
          67 leaf = "g""#,
    );
    for key in ["a", "b", "c"] {
        trie.remove(key.as_bytes()).unwrap();
    }
    assert_dump(
        &trie,
        r#"
        split 16 (17 1 13) prefix = ""
          47 leaf = "G"
          64 leaf = "d"
          65 leaf = "e"
          66 leaf = "f"
          67 leaf = "g""#,
    );
    trie.remove(b"d").unwrap();
    assert_dump(
        &trie,
        r#"
        sparse 6 prefix 4 = ""
          47 leaf = "G"
          65 leaf = "e"
          66 leaf = "f"
          67 leaf = "g""#,
    );
}

#[test]
fn a_node_of_many_children_has_a_place_for_each_byte() {
    let mut trie = InMemoryTrie::new();
    let shape = |trie: &InMemoryTrie<u8>| {
        trie.verify().unwrap();
        let first = trie.dump(u8::to_string).lines().next().unwrap().to_owned();
        let stats = trie.stats();
        (first, stats.split_children, stats.wide_children, stats.blocks())
    };
    for byte in 0..32 {
        trie.put(&[byte * 8 + 3], byte).unwrap();
    }
    trie.put(b"", 0).unwrap();
    let (first, split, wide, blocks) = shape(&trie);
    assert!(first.starts_with("split ") && first.ends_with(" prefix = 0"), "{first}");
    assert_eq!((split, wide, blocks), (32, 0, 1 + 4 + 32));
    trie.put(b"a", 1).unwrap();
    let (first, split, wide, blocks) = shape(&trie);
    assert!(first.starts_with("wide 96 prefix ") && first.ends_with(" = 0"), "{first}");
    // The content had shared the lead block.
    assert_eq!((split, wide, blocks), (0, 33, 32 + 1));
    for byte in 16..31 {
        trie.remove(&[byte * 8 + 3]).unwrap();
    }
    assert_eq!(shape(&trie).2, 18);
    trie.remove(b"a").unwrap();
    assert_eq!(shape(&trie).2, 17);
    trie.remove(&[31 * 8 + 3]).unwrap();
    let (first, split, wide, blocks) = shape(&trie);
    assert!(first.starts_with("split "), "{first}");
    assert_eq!((split, wide, blocks), (16, 0, 1 + 2 + 16 + 1));
    // The run is there for the next wide node.
    for byte in 0..=255 {
        trie.put(&[byte], byte).unwrap();
    }
    let (first, _, wide, _) = shape(&trie);
    assert!(first.starts_with("wide 96 ") && wide == 256, "{first}");
}

#[test]
fn the_last_child_of_a_fork_joins_the_chains_around_it() {
    let mut trie = trie(&["abcdefgh", "abcDEF"]);
    trie.remove(b"abcDEF").unwrap();
    assert_dump(
        &trie,
        r#"
        chain 7+20 [6162636465666768]
          leaf = "abcdefgh""#,
    );
    trie.put(b"abc", "abc".into()).unwrap();
    assert_dump(
        &trie,
        r#"
        chain 3+25 [616263]
          chain 9+23 prefix [6465666768] = "abc"
            leaf = "abcdefgh""#,
    );
    trie.remove(b"abcdefgh").unwrap();
    assert_dump(
        &trie,
        r#"
        chain 3+25 [616263]
          leaf = "abc""#,
    );
    trie.remove(b"abc").unwrap();
    assert_dump(&trie, "");
}

//! Tests the structure as text: which nodes keys make, and how changes transform them.

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
        array 36 for 24
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
          77 chain 41+25 [697468]
            chain 43+25 prefix [6f7574] = "with"
              leaf = "without""#,
    );
}

#[test]
fn chains_fill_blocks_from_the_end() {
    let long = "0123456789012345678901234567890123456789";
    assert_dump(
        &trie(&[&long[..26]]),
        r#"
        chain 3+2 [3031323334353637383930313233343536373839303132333435]
          leaf = "01234567890123456789012345""#,
    );
    assert_dump(
        &trie(&[&long[..27]]),
        r#"
        chain 1+27 [30]
          chain 3+2 [3132333435363738393031323334353637383930313233343536]
            leaf = "012345678901234567890123456""#,
    );
    assert_dump(
        &trie(&[long]),
        r#"
        chain 1+14 [3031323334353637383930313233]
          chain 3+2 [3435363738393031323334353637383930313233343536373839]
            leaf = "0123456789012345678901234567890123456789""#,
    );
}

#[test]
fn a_fork_does_not_move_the_rest_of_a_chain() {
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
fn a_seventh_child_makes_an_array_of_a_node() {
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
        array 16 for 24
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
        array 16 for 24 prefix 23 = ""
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
        array 16 for 24 prefix 23 = ""
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
        sparse 6 prefix 23 = ""
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
        let first = first.replace(|letter: char| letter.is_ascii_digit(), "");
        let stats = trie.stats();
        (first, stats.array_children, stats.wide_children, stats.blocks())
    };
    let described = |first: &str, arrays, wides, blocks| (first.to_owned(), arrays, wides, blocks);
    let put = |trie: &mut InMemoryTrie<u8>, bytes: std::ops::Range<u8>| {
        for byte in bytes {
            trie.put(&[byte.wrapping_mul(5).wrapping_add(3)], byte).unwrap();
        }
    };
    let remove = |trie: &mut InMemoryTrie<u8>, bytes: std::ops::Range<u8>| {
        for byte in bytes {
            trie.remove(&[byte.wrapping_mul(5).wrapping_add(3)]).unwrap();
        }
    };
    put(&mut trie, 0..24);
    assert_eq!(shape(&trie), described("array  for ", 24, 0, 4));
    trie.put(b"", 0).unwrap();
    assert_eq!(shape(&trie), described("array  for  prefix  = ", 24, 0, 4 + 1));
    put(&mut trie, 24..25);
    assert_eq!(shape(&trie), described("array  for  prefix  = ", 25, 0, 8 + 1));
    put(&mut trie, 25..48);
    assert_eq!(shape(&trie), described("array  for  prefix  = ", 48, 0, 8 + 1));
    put(&mut trie, 48..49);
    assert_eq!(shape(&trie), described("wide  prefix  = ", 0, 49, 32 + 1));
    remove(&mut trie, 0..16);
    assert_eq!(shape(&trie), described("wide  prefix  = ", 0, 33, 32 + 1));
    remove(&mut trie, 16..17);
    assert_eq!(shape(&trie), described("array  for  prefix  = ", 32, 0, 8 + 1));
    remove(&mut trie, 17..32);
    assert_eq!(shape(&trie), described("array  for  prefix  = ", 17, 0, 8 + 1));
    remove(&mut trie, 32..33);
    assert_eq!(shape(&trie), described("array  for  prefix  = ", 16, 0, 4 + 1));
    remove(&mut trie, 33..44);
    assert_eq!(shape(&trie), described("array  for  prefix  = ", 5, 0, 4 + 1));
    remove(&mut trie, 44..45);
    assert_eq!(shape(&trie), described("sparse  prefix  = ", 0, 0, 1 + 1));
    // The run is kept for the next wide node.
    for byte in 0..=255 {
        trie.put(&[byte], byte).unwrap();
    }
    let (first, _, wide, _) = shape(&trie);
    assert!(first.starts_with("wide ") && wide == 256, "{first}");
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

//! Checks that the files of Cassandra's offline writer hold the content that Cassandra's
//! `sstabledump` printed.

use crate::support;

use support::{
    block_on, content, fixtures_root, offline_cases, open, read_text,
    sstabledump::assert_same_as_sstabledump,
};

#[test]
fn content_is_that_of_sstabledump() {
    let mut compared = 0;
    for case in offline_cases() {
        let root = fixtures_root().join("cassandra-5.0.9-offline/expected-sstabledump");
        let Some(text) = read_text(&root.join(format!("{}.json", case.name))) else { continue };
        let reader = block_on(open(&case.sstables[0])).unwrap();
        let content = block_on(content(&reader)).unwrap();
        assert_same_as_sstabledump(&case.name, &reader.table(), &content, &text);
        compared += 1;
    }
    println!("{compared} SSTables compared with sstabledump");
}

//! Writes Rows.db from the rows of SSTables of Cassandra 5.0.9, in the blocks that Cassandra chose.
//! The result must equal Cassandra's file byte for byte, separators included.
#![allow(clippy::disallowed_methods, reason = "fixtures are read before anything runs")]

use crate::bti_support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bti_support::*;
use espalier_sstable::index::bti::row_index::{
    BlockStart, NegativeDeletions, RowIndexReader, RowIndexWriter,
};
use espalier_trie::page::MemoryPages;
use espalier_types::CqlType;
use espalier_types::byte_comparable::{GT_NEXT, LT_NEXT, TERMINATOR, encode_clustering};
use serde_json::Value;

/// Reads lines of JSON, gzipped or not; `None` without such a file or without gzip.
fn lines(path: &Path) -> Option<Vec<Value>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(_) => {
            let zipped = PathBuf::from(format!("{}.gz", path.display()));
            let output = std::process::Command::new("gzip").arg("-dc").arg(zipped).output().ok()?;
            String::from_utf8(output.stdout).unwrap()
        }
    };
    if text.is_empty() {
        return None;
    }
    // Readable values may be numbers that JSON or its reader does not allow. The test does not need
    // these values, so it cuts them off the end of a line of content.
    let text = text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    let readable = [",\"cj\":", ",\"pk\":"];
    let parse = |line: &str| match readable.iter().find_map(|field| line.split_once(field)) {
        Some((head, _)) if line.starts_with("{\"kind\"") => {
            serde_json::from_str(&format!("{head}}}"))
        }
        _ => serde_json::from_str(line),
    };
    Some(text.lines().map(|line| parse(line).unwrap()).collect())
}

fn hex(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    Some((0..text.len()).step_by(2).map(byte).collect())
}

/// Returns the byte-comparable position of a row or a marker.
fn position(types: &[(CqlType, bool)], line: &Value) -> Vec<u8> {
    let values: Vec<Option<Vec<u8>>> = line["ck"].as_array().unwrap().iter().map(hex).collect();
    let terminator = match line["bound"].as_str() {
        None => TERMINATOR,
        Some("INCL_START_BOUND" | "EXCL_END_BOUND" | "EXCL_END_INCL_START_BOUNDARY") => LT_NEXT,
        Some("EXCL_START_BOUND" | "INCL_END_BOUND" | "INCL_END_EXCL_START_BOUNDARY") => GT_NEXT,
        Some(other) => panic!("{other}"),
    };
    let mut position = Vec::new();
    encode_clustering(types, &values, terminator, &mut position);
    position
}

/// Returns the positions of rows and markers for each partition key.
fn positions(types: &[(CqlType, bool)], lines: &[Value]) -> HashMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut partitions = HashMap::new();
    let mut key = Vec::new();
    for line in lines {
        match line["kind"].as_str().unwrap() {
            "partition" => key = hex(&line["key"]).unwrap(),
            "row" | "marker" => {
                let positions: &mut Vec<_> = partitions.entry(key.clone()).or_default();
                positions.push(position(types, line));
            }
            _ => {}
        }
    }
    partitions
}

#[test]
fn separators_of_real_rows_are_cassandras() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/cassandra-5.0.9");
    let Some(statistics) = lines(&root.join("bti-da/statistics.jsonl")) else {
        println!("SKIPPED: no fixtures in {}, or no gzip", root.display());
        return;
    };
    let (mut files, mut separators_total) = (0, 0);
    for sstable in &statistics {
        let case = sstable["dir"].as_str().unwrap();
        let name = format!("{case}/{}", sstable["sstable"].as_str().unwrap());
        let types: Vec<(CqlType, bool)> = sstable["header"]["clustering_types"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ty| CqlType::parse_marshal_maybe_reversed(ty.as_str().unwrap()).unwrap())
            .collect();
        let Ok(rows) = std::fs::read(root.join(format!("bti-da/{name}-Rows.db"))) else { continue };
        if rows.is_empty() {
            continue;
        }
        let expected = ["bti-da", "common"]
            .iter()
            .find_map(|place| lines(&root.join(place).join(case).join("expected.jsonl")));
        let expected = positions(&types, &expected.unwrap());
        let partitions = std::fs::read(root.join(format!("bti-da/{name}-Partitions.db"))).unwrap();

        let mut ours = Vec::new();
        let mut writer = RowIndexWriter::new(NegativeDeletions::Refused);
        for entry in row_entry_positions(&partitions) {
            let index = block_on(RowIndexReader::open(MemoryPages(&rows), entry)).unwrap();
            let entry = index.entry();
            let positions = &expected[&entry.key];
            let separators = separators(&rows, entry.root);
            let mut blocks = block_on(index.forward(None)).unwrap();
            let mut end = 0;
            for bounds in separators.windows(2) {
                let block = block_on(blocks.next()).unwrap().unwrap();
                let from = positions.partition_point(|position| *position < bounds[0]);
                let to = positions.partition_point(|position| *position < bounds[1]);
                let (first, last) = (&positions[from], &positions[to - 1]);
                let (offset, open_deletion) = (block.start, block.open_deletion);
                let start = BlockStart { offset, open_deletion };
                writer.add_block(&mut ours, first, last, start).unwrap();
                end = block.end;
            }
            let (key, deletion) = (&entry.key, entry.partition_deletion);
            writer.finish_partition(&mut ours, key, entry.data_position, deletion, end).unwrap();
            separators_total += separators.len();
        }
        assert!(ours == rows, "{name}");
        files += 1;
    }
    println!("{files} files, {separators_total} separators");
    assert!(files > 30 && separators_total > 14_000);
}

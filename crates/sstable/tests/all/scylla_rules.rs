//! Checks SSTables of ScyllaDB's tests that `sstabledump` did not print, because they are large or
//! Cassandra rejects them. The expected content follows the rule of the ScyllaDB test that made the
//! file.

use crate::support;

use std::fmt::Write as _;

use espalier_mutation::counter;
use serde_json::{Value, json};
use support::{
    assert_same_content, block_on, content, dump,
    scylla::{open_as_it_is, sstable},
};

/// Returns the lines of an SSTable, or `None` if the fixture is missing.
fn lines(folder: &str, name: &str) -> Option<Vec<String>> {
    let descriptor = sstable(folder, name)?;
    let lines = block_on(async { dump(&open_as_it_is(&descriptor, None).await?).await });
    Some(lines.unwrap_or_else(|e| panic!("{folder}: {e}")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn int(value: u32) -> String {
    format!("{value:08x}")
}

fn check(folder: &str, name: &str, expected: &[Value]) {
    let Some(lines) = lines(folder, name) else { return };
    let expected: Vec<_> = expected.iter().map(Value::to_string).collect();
    assert_same_content(folder, &lines, &expected.join("\n"));
}

fn partition(key: &str) -> Value {
    json!({ "kind": "partition", "key": key })
}

const TIMESTAMP: i64 = 1_525_385_507_816_568;

#[test]
fn a_counter_without_shards() {
    check(
        "3.x/uncompressed/write_empty_counter",
        "mc-1-big",
        &[
            partition(&hex(b"key")),
            json!({ "kind": "row", "ck": [hex(b"ck")],
            "cells": [{ "n": "val", "v": "0000", "ts": TIMESTAMP }] }),
        ],
    );
    assert_eq!(counter::total(&[0, 0]), 0);
}

#[test]
fn a_shadowable_deletion() {
    check(
        "3.x/uncompressed/write_shadowable_deletion",
        "mc-1-big",
        &[
            partition(&int(1)),
            json!({ "kind": "row", "ck": [int(1)], "live": { "ts": 1_540_230_880_370_422_i64 },
            "cells": [] }),
            partition(&int(0)),
            json!({ "kind": "row", "ck": [int(1)], "live": { "ts": 1_540_230_874_370_065_i64 },
            "deleted": { "ts": 1_540_230_874_370_065_i64, "ldt": 1_540_230_880 },
            "shadowable": true, "cells": [] }),
        ],
    );
}

#[test]
fn a_null_clustering_value() {
    check(
        "3.x/uncompressed/write_compact_table",
        "mc-1-big",
        &[
            partition(&int(1)),
            json!({ "kind": "row", "ck": [int(1), null],
            "cells": [{ "n": "rc", "v": int(1), "ts": TIMESTAMP }] }),
        ],
    );
}

#[test]
fn generations_and_uuids_in_one_folder_and_64_bit_baselines() {
    let names = ["me-3-big", "me-5-big", "me-3gsm_0lob_1zdg02we44my8dy25w-big"];
    let mut pairs = Vec::new();
    for name in names {
        let Some(descriptor) = sstable("mixed_generation_type", name) else { return };
        let reader = block_on(open_as_it_is(&descriptor, None)).unwrap();
        for (header, rows) in block_on(content(&reader)).unwrap() {
            let line: Value = {
                let table = reader.table();
                let dump = espalier_sstable::dump::Dump { table: &table, full_values: false };
                serde_json::from_str(&dump.unfiltered(&rows[0])).unwrap()
            };
            assert_eq!(rows.len(), 1);
            assert_eq!(line["live"]["ts"], line["cells"][0]["ts"]);
            assert_eq!(line["live"].as_object().unwrap().len(), 1);
            pairs.push((hex(&header.key.key), line["cells"][0]["v"].as_str().unwrap().to_string()));
        }
    }
    pairs.sort();
    assert_eq!(pairs, [0, 1, 2].map(|number| (int(number), int(number))));
}

#[test]
fn shards_of_counters() {
    let folder = "counter_test/ks/counter_test-1c6ace40fad111e7b9cf000000000002";
    for version in ["mc", "md", "me", "ms", "mt"] {
        let Some(lines) = lines(folder, &format!("{version}-5-big")) else { return };
        let row: Value = serde_json::from_str(&lines[1]).unwrap();
        let context = |cell: usize| {
            let text = row["cells"][cell]["v"].as_str().unwrap();
            let digits = text.as_bytes().chunks(2);
            digits
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect::<Vec<_>>()
        };
        let shards: Vec<_> = counter::shards(&context(0))
            .map(|shard| (uuid::Uuid::from_bytes(shard.id).to_string(), shard.count, shard.clock))
            .collect();
        assert_eq!(
            shards,
            [
                ("8379ab99-4507-4ab1-805d-ac85a863092b".to_string(), 11, 2),
                ("b8a6c3f3-e222-433f-9ce9-de56a8466e07".to_string(), 2, 1),
            ]
        );
        assert_eq!((counter::total(&context(0)), counter::total(&context(1))), (13, -92));
        let row: Value = serde_json::from_str(&lines[2]).unwrap();
        assert_eq!(row["ck"], json!([int(1)]));
        assert_eq!(row["cells"].as_array().unwrap().len(), 1);
        assert_eq!((&row["cells"][0]["n"], &row["cells"][0]["dead"]), (&json!("c1"), &json!(true)));
    }
}

/// Each partition has a static row. For every third number, it has a row, and a deletion of the
/// range up to the next row.
#[test]
fn rows_and_range_tombstones_by_turns() {
    let Some(lines) =
        lines("3.x/uncompressed/filtering_and_forwarding_range_tombstones", "mc-1-big")
    else {
        return;
    };
    let mut expected = Vec::new();
    for (key, value) in [(1, 777), (2, 999)] {
        expected.push(partition(&int(key)));
        expected.push(json!({ "kind": "static",
            "cells": [{ "n": "st", "v": int(value), "ts": TIMESTAMP }] }));
        for number in (1..131_072).step_by(3) {
            let value = int(number);
            expected
                .push(json!({ "kind": "row", "ck": [value, value], "live": { "ts": TIMESTAMP },
                "cells": [{ "n": "rc", "v": value, "ts": TIMESTAMP }] }));
            for (kind, offset) in [("INCL_START_BOUND", 1), ("INCL_END_BOUND", 2)] {
                expected
                    .push(json!({ "kind": "marker", "bound": kind, "ck": [int(number + offset)],
                    "deleted": { "ts": TIMESTAMP } }));
            }
        }
    }
    // Only the hour of the deletions is known.
    let without_seconds = |line: &String| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(deleted) = line.get_mut("deleted").and_then(Value::as_object_mut) {
            let seconds = deleted.remove("ldt").unwrap().as_u64().unwrap();
            assert!((1_534_898_000..1_534_902_000).contains(&seconds), "{seconds}");
        }
        line.as_object_mut().unwrap().remove("token");
        line
    };
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(without_seconds(line), *expected);
    }
}

#[test]
fn wide_partitions_with_static_rows() {
    let mut expected = Vec::new();
    for (key, value, timestamp) in [(1, 777, TIMESTAMP), (2, 999, TIMESTAMP + 10)] {
        expected.push(partition(&int(key)));
        expected.push(json!({ "kind": "static",
            "cells": [{ "n": "st", "v": int(value), "ts": timestamp }] }));
        for number in 0..1024 {
            let value = hex(format!("{}{number}", "b".repeat(1024)).as_bytes());
            expected.push(json!({ "kind": "row", "ck": [int(number)], "live": { "ts": timestamp },
                "cells": [{ "n": "rc", "v": value, "ts": timestamp }] }));
        }
    }
    check("3.x/uncompressed/skip_using_index_rows", "mc-1-big", &expected);
}

/// The partition has a range deletion from each number to the next, and a larger number has a later
/// timestamp. Numbers sort as text, so that the range from 9 to 10 and similar ranges are empty,
/// and other ranges overlap. The file has a marker at each start of a range, even if a later
/// deletion covers it, and at each change of the open deletion.
#[test]
fn a_partition_of_boundaries() {
    let folder = "3.x/uncompressed/read_range_tombstone_boundaries_index";
    let Some(lines) = lines(folder, "mc-1-big") else { return };
    const COUNT: usize = 1024;
    let text = |number: usize| format!("{}{number}", "a".repeat(1024));
    let mut places: Vec<_> =
        (0..=COUNT).filter(|number| ![9, 99].contains(number)).map(text).collect();
    places.sort();
    let latest_between = |from: &str, to: &str| {
        let covers = |number: &usize| *text(*number) <= *from && *to <= *text(number + 1);
        (0..COUNT).rev().find(covers).map(|number| TIMESTAMP + number as i64)
    };
    assert_eq!(lines.len(), 1 + places.len());
    let mut open = None;
    for (index, (line, place)) in lines[1..].iter().zip(&places).enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let next = places.get(index + 1).and_then(|next| latest_between(place, next));
        let (kind, closes, opens) = match (open, next) {
            (None, _) => ("EXCL_START_BOUND", "none", "deleted"),
            (_, None) => ("INCL_END_BOUND", "deleted", "none"),
            _ => ("INCL_END_EXCL_START_BOUNDARY", "closes", "opens"),
        };
        assert_eq!((&line["bound"], &line["ck"]), (&json!(kind), &json!([hex(place.as_bytes())])));
        assert_eq!(
            (line[closes]["ts"].as_i64(), line[opens]["ts"].as_i64()),
            (open, next),
            "{index}"
        );
        open = next;
    }
}

#[test]
fn many_ranges_that_do_not_touch() {
    let prefix = "a".repeat(650);
    let mut expected = vec![partition(&hex(b"key1"))];
    for number in 1000..1100 {
        for (kind, value) in [("EXCL_START_BOUND", 2 * number), ("EXCL_END_BOUND", 2 * number + 1)]
        {
            expected.push(json!({ "kind": "marker", "bound": kind,
                "ck": [hex(format!("{prefix}{value}").as_bytes())],
                "deleted": { "ts": TIMESTAMP, "ldt": 1_528_226_962 } }));
        }
    }
    check("3.x/uncompressed/write_many_range_tombstones", "mc-1-big", &expected);
}

#[test]
fn many_partitions_without_rows() {
    let Some(lines) = lines("3.x/uncompressed/write_many_live_partitions", "mc-1-big") else {
        return;
    };
    let mut tokens = Vec::new();
    let mut keys: Vec<_> = lines
        .iter()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            tokens.push(line["token"].as_i64().unwrap());
            u32::from_str_radix(line["key"].as_str().unwrap(), 16).unwrap()
        })
        .collect();
    assert!(tokens.is_sorted());
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..65_536));
}

#[test]
fn a_large_partition_of_scylladb_has_all_rows() {
    let folder = "large_partition/try1/data-1c6ace40fad111e7b9cf000000000002";
    let mut clusterings = Vec::new();
    for number in 0..20 {
        for lower in 'a'..='z' {
            clusterings.extend(('A'..='Z').map(|upper| format!("{number}{lower}{upper}")));
        }
    }
    clusterings.sort();
    for version in ["mc", "me", "mt"] {
        let Some(lines) = lines(folder, &format!("{version}-3-big")) else { return };
        let head: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(head["key"], hex(b"v1"));
        let rows: Vec<Value> =
            lines[1..].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let found = rows.iter().map(|row| row["ck"][0].as_str().unwrap().to_string());
        assert!(found.eq(clusterings.iter().map(|text| hex(text.as_bytes()))));
        assert!(rows.iter().all(|row| row["cells"][0]["n"] == "t3"));
    }
}

#[test]
fn collections_without_cells() {
    let Some(lines) = lines("3.x/uncompressed/complex_column_zero_subcolumns", "mc-1-big") else {
        return;
    };
    let mut keys = Vec::new();
    for pair in lines.chunks(2) {
        let head: Value = serde_json::from_str(&pair[0]).unwrap();
        keys.push(head["key"].as_str().unwrap().to_string());
        let row: Value = serde_json::from_str(&pair[1]).unwrap();
        let of_map: Vec<_> = row["cells"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|cell| cell["n"] == "rows_merged")
            .collect();
        assert_eq!(of_map.len(), 1, "the collection must have only its deletion: {row}");
        assert_eq!(
            of_map[0]["deleted"]["ts"].as_i64().unwrap(),
            row["live"]["ts"].as_i64().unwrap() - 1
        );
    }
    let first = [
        0x09fe_a990_u32,
        0x0a31_0430,
        0x0a21_4cc0,
        0x0a00_a560,
        0x0a0a_6960,
        0x0a14_7b80,
        0x0a18_7320,
    ];
    let expected = first.map(|first| format!("{first:08x}b32011e883a7000000000000"));
    assert_eq!(keys, expected);
}

/// Tests prefix rows of a compact table among ranges that begin and end at prefixes.
#[test]
fn prefix_rows_and_ranges_by_turns() {
    let folder = "wrong_range_tombstone_order/ks/wrong_range_tombstone_order-1c6ace40fad111e7b9cf000000000002";
    let expected = [
        "rt(0)",
        "rt(0)",
        "row(1)",
        "row(1,1)",
        "row(1,2)",
        "row(1,2,3)",
        "rt(1,3)",
        "row(1,3)",
        "row(1,3,4)",
        "rt(1,3)",
        "row(1,4)",
        "row(1,4,0)",
        "rt(2)",
        "rt(2,1)",
        "rt(2,1)",
        "rt(2,2)",
        "rt(2,2)",
        "rt(2)",
    ];
    for version in ["mc", "md", "me", "ms", "mt"] {
        let Some(lines) = lines(folder, &format!("{version}-1-big")) else { return };
        let found: Vec<_> = lines[1..]
            .iter()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                let kind = if line["kind"] == "row" { "row" } else { "rt" };
                let values = line["ck"].as_array().unwrap().iter();
                let values: Vec<_> = values
                    .filter_map(Value::as_str)
                    .map(|value| u32::from_str_radix(value, 16).unwrap().to_string())
                    .collect();
                if kind == "row" {
                    assert_eq!(line["ck"].as_array().unwrap().len(), 3, "trailing nulls are kept");
                    // The deletion of a row of a compact table is a tombstone of its single column.
                    let is_deleted = values == ["1", "4", "0"];
                    assert_eq!(
                        line["cells"][0]["dead"],
                        json!(is_deleted.then_some(true)),
                        "{line}"
                    );
                }
                format!("{kind}({})", values.join(","))
            })
            .collect();
        assert_eq!(found, expected, "{version}");
    }
}

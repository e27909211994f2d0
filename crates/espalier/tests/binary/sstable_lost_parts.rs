//! `espalier sstable` on SSTables that have lost a part: the commands read the rest.

use std::fs;
use std::path::Path;

use crate::support::{copied, output, said, written_by_cassandra};

/// Cuts a file down to `length` bytes.
fn cut(directory: &Path, component: &str, length: usize) {
    let file = directory.join(component);
    let bytes = fs::read(&file).unwrap();
    assert!(length < bytes.len(), "{component} has {} bytes", bytes.len());
    fs::write(&file, &bytes[..length]).unwrap();
}

fn length_of(directory: &Path, component: &str) -> usize {
    fs::metadata(directory.join(component)).unwrap().len() as usize
}

/// Converts a table to one with many chunks, compressed or not.
fn many_chunks(compression: &[&str]) -> tempfile::TempDir {
    let converted = tempfile::tempdir().unwrap();
    let source = written_by_cassandra("compression_none");
    let to = converted.path().to_str().unwrap();
    let convert = ["sstable", "convert", &source, "--to", "da", "--output", to];
    said(&[&convert[..], compression].concat());
    converted
}

/// Dumps a damaged `directory` and checks that the output is a shorter beginning of `whole`.
/// Returns the number of lines and the text on standard error.
fn dumped(directory: &Path, whole: &str) -> (usize, String) {
    let (code, found, complaint) = output(&["sstable", "dump", directory.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{complaint}");
    assert!(whole.starts_with(&found) && found.len() < whole.len());
    assert!(found.is_empty() || found.ends_with('\n'));
    (found.lines().count(), complaint)
}

#[test]
fn truncated_data_is_reported_and_read_up_to_its_end() {
    for (compression, teller) in [
        (&["--compression", "lz4", "--chunk-length-in-kb", "4"][..], "CompressionInfo.db"),
        (&["--compression", "none", "--chunk-length-in-kb", "4"], "CRC.db"),
    ] {
        let table = many_chunks(compression);
        let path = table.path().to_str().unwrap();
        let whole = said(&["sstable", "dump", path]);
        let mut lines = whole.lines().count();
        let length = length_of(table.path(), "da-1-bti-Data.db");
        for left in [length * 9 / 10, length / 2, 5000, 0] {
            cut(table.path(), "da-1-bti-Data.db", left);
            let (fewer, complaint) = dumped(table.path(), &whole);
            let reported = format!("da-1-bti-Data.db is corrupt at byte {left}: it is too short");
            assert!(complaint.contains(&reported) && complaint.contains(teller), "{complaint}");
            assert_eq!(complaint.lines().count(), 1, "{complaint}");
            assert!(fewer < lines || (left < 5000 && fewer == 0), "{left}: {fewer} of {lines}");
            assert!(left < 5000 || fewer > 0, "{left}");
            lines = fewer;
            let (code, report, _) = output(&["sstable", "verify", path]);
            assert_eq!(code, Some(1));
            assert!(report.contains("DAMAGED") && report.contains(&reported), "{report}");
            // Reads by index refuse such a file.
            let (code, found, complaint) = output(&["sstable", "dump", "--limit", "1", path]);
            assert_eq!((code, found.as_str()), (Some(1), ""));
            assert!(complaint.contains(&reported), "{complaint}");
        }
    }
}

#[test]
fn a_truncated_last_chunk_is_reported_as_a_lost_end() {
    for compression in [
        &["--compression", "lz4", "--chunk-length-in-kb", "4"][..],
        &["--compression", "none", "--chunk-length-in-kb", "4"],
    ] {
        let table = many_chunks(compression);
        let whole = said(&["sstable", "dump", table.path().to_str().unwrap()]);
        let left = length_of(table.path(), "da-1-bti-Data.db") - 10;
        cut(table.path(), "da-1-bti-Data.db", left);
        let (lines, complaint) = dumped(table.path(), &whole);
        assert!(lines > 100, "{lines}");
        let reported = format!("the file may have lost its end, and now has {left} bytes");
        assert!(complaint.contains("da-1-bti-Data.db is corrupt"), "{complaint}");
        assert!(complaint.contains(&reported), "{complaint}");
    }
}

/// The file has one chunk. It loses the end of its checksum, more, or everything.
#[test]
fn a_truncated_only_chunk_is_reported_as_a_lost_end() {
    let whole = said(&["sstable", "dump", &written_by_cassandra("kv_one")]);
    let copy = copied("kv_one");
    let path = copy.path().to_str().unwrap();
    let length = length_of(copy.path(), "da-1-bti-Data.db");
    for left in [length - 1, 5, 4, 3, 0] {
        cut(copy.path(), "da-1-bti-Data.db", left);
        let (lines, complaint) = dumped(copy.path(), &whole);
        assert_eq!((lines, complaint.lines().count()), (0, 1), "{complaint}");
        let place = if left < 4 { left } else { 0 };
        let reported = format!("da-1-bti-Data.db is corrupt at byte {place}: ");
        assert!(complaint.contains(&reported), "{complaint}");
        let reported = if left < 4 {
            format!("it is too short: it has {left} bytes, and CompressionInfo.db needs at least 4")
        } else {
            format!("the file may have lost its end, and now has {left} bytes")
        };
        assert!(complaint.contains(&reported), "{complaint}");
        let (_, report, _) = output(&["sstable", "verify", path]);
        assert!(report.contains("DAMAGED") && report.contains(&reported), "{report}");
        assert!(!report.contains("CompressionInfo.db is corrupt"), "{report}");
    }
}

/// Compactions of Cassandra write one more checksum, of an empty chunk.
#[test]
fn a_checksum_of_nothing_is_no_missing_chunk() {
    let copy = copied("compression_none");
    let path = copy.path().to_str().unwrap();
    let crc = copy.path().join("da-1-bti-CRC.db");
    let checksums = fs::read(&crc).unwrap();
    let whole = said(&["sstable", "dump", path]);
    fs::write(&crc, [&checksums[..], &[0; 4]].concat()).unwrap();
    assert_eq!(said(&["sstable", "dump", path]), whole);
    fs::write(&crc, [&checksums[..], &[1; 4]].concat()).unwrap();
    let (lines, complaint) = dumped_all(path, &whole);
    assert_eq!(lines, whole.lines().count());
    assert!(complaint.contains("Data.db") && complaint.contains("it is too short"), "{complaint}");
    // Half a checksum is a fault of CRC.db, not of the data.
    fs::write(&crc, [&checksums[..], &[0; 2]].concat()).unwrap();
    let (code, _, complaint) = output(&["sstable", "dump", path]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("da-1-bti-CRC.db is corrupt"), "{complaint}");
}

fn dumped_all(path: &str, whole: &str) -> (usize, String) {
    let (code, found, complaint) = output(&["sstable", "dump", path]);
    assert_eq!((code, found.as_str()), (Some(1), whole));
    (found.lines().count(), complaint)
}

#[test]
fn a_missing_filter_is_skipped_with_a_message() {
    let copy = copied("wide_range_tombstones");
    let path = copy.path().to_str().unwrap();
    let filter = copy.path().join("da-1-bti-Filter.db");
    let dumps = [&["sstable", "dump"][..], &["sstable", "dump", "--limit", "5"]];
    let expected = dumps.map(|dump| said(&[dump, &[path]].concat()));
    for damage in [None, Some(&b"\0\0"[..]), Some(&b""[..])] {
        match damage {
            None => fs::remove_file(&filter).unwrap(),
            Some(bytes) => fs::write(&filter, bytes).unwrap(),
        }
        for (dump, expected) in dumps.iter().zip(&expected) {
            let (code, found, reported) = output(&[*dump, &[path]].concat());
            assert_eq!((code, &found), (Some(0), expected), "{reported}");
            assert_eq!(reported.lines().count(), 1, "{reported}");
            assert!(
                reported.contains("da-1-bti-Filter.db") && reported.contains("without the filter"),
                "{reported}"
            );
        }
        let (code, report, _) = output(&["sstable", "verify", path]);
        assert!(code == Some(1) && report.contains("Filter.db"), "{report}");
    }
    let converted = copy.path().join("converted").to_str().unwrap().to_owned();
    let convert = ["sstable", "convert", path, "--to", "da", "--output", &converted];
    assert_eq!(output(&convert).0, Some(0));
    assert!(said(&["sstable", "verify", &converted]).contains("da-1-bti: ok, "));
}

#[test]
fn a_full_dump_reports_a_missing_index_and_prints_all_rows() {
    for (case, prefix, components) in [
        ("da", "da-1-bti", &["Partitions.db", "Rows.db", "TOC.txt", "Digest.crc32"][..]),
        ("nb", "nb-1-big", &["Index.db", "Summary.db", "TOC.txt"]),
    ] {
        let all = Path::new(&written_by_cassandra("")).join("..").join(case);
        for component in components {
            for is_removed in [true, false] {
                let copy = tempfile::tempdir().unwrap();
                for entry in fs::read_dir(all.join("wide_range_tombstones")).unwrap() {
                    let entry = entry.unwrap();
                    fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
                }
                let data = copy.path().join(format!("{prefix}-Data.db"));
                let data = data.to_str().unwrap();
                let whole = said(&["sstable", "dump", data]);
                let file = copy.path().join(format!("{prefix}-{component}"));
                if is_removed {
                    fs::remove_file(&file).unwrap()
                } else {
                    fs::write(&file, "x").unwrap()
                }
                let (code, found, reported) = output(&["sstable", "dump", data]);
                assert_eq!((code, &found), (Some(0), &whole), "{component}: {reported}");
                // The reader rebuilds the summary and ignores the digest. A dump of all rows does
                // not read Rows.db, so it reports the file only if it is missing.
                let is_silent = matches!(*component, "Summary.db" | "Digest.crc32")
                    || (*component == "Rows.db" && !is_removed);
                assert_eq!(
                    reported.lines().count(),
                    usize::from(!is_silent),
                    "{component}: {reported}"
                );
                assert!(is_silent || reported.contains(component), "{reported}");
            }
        }
    }
}

#[test]
fn a_dump_fails_without_a_required_component() {
    for component in ["Data.db", "Statistics.db", "CompressionInfo.db"] {
        let copy = copied("wide_range_tombstones");
        fs::remove_file(copy.path().join(format!("da-1-bti-{component}"))).unwrap();
        fs::remove_file(copy.path().join("da-1-bti-Partitions.db")).unwrap();
        let (code, found, reported) = output(&["sstable", "dump", copy.path().to_str().unwrap()]);
        assert_eq!(
            (code, found.as_str(), reported.lines().count()),
            (Some(1), "", 1),
            "{reported}"
        );
        assert!(reported.contains(&format!("{component}: No such file")), "{reported}");
    }
}

#[test]
fn a_truncated_sstable_does_not_stop_the_dump_of_others() {
    let table = many_chunks(&["--compression", "lz4", "--chunk-length-in-kb", "4"]);
    let other = written_by_cassandra("kv_one");
    let path = table.path().to_str().unwrap();
    let expected = said(&["sstable", "dump", &other]);
    cut(table.path(), "da-1-bti-Data.db", 5000);
    let (code, found, complaint) = output(&["sstable", "dump", path, &other]);
    assert_eq!(code, Some(1));
    assert!(found.len() > expected.len() && found.ends_with(&expected));
    assert_eq!(complaint.lines().count(), 2, "{complaint}");
    assert!(complaint.ends_with("espalier: 1 of 2 SSTables failed\n"), "{complaint}");
}

/// Bytes without checksums may be wrong: the dump prints their rows and reports the missing
/// checksums.
#[test]
fn rows_that_nothing_checks_are_printed_and_no_success() {
    let copy = copied("compression_none");
    let path = copy.path().to_str().unwrap();
    let data = copy.path().join("da-1-bti-Data.db");
    let data = data.to_str().unwrap();
    let whole = said(&["sstable", "dump", path]);
    let toc = copy.path().join("da-1-bti-TOC.txt");
    let listed = fs::read_to_string(&toc).unwrap();
    fs::remove_file(copy.path().join("da-1-bti-CRC.db")).unwrap();
    fs::write(&toc, listed.replace("CRC.db\n", "")).unwrap();
    let (_, complaint) = dumped_all(data, &whole);
    assert!(
        complaint.contains("da-1-bti-Data.db is corrupt at byte 0: no checksums"),
        "{complaint}"
    );
    assert!(complaint.contains("damage cannot be detected"), "{complaint}");
    // The error stays if TOC.txt is missing too.
    fs::remove_file(&toc).unwrap();
    let (_, complaint) = dumped_all(data, &whole);
    assert!(
        complaint.contains("da-1-bti-Data.db is corrupt at byte 0: no checksums"),
        "{complaint}"
    );
    assert!(complaint.contains("it has no TOC.txt"), "{complaint}");
}

/// The error that ends a dump early is reported even if the end of the file is missing too.
#[test]
fn a_dump_reports_a_wrong_chunk_and_a_lost_end() {
    for compression in [
        &["--compression", "lz4", "--chunk-length-in-kb", "4"][..],
        &["--compression", "none", "--chunk-length-in-kb", "4"],
    ] {
        let table = many_chunks(compression);
        let whole = said(&["sstable", "dump", table.path().to_str().unwrap()]);
        let left = length_of(table.path(), "da-1-bti-Data.db") / 2;
        cut(table.path(), "da-1-bti-Data.db", left);
        let (unharmed, _) = dumped(table.path(), &whole);
        let data = table.path().join("da-1-bti-Data.db");
        let mut bytes = fs::read(&data).unwrap();
        bytes[left / 2] ^= 1;
        fs::write(&data, bytes).unwrap();
        let (lines, complaint) = dumped(table.path(), &whole);
        assert!(lines < unharmed, "{lines} of {unharmed}");
        assert!(complaint.contains("has the checksum"), "{complaint}");
        assert!(complaint.contains("it is too short"), "{complaint}");
        assert_eq!(complaint.lines().count(), 2, "{complaint}");
    }
}

#[test]
fn statistics_are_printed_without_the_data_file() {
    for component in ["Data.db", "Partitions.db", "CompressionInfo.db"] {
        let copy = copied("wide_range_tombstones");
        let path = copy.path().to_str().unwrap();
        let whole: serde_json::Value =
            serde_json::from_str(&said(&["sstable", "stats", "--json", path])).unwrap();
        fs::remove_file(copy.path().join(format!("da-1-bti-{component}"))).unwrap();
        let (code, found, reported) = output(&["sstable", "stats", "--json", path]);
        assert_eq!((code, reported.lines().count()), (Some(0), 1), "{reported}");
        assert!(
            reported.contains(component) && reported.contains("Statistics.db alone"),
            "{reported}"
        );
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        for name in
            ["first", "last", "partitions", "rows", "columns", "min_clustering", "drop_times"]
        {
            assert_eq!(found[name], whole[name], "{name}");
        }
        assert!(found["data_bytes"].is_null() && found["components"][component].is_null());
        let (code, text, _) = output(&["sstable", "stats", path]);
        let line = format!("  {:<22} not known", "data");
        assert!(code == Some(0) && text.contains(&line), "{text}");
    }
    let copy = copied("kv_one");
    fs::remove_file(copy.path().join("da-1-bti-Statistics.db")).unwrap();
    let (code, found, reported) = output(&["sstable", "stats", copy.path().to_str().unwrap()]);
    assert_eq!((code, found.as_str()), (Some(1), ""));
    assert!(reported.contains("Statistics.db: No such file"), "{reported}");
}

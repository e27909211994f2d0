//! `espalier sstable` on files that Cassandra wrote.

use std::fs;
use std::process::Stdio;

use crate::support::{copied, copy_to, espalier, output, written_by_cassandra};

#[test]
fn sound_files_verify() {
    let directory = written_by_cassandra("ttls");
    let (code, said, _) = output(&["sstable", "verify", &directory]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.lines().all(|line| line.contains(": ok, ")) && !said.is_empty(), "{said}");
}

#[test]
fn one_flipped_bit_is_found() {
    let copy = copied("wide_range_tombstones");
    let data = copy.path().join("da-1-bti-Data.db");
    let mut bytes = fs::read(&data).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&data, bytes).unwrap();
    let (code, said, complaint) = output(&["sstable", "verify", data.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("da-1-bti: DAMAGED") && said.contains("Data.db"), "{said}");
    assert_eq!(complaint, "espalier: 1 of 1 SSTables is damaged\n");
}

/// A missing TOC.txt may be lost, or not yet written.
#[test]
fn an_sstable_without_toc_is_skipped_with_a_message() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for entry in fs::read_dir(written_by_cassandra("ttls")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        fs::copy(entry.path(), directory.path().join(&name)).unwrap();
        if !name.to_str().unwrap().ends_with("TOC.txt") {
            let second = name.to_str().unwrap().replace("da-1-", "da-2-");
            fs::copy(entry.path(), directory.path().join(second)).unwrap();
        }
    }
    let (code, said, complaint) = output(&["sstable", "verify", path]);
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(complaint.contains("da-2-bti: skipped: it has no TOC.txt"), "{complaint}");
    assert!(complaint.ends_with("espalier: 1 of 2 SSTables was not verified\n"), "{complaint}");
    // If the directory has the log of an operation, another process may be writing the SSTable.
    let log = format!("{path}/da_txn_compaction_5a1c395e-b41f-11e5-9f22-ba0be0483c18.log");
    fs::write(&log, "").unwrap();
    let (code, said, complaint) = output(&["sstable", "verify", path]);
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
    assert!(complaint.contains("da-2-bti: skipped: it has no TOC.txt"), "{complaint}");
    let (code, said, _) = output(&["sstable", "verify", &format!("{path}/da-2-bti-Data.db")]);
    assert_eq!(code, Some(1));
    assert!(said.contains("TOC.txt: No such file"), "{said}");
}

/// A snapshot may have been copied without TOC.txt, or the file may be lost.
#[test]
fn an_sstable_without_toc_is_read_if_it_is_named() {
    let whole = copied("wide_range_tombstones");
    let lost = copied("wide_range_tombstones");
    let name = |directory: &tempfile::TempDir| {
        directory.path().join("da-1-bti-Data.db").to_str().unwrap().to_owned()
    };
    fs::remove_file(lost.path().join("da-1-bti-TOC.txt")).unwrap();
    for arguments in [&["dump"][..], &["dump", "--raw"], &["dump", "--limit", "5"]] {
        let (_, expected, _) = output(&[&["sstable"], arguments, &[&name(&whole)]].concat());
        let (code, said, reported) = output(&[&["sstable"], arguments, &[&name(&lost)]].concat());
        assert_eq!((code, &said), (Some(0), &expected), "{arguments:?}: {reported}");
        assert!(reported.contains("da-1-bti: it has no TOC.txt"), "{reported}");
        assert!(!expected.is_empty());
    }
    let converted = lost.path().join("converted").to_str().unwrap().to_owned();
    let convert = ["sstable", "convert", &name(&lost), "--to", "da", "--output", &converted];
    assert_eq!(output(&convert).0, Some(0));
    assert!(output(&["sstable", "verify", &converted]).1.contains("da-1-bti: ok"));
    // An SSTable without Data.db cannot be read.
    fs::remove_file(name(&lost)).unwrap();
    let (code, _, complaint) = output(&["sstable", "dump", &name(&lost)]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("Data.db: No such file"), "{complaint}");
}

/// Makes a directory whose path is longer than the kernel allows. No process can list it by its
/// path, even with root's rights.
fn unreadable_below(directory: &std::path::Path) {
    let name = "n".repeat(250);
    let chain = |root: std::path::PathBuf| {
        let deepest = (0..9).fold(root, |path, _| path.join(&name));
        fs::create_dir_all(&deepest).unwrap();
        deepest
    };
    chain(directory.join("b"));
    let deepest = chain(directory.join("a"));
    fs::rename(directory.join("b"), deepest.join("b")).unwrap();
}

#[test]
fn an_unreadable_directory_does_not_stop_work_on_others() {
    let copy = copied("ttls");
    unreadable_below(copy.path());
    let path = copy.path().to_str().unwrap();
    let converted = tempfile::tempdir().unwrap();
    let target = converted.path().to_str().unwrap();
    for arguments in [
        &["sstable", "verify", path][..],
        &["sstable", "dump", path],
        &["sstable", "dump", "--limit", "1", path],
        &["sstable", "stats", path],
        &["sstable", "index", path],
        &["sstable", "convert", path, "--to", "nb", "--output", target],
    ] {
        let (code, said, complaint) = output(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {complaint}");
        assert!(!said.is_empty(), "{arguments:?}");
        let lines: Vec<&str> = complaint.lines().collect();
        assert!(lines[0].ends_with("skipped, with all directories below it"), "{complaint}");
        assert_eq!(lines[1..], ["espalier: 1 directory could not be read"], "{arguments:?}");
    }
    assert!(output(&["sstable", "verify", target]).1.contains("nb-1-big: ok"));
}

/// A fault that `verify` finds in two ways is reported once, and at most one line reports a missing
/// file.
#[test]
fn verification_reports_each_fault_once() {
    let all: Vec<_> = fs::read_dir(written_by_cassandra("ttls")).unwrap().collect();
    for entry in all {
        let name = entry.unwrap().file_name();
        let copy = copied("ttls");
        for damage in ["removed", "cut", "flipped"] {
            let file = copy.path().join(&name);
            let mut bytes = fs::read(&file).unwrap_or_default();
            match damage {
                "removed" => fs::remove_file(&file).unwrap(),
                "cut" => fs::write(&file, &bytes[..bytes.len() / 2]).unwrap(),
                _ => {
                    let middle = bytes.len() / 2;
                    if let Some(byte) = bytes.get_mut(middle) {
                        *byte ^= 0xff;
                    }
                    fs::write(&file, &bytes).unwrap();
                }
            }
            let data = copy.path().join("da-1-bti-Data.db");
            let (_, said, _) = output(&["sstable", "verify", data.to_str().unwrap()]);
            let mut lines: Vec<&str> = said.lines().collect();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines.len(), said.lines().count(), "{name:?} {damage}: {said}");
            let of_place =
                |line: &&str| line.contains("No such file") || line.contains("not there");
            let missing = lines.iter().filter(|line| of_place(line)).count();
            assert!(missing <= 1, "{name:?} {damage}: {said}");
            fs::copy(std::path::Path::new(&written_by_cassandra("ttls")).join(&name), &file)
                .unwrap();
        }
    }
}

#[test]
fn a_damaged_sstable_does_not_stop_work_on_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for entry in fs::read_dir(written_by_cassandra("ttls")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let number =
            |number: u32| directory.path().join(name.replace("-1-", &format!("-{number}-")));
        fs::copy(entry.path(), number(2)).unwrap();
        if name.ends_with("Statistics.db") {
            fs::write(number(1), "").unwrap();
        } else {
            fs::copy(entry.path(), number(1)).unwrap();
        }
    }
    let converted = format!("{path}/converted");
    let convert = ["sstable", "convert", path, "--to", "nb", "--output", &converted];
    for arguments in [&["sstable", "stats", path][..], &convert] {
        let (code, said, complaint) = output(arguments);
        assert_eq!(code, Some(1));
        assert!(said.contains("da-2-bti"), "{said}");
        let complaints: Vec<_> = complaint.lines().collect();
        assert!(complaints[0].contains("da-1-bti-Statistics.db"), "{complaint}");
        assert_eq!(complaints[1..], ["espalier: 1 of 2 SSTables failed"]);
    }
    assert!(output(&["sstable", "verify", &converted]).1.contains("nb-2-big: ok"));
}

#[test]
fn paths_without_an_sstable_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().to_str().unwrap();
    let (code, _, complaint) = output(&["sstable", "verify", empty]);
    assert_eq!(code, Some(1));
    assert_eq!(complaint, format!("espalier: {empty}: there is no SSTable in it or below\n"));
    let (code, _, complaint) = output(&["sstable", "dump", "/no/such/da-1-bti-Data.db"]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("/no/such/da-1-bti-Data.db: No such file"), "{complaint}");
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_without_waiting() {
    let copy = copied("ttls");
    let data = copy.path().join("da-1-bti-Data.db");
    fs::remove_file(&data).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&data).status().unwrap().success());
    for command in ["verify", "dump", "stats"] {
        let (code, said, complaint) = output(&["sstable", command, data.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{command}");
        assert!((said + &complaint).contains("it is not a regular file"), "{command}: {complaint}");
    }
}

#[test]
fn an_sstable_that_is_named_by_all_of_its_files_is_one() {
    let copy = copied("ttls");
    let files = fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<String> = files.map(|path| path.to_str().unwrap().to_owned()).collect();
    let components: Vec<&str> =
        files.iter().map(String::as_str).filter(|name| name.contains("da-1-bti-")).collect();
    assert!(components.len() > 5);
    let (code, said, _) = output(&[&["sstable", "verify"], &components[..]].concat());
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
}

/// A converted file's filter has a size for the number of partitions in Statistics.db, so damage
/// must not make this number huge. `stats` prints the number.
#[test]
fn a_damaged_number_of_partitions_costs_no_memory() {
    let copy = copied("ttls");
    let directory = copy.path().to_str().unwrap();
    let statistics = copy.path().join("da-1-bti-Statistics.db");
    let bytes = fs::read(&statistics).unwrap();
    for offset in 0..bytes.len().min(400) {
        let mut damaged = bytes.clone();
        damaged[offset] ^= 0xff;
        fs::write(&statistics, &damaged).unwrap();
        let arguments = ["sstable", "stats", "--json", directory];
        let (code, said, _) = output(&arguments);
        if code == Some(0) {
            let said: serde_json::Value =
                serde_json::from_str(said.lines().next().unwrap()).unwrap();
            let partitions = said["partitions"].as_u64().unwrap();
            assert!(partitions < 1_000_000, "byte {offset}: {partitions} partitions");
        }
    }
}

#[test]
fn a_table_missing_from_the_schema_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let schema = directory.path().join("schema.cql");
    fs::write(&schema, "CREATE TABLE ks.t (k int PRIMARY KEY, v int);").unwrap();
    let input = directory.path().join("rows.jsonl");
    fs::write(&input, "{\"k\": 1, \"v\": 2}\n").unwrap();
    let written = directory.path().join("written");
    let paths = [&schema, &input, &written].map(|path| path.to_str().unwrap());
    let [schema, input, written] = paths;
    let arguments = [
        "sstable", "write", "--schema", schema, "--table", "u", "--input", input, "--output",
        written,
    ];
    let (code, _, complaint) = output(&arguments);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("the schema has no table u, but ks.t"), "{complaint}");
}

/// Copies three SSTables into three folders. Returns the temporary directory, and the path of the
/// folder above the three.
fn three() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        copy_to("kv_one", &directory.path().join("in").join(name));
    }
    let path = directory.path().join("in").to_str().unwrap().to_owned();
    (directory, path)
}

#[test]
fn commands_finish_if_their_output_is_not_read() {
    let (directory, path) = three();
    let unheard = |arguments: &[&str]| {
        let mut command = espalier(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        child.wait().unwrap().code()
    };
    let converted = directory.path().join("out");
    let to = converted.to_str().unwrap();
    assert_eq!(unheard(&["sstable", "convert", &path, "--to", "nb", "--output", to]), Some(0));
    for name in ["a", "b", "c"] {
        assert!(fs::exists(converted.join(name).join("nb-1-big-TOC.txt")).unwrap(), "{name}");
    }
    assert_eq!(unheard(&["sstable", "verify", &path]), Some(0));
    for name in ["b", "c"] {
        let statistics = format!("{path}/{name}/da-1-bti-Statistics.db");
        fs::write(statistics, "").unwrap();
    }
    assert_eq!(unheard(&["sstable", "verify", &path]), Some(1));
    // `stats` only prints, so it ends when its reader is gone.
    assert_eq!(unheard(&["sstable", "stats", &path]), Some(0));
}

#[test]
fn a_drawing_does_not_replace_a_file_of_an_sstable() {
    let copy = copied("kv_one");
    let path = copy.path().to_str().unwrap();
    let data = format!("{path}/da-1-bti-Data.db");
    let (code, _, complaint) = output(&["sstable", "index", path, "--svg", &data]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("this is the name of a file of an SSTable"), "{complaint}");
    assert_eq!(output(&["sstable", "verify", path]).0, Some(0));
}

#[test]
fn an_sstable_is_converted_once_if_all_of_its_files_are_named() {
    let copy = copied("kv_one");
    let files = fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<String> = files.map(|path| path.to_str().unwrap().to_owned()).collect();
    let components = files.iter().map(String::as_str).filter(|name| name.contains("da-1-bti-"));
    let converted = copy.path().join("out").to_str().unwrap().to_owned();
    let mut arguments = vec!["sstable", "convert", "--to", "nb", "--output", &converted];
    arguments.extend(components);
    let (code, said, complaint) = output(&arguments);
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{complaint}");
}

#[test]
fn the_only_table_of_a_schema_is_not_taken_for_another() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("ks/orders-5a1c395eb41f11e59f22ba0be0483c18");
    copy_to("kv_one", &table);
    let table = table.to_str().unwrap();
    let beside = format!("{table}/schema.cql");
    let other = "CREATE TABLE ks.other (a int, b int, c int, PRIMARY KEY (a, b, c));";
    fs::write(&beside, other).unwrap();
    assert_eq!(
        output(&["sstable", "dump", table]).0,
        Some(0),
        "the schema beside the files must be ignored"
    );
    let (code, _, complaint) = output(&["sstable", "dump", table, "--schema", &beside]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("the schema has no table orders"), "{complaint}");
    let arguments = ["sstable", "dump", table, "--schema", &beside, "--table", "other"];
    let (code, _, complaint) = output(&arguments);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("this is another table"), "{complaint}");
}

#[test]
fn a_key_that_fits_one_of_several_tables_is_looked_for_in_it() {
    let (numbers, words) = (written_by_cassandra("kv_one"), written_by_cassandra("counters"));
    let arguments = ["sstable", "dump", "--key", "k1"];
    let (code, expected, _) = output(&[&arguments[..], &[&words]].concat());
    assert!(code == Some(0) && expected.lines().count() > 1, "{expected}");
    let (code, _, complaint) = output(&[&arguments[..], &[&numbers]].concat());
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
    let (code, said, complaint) = output(&[&arguments[..], &[&numbers, &words]].concat());
    assert_eq!((code, said), (Some(1), expected));
    assert!(complaint.contains("kv_one/da-1-bti: --key: "), "{complaint}");
}

/// ScyllaDB and old versions of Cassandra store `crc_check_chance` among the compressor's options;
/// Cassandra 5 refuses such files.
#[test]
fn a_conversion_drops_crc_check_chance_from_compressor_options() {
    let copy = copied("kv_one");
    let path = copy.path().to_str().unwrap();
    let info = copy.path().join("da-1-bti-CompressionInfo.db");
    let bytes = fs::read(&info).unwrap();
    let class_end = 2 + usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    assert_eq!(&bytes[class_end..class_end + 4], [0; 4], "it has no options yet");
    let option = b"\0\0\0\x01\0\x10crc_check_chance\0\x031.0";
    fs::write(&info, [&bytes[..class_end], option, &bytes[class_end + 4..]].concat()).unwrap();
    let converted = copy.path().join("out").to_str().unwrap().to_owned();
    let expected = output(&["sstable", "dump", path]).1;
    let (code, said, complaint) =
        output(&["sstable", "convert", path, "--to", "da", "--output", &converted]);
    assert_eq!(code, Some(0), "{complaint}");
    assert!(said.starts_with(&format!("{path}/da-1-bti -> {converted}/da-1-bti: ")), "{said}");
    let written = fs::read(format!("{converted}/da-1-bti-CompressionInfo.db")).unwrap();
    assert!(!written.windows(9).any(|window| window == b"crc_check"));
    assert_eq!(output(&["sstable", "dump", &converted]).1, expected);
}

#[test]
fn an_unreadable_schema_beside_sstables_is_reported_once() {
    let copy = copied("kv_one");
    for entry in fs::read_dir(written_by_cassandra("kv_one")).unwrap() {
        let entry = entry.unwrap();
        let second = entry.file_name().to_str().unwrap().replace("da-1-", "da-2-");
        fs::copy(entry.path(), copy.path().join(second)).unwrap();
    }
    fs::write(copy.path().join("schema.cql"), "CREATE TABLE (").unwrap();
    let (code, said, complaint) = output(&["sstable", "dump", copy.path().to_str().unwrap()]);
    assert_eq!((code, said.lines().count()), (Some(0), 4), "{said}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains("schema.cql") && complaint.contains("invented"), "{complaint}");
    assert!(complaint.ends_with("; --schema FILE gives them\n"), "{complaint}");
}

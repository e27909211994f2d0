//! Keeps the language and the shape of the source: CONTRIBUTING.md has the rules.
//!
//! The tests read the tracked files of the checkout, and report all faults with their files.
//! `tidy_allowed.txt` lists the files that may be longer or have a longer function, each with a
//! reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAX_COLUMNS: usize = 100;
const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 70;
const MAX_ALLOWED: usize = 30;

/// Beginnings of a comment that leave its subject open.
const OPENINGS: [&str; 7] = ["Of ", "The same", "Who ", "Whoever ", "What ", "That ", "Those "];

/// Words that do not name the subject, or have no meaning in this field.
const WORDS: [&str; 7] =
    ["whoever", "somebody", "nobody", "everybody", "that which", "those who", "gave way"];

/// Beginnings of a test's name that leave its subject open.
const TEST_OPENINGS: [&str; 8] =
    ["what_", "who_", "that_", "those_", "they_", "it_", "of_", "how_"];

/// Words that name no subject in a test's name, or have no meaning in this field.
const TEST_WORDS: [&str; 13] = [
    "what",
    "who",
    "whoever",
    "whatever",
    "somebody",
    "nobody",
    "everybody",
    "that_which",
    "told",
    "aloud",
    "passed_over",
    "gives_way",
    "give_way",
];

const MAX_TEST_NAME: usize = 70;

/// Names of our own that were replaced by the terms of docs/glossary.md.
const NAMES: [&str; 22] = [
    "DeadRange",
    "DeadWalk",
    "dead_ranges",
    "dead_runs",
    "EvenRow",
    "ViewedRow",
    "PlainRow",
    "AtHand",
    "at_hand",
    "PendingRow",
    "GaveWay",
    "gave_way",
    "SpareChunks",
    "dismantle",
    "unshare",
    "TableArena",
    "FileFacts",
    "overfull",
    "SettledWrites",
    "fn tell_",
    "fn note_",
    "compacted_by_themselves",
];

/// Forbidden prefixes; the name of a limit begins with `MAX_` or `MIN_`.
const LIMITS: [&str; 9] = [
    "MAXIMUM_",
    "MINIMUM_",
    "MOST_",
    "LEAST_",
    "LARGEST_",
    "SMALLEST_",
    "LONGEST_",
    "SHORTEST_",
    "FEWEST_",
];

/// This file names the words that it forbids.
const SELF: &str = "crates/espalier/tests/binary/tidy.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the tracked text files except this one, with their text; `None` in a copy without git.
fn tracked_files() -> Option<Vec<(String, String)>> {
    let listed = Command::new("git").arg("ls-files").current_dir(root()).output().ok()?;
    if !listed.status.success() {
        return None;
    }
    let names = String::from_utf8(listed.stdout).unwrap();
    let read = |name: &str| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?));
    Some(names.lines().filter(|name| *name != SELF).filter_map(read).collect())
}

/// Returns the comment of a line that is only a comment, without its marker.
fn comment(name: &str, line: &str) -> Option<String> {
    let line = line.trim_start();
    let marker = if name.ends_with(".rs") || name.ends_with(".java") { "//" } else { "#" };
    let text = line.strip_prefix(marker)?;
    Some(text.trim_start_matches(['/', '!', '#']).trim().to_owned())
}

fn is_prose(name: &str) -> bool {
    name.ends_with(".md") && !name.starts_with("testdata/")
}

fn is_code(name: &str) -> bool {
    [".rs", ".py", ".sh", ".java"].iter().any(|ending| name.ends_with(ending))
}

/// Appends the faults of the lines of one file.
fn check_lines(name: &str, text: &str, faults: &mut Vec<String>) {
    let mut is_in_block = false;
    let mut begins = true;
    for (at, line) in text.lines().enumerate() {
        let mut fault = |what: &str| faults.push(format!("{name}:{}: {what}", at + 1));
        let comment = comment(name, line);
        if is_prose(name) && line.trim_start().starts_with("```") {
            is_in_block = !is_in_block;
        }
        let is_free = line.starts_with('|') || line.starts_with("    ") || is_in_block;
        let is_checked = if is_prose(name) { !is_free } else { comment.is_some() };
        let has_link = line.contains("](") || line.contains("://");
        if is_checked && !has_link && line.chars().count() > MAX_COLUMNS {
            fault("the line has more than 100 columns");
        }
        let prose = if is_prose(name) { Some(line.to_owned()) } else { comment };
        if let Some(prose) = &prose {
            let lower = prose.to_lowercase();
            if let Some(word) = WORDS.iter().find(|word| lower.contains(*word)) {
                fault(&format!("\"{word}\" names no actor"));
            }
            let is_sentence =
                !prose.starts_with(['#', '|', '-', '*']) && comment_begins(name, begins);
            if is_sentence && OPENINGS.iter().any(|opening| prose.starts_with(opening)) {
                fault("the comment begins with a word that leaves its subject open");
            }
        }
        begins = prose.is_none_or(|prose| prose.is_empty());
        if let Some(limit) = LIMITS.iter().find(|limit| has_prefix(line, limit)) {
            fault(&format!("a limit is MAX_ or MIN_, not {limit}"));
        }
        // The gate builds no release, so an item that only debug builds have could break the
        // release.
        if name.ends_with(".rs") && line.contains("cfg(debug_assertions)]") {
            fault("an item must exist in every build; use cfg!(debug_assertions) in code");
        }
        if let Some(found) = NAMES.iter().find(|word| line.contains(*word)) {
            fault(&format!("{found} has another name in docs/glossary.md"));
        }
    }
}

/// Returns true if the line may begin a comment. Paragraphs of a page are not checked, because
/// their heading may name the subject.
fn comment_begins(name: &str, begins: bool) -> bool {
    begins && !is_prose(name)
}

/// Returns true if a name in the line begins with the prefix.
fn has_prefix(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + prefix.len()..].chars().next();
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
            && after.is_some_and(|after| after.is_ascii_uppercase())
    })
}

/// Appends a fault for each cited page that the tree does not have.
fn check_citations(name: &str, text: &str, faults: &mut Vec<String>) {
    for (at, line) in text.lines().enumerate() {
        for (from, _) in line.match_indices("docs/") {
            let is_word =
                |character: char| character.is_alphanumeric() || "/-_.".contains(character);
            let cited: String =
                line[from..].chars().take_while(|&character| is_word(character)).collect();
            let cited = cited.trim_end_matches('.');
            let is_path = line[..from].ends_with(|before: char| is_word(before));
            if cited.ends_with(".md") && !is_path && !root().join(cited).is_file() {
                faults.push(format!("{name}:{}: there is no {cited}", at + 1));
            }
        }
    }
}

/// Returns the line number and the name of each test of a Rust or Python file.
fn tests<'a>(name: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let is_rust = name.ends_with(".rs");
    let (keyword, mut is_test) = if is_rust { ("fn ", false) } else { ("def ", true) };
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        is_test |= line == "#[test]";
        let head = line.trim_start_matches("pub ").trim_start_matches("async ");
        let Some(rest) = head.strip_prefix(keyword) else { continue };
        let name = rest.split('(').next().unwrap_or("");
        if is_test && (is_rust || name.starts_with("test_")) {
            found.push((at + 1, name.trim_start_matches("test_")));
        }
        is_test = !is_rust;
    }
    found
}

/// Returns the reason why a test's name is refused.
fn fault_of_test_name(name: &str) -> Option<String> {
    if let Some(opening) = TEST_OPENINGS.iter().find(|opening| name.starts_with(*opening)) {
        return Some(format!("the test's name begins with \"{opening}\", which names no subject"));
    }
    let words = format!("_{name}_");
    if let Some(word) = TEST_WORDS.iter().find(|word| words.contains(&format!("_{word}_"))) {
        return Some(format!("\"{word}\" in the test's name names no subject"));
    }
    (name.len() > MAX_TEST_NAME)
        .then(|| format!("the test's name has more than {MAX_TEST_NAME} characters"))
}

/// Returns the line number and the length of each function. The source must have rustfmt's layout.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start().split('(').next().unwrap_or("");
        if !words.split(' ').any(|word| word == "fn") || line.trim_start().starts_with("//") {
            continue;
        }
        let end = format!("{}}}", &line[..indent]);
        let length = lines[at..].iter().position(|line| **line == *end).map_or(1, |end| end + 1);
        found.push((at + 1, length));
    }
    found
}

/// Returns the allowed files with their reasons.
fn allowed() -> BTreeMap<String, String> {
    let list = include_str!("tidy_allowed.txt");
    let entries = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (name, reason) = line.split_once(": ").expect("an entry is `PATH: REASON`");
        (name.to_owned(), reason.to_owned())
    };
    entries.map(entry).collect()
}

fn report(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn prose_and_names_follow_the_rules() {
    let Some(files) = tracked_files() else { return };
    assert!(files.len() > 500, "only {} files are tracked", files.len());
    let mut faults = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| is_code(name) || is_prose(name)) {
        check_lines(name, text, &mut faults);
        check_citations(name, text, &mut faults);
    }
    report(&faults);
}

#[test]
fn names_of_tests_name_their_subject() {
    let python = "def test_paths(node):\n    def what_it_reads():\nasync def test_what_is_sent():";
    assert_eq!(tests("a.py", python), [(1, "paths"), (3, "what_is_sent")]);
    let rust = "fn what_helps() {}\n    #[test]\n    #[ignore]\n    fn a_row_is_read() {}";
    assert_eq!(tests("a.rs", rust), [(4, "a_row_is_read")]);
    for refused in ["what_is_sent", "a_lost_filter_is_told", "who", "a_read_gives_way", "it_reads"]
    {
        assert!(fault_of_test_name(refused).is_some(), "{refused}");
    }
    for accepted in ["a_write_whose_sync_failed_is_kept", "an_untold_somewhat_long_name"] {
        assert_eq!(fault_of_test_name(accepted), None);
    }

    let Some(files) = tracked_files() else { return };
    let (mut faults, mut count) = (Vec::new(), 0);
    for (name, text) in files.iter().filter(|(name, _)| is_code(name)) {
        for (at, test) in tests(name, text) {
            count += 1;
            faults.extend(fault_of_test_name(test).map(|fault| format!("{name}:{at}: {fault}")));
        }
    }
    assert!(count > 1500, "only {count} tests were found");
    report(&faults);
}

#[test]
fn files_and_functions_are_short() {
    let Some(files) = tracked_files() else { return };
    let allowed = allowed();
    assert!(allowed.len() <= MAX_ALLOWED, "{} files are allowed", allowed.len());
    let (mut faults, mut met) = (Vec::new(), Vec::new());
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".rs")) {
        let mut found = Vec::new();
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            found.push(format!("{name} has {lines} lines"));
        }
        let is_test = name.contains("/tests") || name.ends_with("tests.rs");
        for (at, length) in functions(text).into_iter().filter(|_| !is_test) {
            if length > MAX_FUNCTION_LINES {
                found.push(format!("{name}:{at}: the function has {length} lines"));
            }
        }
        if allowed.contains_key(name) && !found.is_empty() {
            met.push(name.clone());
        } else {
            faults.append(&mut found);
        }
    }
    let unused = allowed.keys().filter(|name| !met.contains(name));
    faults.extend(unused.map(|name| format!("tidy_allowed.txt: {name} needs no entry")));
    report(&faults);
}

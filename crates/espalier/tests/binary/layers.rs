//! Keeps the layers of the source: crates import only crates that ARCHITECTURE.md lists above them,
//! modules of the storage crates form no circle, and their types stay small.
//!
//! The tests read `use` items and paths, not the compiler's view. That suffices, because rustfmt
//! lays out the source. `layers_allowed.txt` lists the exceptions, each with a number that may only
//! shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules and types are checked.
const CHECKED: [&str; 5] = ["commitlog", "memtable", "cache", "compaction", "storage"];

const MAX_FIELDS: usize = 15;
const MAX_METHODS: usize = 40;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A source file without comments and unit tests.
struct Source {
    /// The module path within the crate; empty for `lib.rs`.
    module: Vec<String>,
    text: String,
}

/// Returns the sources of a crate without its tests.
fn sources(name: &str) -> Vec<Source> {
    let directory = root().join("crates").join(name).join("src");
    let (mut found, mut pending) = (Vec::new(), vec![directory.clone()]);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let relative = path.strip_prefix(&directory).unwrap().with_extension("");
            let mut module: Vec<String> =
                relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            let is_test = |part: &String| part.ends_with("tests") || part == "test_database";
            if path.extension().is_none_or(|ending| ending != "rs") || module.iter().any(is_test) {
                continue;
            }
            if module.last().is_some_and(|last| last == "mod" || last == "lib") {
                module.pop();
            }
            found.push(Source { module, text: without_comments(&path) });
        }
    }
    assert!(!found.is_empty(), "{name} has no source");
    found
}

fn without_comments(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// Returns the paths of a `use` tree: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn paths_of(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        return if tree.is_empty() { Vec::new() } else { vec![tree.to_owned()] };
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut part, mut paths) = (0, String::new(), Vec::new());
    for character in inner.chars().chain([',']) {
        match character {
            ',' if depth == 0 => {
                let of_part = paths_of(&std::mem::take(&mut part)).into_iter();
                paths.extend(of_part.map(|path| format!("{prefix}{path}")));
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        part.push(character);
    }
    paths
}

/// Returns the `use` items of a text as (is public, path), and the text without them.
fn uses_of(text: &str) -> (Vec<(bool, String)>, String) {
    let (mut uses, mut rest, mut lines) = (Vec::new(), String::new(), text.lines());
    while let Some(line) = lines.next() {
        let item = line.trim_start();
        let (is_public, item) = match item.split_once("use ") {
            Some(("", tree)) => (false, tree),
            Some((before, tree)) if before.starts_with("pub") && before.ends_with(' ') => {
                (true, tree)
            }
            _ => {
                rest.push_str(line);
                rest.push('\n');
                continue;
            }
        };
        let mut tree = item.to_owned();
        while !tree.contains(';') {
            let Some(more) = lines.next() else { break };
            tree.push_str(more.trim());
        }
        let tree = tree.split(';').next().unwrap_or_default();
        uses.extend(paths_of(tree).into_iter().map(|path| (is_public, path)));
    }
    (uses, rest)
}

/// Returns all words of the code that contain `::`. The caller ignores paths to other crates.
fn paths_in(code: &str) -> Vec<String> {
    let is_word = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let words = code.split(|character: char| !is_word(character));
    words.filter(|word| word.contains("::")).map(str::to_owned).collect()
}

/// Returns the top-level modules of a crate, each with the modules to which it refers. The items of
/// `lib.rs` belong to the module `lib`; an item that `lib.rs` re-exports belongs to the module that
/// defines it.
fn graph(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources(name);
    let top = |source: &Source| source.module.first().cloned().unwrap_or_else(|| "lib".into());
    let modules: BTreeSet<String> = sources.iter().map(top).collect();
    let library = sources.iter().find(|source| source.module.is_empty()).expect("there is lib.rs");
    let (exports, library_code) = uses_of(&library.text);
    let exports: BTreeMap<String, String> = exports
        .iter()
        .filter_map(|(_, path)| {
            let path = path.strip_prefix("crate::").unwrap_or(path);
            let (module, name) = path.split_once("::")?;
            let name = name.rsplit([' ', ':']).next()?;
            modules.contains(module).then(|| (name.to_owned(), module.to_owned()))
        })
        .collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in &sources {
        let (uses, code) = uses_of(&source.text);
        let is_library = source.module.is_empty();
        let uses = uses.into_iter().filter(|(is_public, _)| !(is_library && *is_public));
        let paths = uses.map(|(_, path)| path).chain(paths_in(&code));
        let targets = graph.entry(top(source)).or_default();
        for path in paths {
            let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
            let mut base: Vec<&str> = source.module.iter().map(String::as_str).collect();
            match parts.first() {
                Some(&"crate") => base.clear(),
                Some(&"super") => {}
                _ if is_library => {}
                _ => continue,
            }
            while parts.first() == Some(&"super") {
                base.pop();
                parts.remove(0);
            }
            if parts.first() == Some(&"crate") {
                parts.remove(0);
            }
            let Some(first) = base.iter().chain(&parts).next() else { continue };
            let first = first.split(' ').next().unwrap_or_default();
            let is_defined = ["struct", "enum", "trait", "type", "const", "fn", "static"]
                .iter()
                .any(|kind| library_code.contains(&format!("{kind} {first}")));
            if modules.contains(first) {
                targets.insert(first.to_owned());
            } else if let Some(module) = exports.get(first) {
                targets.insert(module.clone());
            } else if is_defined {
                targets.insert("lib".into());
            }
        }
    }
    graph
}

/// Returns the modules that a module refers to, directly or through others.
fn reached(graph: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut found, mut pending) = (BTreeSet::new(), vec![from]);
    while let Some(module) = pending.pop() {
        for target in graph.get(module).into_iter().flatten() {
            if target != module && found.insert(target.clone()) {
                pending.push(target);
            }
        }
    }
    found
}

/// Returns the largest circle of modules that import each other; empty if there is none.
fn largest_circle(graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let circle = |module: &String| -> BTreeSet<String> {
        let is_back = |other: &String| reached(graph, other).contains(module);
        reached(graph, module).into_iter().filter(is_back).collect()
    };
    graph.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

/// Returns the entries of `layers_allowed.txt`.
fn allowed() -> BTreeMap<String, usize> {
    let list = include_str!("layers_allowed.txt");
    let entries = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (what, count) = line.split_once(": ").expect("an entry is `WHAT: NUMBER`");
        (what.to_owned(), count.parse().expect("a number"))
    };
    entries.map(entry).collect()
}

/// Compares the sizes above the limits with the entries. Fails if a size has no entry, or if it is
/// larger or smaller than its entry.
fn compare(kind: &str, found: &BTreeMap<String, usize>) {
    let allowed = allowed();
    let mut faults = Vec::new();
    for (what, count) in found {
        match allowed.get(what) {
            Some(most) if count <= most => {}
            Some(most) => faults.push(format!("{what} has {count}, and {most} are allowed")),
            None => faults.push(format!("{what} has {count}, which is too many")),
        }
    }
    for (what, most) in allowed.iter().filter(|(what, _)| what.ends_with(kind)) {
        let count = found.get(what).copied().unwrap_or(0);
        if count < *most {
            faults.push(format!("layers_allowed.txt: {what} has shrunk to {count}, not {most}"));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn modules_of_the_storage_crates_import_one_way() {
    let mut found = BTreeMap::new();
    for name in CHECKED {
        let circle = largest_circle(&graph(name));
        if !circle.is_empty() {
            println!("{name}: {circle:?} import each other");
            found.insert(format!("{name} modules in a circle"), circle.len());
        }
    }
    compare("modules in a circle", &found);
}

#[test]
fn a_circle_is_found() {
    let graph = |arrows: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in arrows {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        graph
    };
    assert!(largest_circle(&graph(&[("a", "b"), ("b", "c"), ("a", "c"), ("c", "c")])).is_empty());
    let circle = largest_circle(&graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(circle, ["b".to_owned(), "c".to_owned()].into());
    let paths = paths_of("crate::{a, b::{c, d as e}}");
    assert_eq!(paths, ["crate::a", "crate::b::c", "crate::b::d as e"]);
}

#[test]
fn crates_import_crates_above_them() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, list) = architecture.split_once("    crates/\n").unwrap();
    let listed = list.lines().take_while(|line| line.starts_with("      "));
    let order: Vec<&str> = listed
        .filter(|line| !line.starts_with("        "))
        .filter_map(|line| line.trim_start().split('/').next())
        .collect();
    assert!(order.len() > 10, "{order:?}");
    let mut faults = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(place) = order.iter().position(|listed| *listed == name) else {
            faults.push(format!("ARCHITECTURE.md does not list {name}"));
            continue;
        };
        let manifest = root().join("crates").join(&name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let (_, rest) = manifest.split_once("[dependencies]\n").unwrap_or_default();
        let section = rest.split("\n[").next().unwrap_or_default();
        for line in section.lines() {
            let Some(rest) = line.strip_prefix("espalier-") else { continue };
            let imported = rest.split(['.', ' ']).next().unwrap_or_default();
            if !order[..place].contains(&imported) && !imported.starts_with("fuzz") {
                faults.push(format!("{name} imports {imported}, which is not above it"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Returns the number of fields of each struct, and the number of methods of each type.
fn sizes(name: &str) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
    let (mut fields, mut methods): (BTreeMap<String, usize>, BTreeMap<String, usize>) =
        Default::default();
    for Source { module, text } in sources(name) {
        let mut inside: Option<(bool, String)> = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split([' ', '<', '(', '{']).collect();
            if let Some(at) = words.iter().position(|word| *word == "struct") {
                let names_fields = line.ends_with('{') && !line.starts_with(' ');
                inside = names_fields.then(|| {
                    let place = if module.is_empty() { "lib".into() } else { module.join("::") };
                    (true, format!("{name}::{place}::{}", words[at + 1]))
                });
            } else if line.starts_with("impl") && !line.contains(" for ") {
                let target = line.trim_start_matches("impl").trim_start();
                let target = match target.strip_prefix('<') {
                    Some(generic) => generic.split_once("> ").map_or("", |(_, target)| target),
                    None => target,
                };
                let target = target.split([' ', '<', '{']).next().unwrap_or_default();
                inside = Some((false, format!("{name}::{target}")));
            } else if line.starts_with('}') {
                inside = None;
            }
            let Some((is_struct, type_name)) = &inside else { continue };
            let is_own = line.starts_with("    ") && !line.starts_with("     ");
            if *is_struct && is_own && line.contains(": ") {
                *fields.entry(type_name.clone()).or_default() += 1;
            } else if !is_struct && is_own && words.contains(&"fn") {
                *methods.entry(type_name.clone()).or_default() += 1;
            }
        }
    }
    (fields, methods)
}

#[test]
fn types_of_the_storage_crates_are_small() {
    let (mut many_fields, mut many_methods) = (BTreeMap::new(), BTreeMap::new());
    for name in CHECKED {
        let (fields, methods) = sizes(name);
        assert!(!fields.is_empty() && !methods.is_empty());
        let fields = fields.into_iter().filter(|(_, count)| *count > MAX_FIELDS);
        many_fields.extend(fields.map(|(name, count)| (format!("{name} fields"), count)));
        let methods = methods.into_iter().filter(|(_, count)| *count > MAX_METHODS);
        many_methods.extend(methods.map(|(name, count)| (format!("{name} methods"), count)));
    }
    compare(" fields", &many_fields);
    compare(" methods", &many_methods);
}

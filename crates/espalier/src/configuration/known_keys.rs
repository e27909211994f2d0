//! Keys of Cassandra and ScyllaDB that are not settings here. Some have no effect, some are
//! accepted with some values only, and others ask for features that do not exist here.
//!
//! The list is `known_keys.txt`. It is read when a configuration has a key that is not in
//! [`super::settings`].

use super::document::Value;

const LIST: &str = include_str!("known_keys.txt");

/// The treatment of a key that is not a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// The key has no effect, for this reason.
    Ignored(&'static str),
    /// The key is accepted with these values only.
    Only(Vec<&'static str>),
    /// The key asks for a feature that does not exist here. The text is the rest of the error.
    Absent(&'static str),
}

/// Returns the list's entry for `key`, or for its longest prefix that ends at a dot.
pub fn look_up(key: &str) -> Option<Known> {
    let found = entries().filter(|(name, _)| {
        key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    found.max_by_key(|(name, _)| name.len()).map(|(_, known)| known)
}

/// Returns all keys of the list.
pub fn names() -> impl Iterator<Item = &'static str> {
    entries().map(|(name, _)| name)
}

/// Returns whether the value is one of the `allowed` ones. Class names may include their package.
pub fn allows(allowed: &[&str], value: &Value) -> bool {
    let Value::Scalar(text) = value else { return false };
    let class = text.rsplit('.').next().unwrap_or(text);
    allowed.contains(&text.as_str()) || allowed.contains(&class)
}

fn entries() -> impl Iterator<Item = (&'static str, Known)> {
    let mut section = "";
    LIST.lines().flat_map(move |line| {
        if line.starts_with('[') {
            section = line;
            return Vec::new();
        }
        if line.starts_with('#') {
            return Vec::new();
        }
        parse_line(section, line)
    })
}

fn parse_line(section: &'static str, line: &'static str) -> Vec<(&'static str, Known)> {
    let (kind, reason) = section.split_once(']').unwrap_or((section, ""));
    let reason = reason.trim();
    if kind == "[only" {
        let Some((key, values)) = line.split_once('=') else { return Vec::new() };
        return vec![(key.trim(), Known::Only(values.split_whitespace().collect()))];
    }
    let known = match kind {
        "[absent" => Known::Absent(reason),
        _ => Known::Ignored(reason),
    };
    line.split_whitespace().map(|key| (key, known.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::settings;
    use super::*;

    #[test]
    fn the_longest_part_counts() {
        let ignored = |key| matches!(look_up(key), Some(Known::Ignored(_)));
        assert!(ignored("seed_provider"));
        assert!(ignored("memtable_allocation_type"));
        assert!(ignored("client_encryption_options.algorithm"));
        assert_eq!(look_up("cdc_enabled"), Some(Known::Only(vec!["false"])));
        assert_eq!(look_up("sstable.nonsense"), None);
        assert_eq!(look_up("memtables"), None);
        let Some(Known::Absent(reason)) = look_up("prometheus_port") else { panic!() };
        assert_eq!(reason, "metrics are served at api_port, under /metrics");
    }

    #[test]
    fn every_key_is_listed_once() {
        let mut names: Vec<&str> = names().chain(settings::names()).collect();
        assert!(names.len() > 400);
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }

    #[test]
    fn classes_may_have_their_package() {
        let scalar = |text: &str| Value::Scalar(text.to_owned());
        let Some(Known::Only(allowed)) = look_up("partitioner") else { panic!() };
        assert!(allows(&allowed, &scalar("Murmur3Partitioner")));
        assert!(allows(&allowed, &scalar("org.apache.cassandra.dht.Murmur3Partitioner")));
        assert!(!allows(&allowed, &scalar("org.apache.cassandra.dht.RandomPartitioner")));
        assert!(!allows(&allowed, &Value::List(Vec::new())));
    }
}

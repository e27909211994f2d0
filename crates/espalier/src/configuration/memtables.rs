//! Parses `memtable.configurations`: kinds of memtables by name, as in cassandra.yaml.
//!
//! ```yaml
//! memtable:
//!   configurations:
//!     skiplist: { class_name: SkipListMemtable }
//!     mine: { inherits: default, parameters: { shards: 4 } }
//! ```
//!
//! As in Cassandra, the configurations that inherit are resolved after all others, in the order of
//! the file, and may inherit from each configuration that is resolved already. `trie`, `skiplist`
//! and `default` (the trie) are predefined, and the operator may define them otherwise.

use std::collections::BTreeMap;

use espalier_storage::{MemtableConfigurations, MemtableKind, Structure};

use super::document::Value;
use super::error::{ConfigurationError, Origin};

/// Name of the setting.
pub(super) const NAME: &str = "memtable";
/// Prefix of all keys.
const PREFIX: &str = "memtable.configurations.";
const PACKAGE: &str = "org.apache.cassandra.db.memtable.";
const DEFAULT: &str = "default";

/// The configurations of a file and of `--set`, in the order of their first mention.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    all: Vec<(String, Definition)>,
}

#[derive(Debug, Default)]
struct Definition {
    class_name: Option<Given>,
    inherits: Option<Given>,
    parameters: BTreeMap<String, Given>,
    /// The first key that mentions the configuration.
    named: Option<Given>,
}

/// A value with its key and place.
#[derive(Clone, Debug)]
struct Given {
    key: String,
    value: String,
    origin: Origin,
}

impl Given {
    fn refuse(&self, reason: impl Into<String>) -> ConfigurationError {
        ConfigurationError::BadValue {
            origin: self.origin.clone(),
            key: self.key.clone(),
            value: self.value.clone(),
            reason: reason.into(),
        }
    }
}

/// A class with its parameters.
#[derive(Clone)]
struct Class {
    name: Given,
    parameters: BTreeMap<String, Given>,
}

/// Returns whether the key belongs to this module.
pub(super) fn is_key(key: &str) -> bool {
    key.strip_prefix(NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Definitions {
    /// Adds a key for which [`is_key`] is true.
    pub(super) fn take(
        &mut self,
        key: &str,
        value: &Value,
        origin: Origin,
    ) -> Result<(), ConfigurationError> {
        if *value == Value::Null && PREFIX.starts_with(&format!("{key}.")) {
            return Ok(());
        }
        let given = Given { key: key.to_owned(), value: value.to_string(), origin };
        let unknown = || ConfigurationError::UnknownKey {
            origin: given.origin.clone(),
            key: key.to_owned(),
            suggestion: None,
        };
        let rest = key.strip_prefix(PREFIX).ok_or_else(unknown)?;
        let (name, part) = rest.split_once('.').unwrap_or((rest, ""));
        let definition = self.definition(name);
        definition.named.get_or_insert_with(|| given.clone());
        match (part, value) {
            (_, Value::Null) => {}
            ("", _) => return Err(given.refuse("expected class_name, inherits or parameters")),
            (_, Value::List(_) | Value::Map(_)) => return Err(given.refuse("expected one value")),
            ("class_name", _) => definition.class_name = Some(given),
            ("inherits", _) => definition.inherits = Some(given),
            _ => {
                let parameter = part.strip_prefix("parameters.").ok_or_else(unknown)?;
                definition.parameters.insert(parameter.to_owned(), given);
            }
        }
        Ok(())
    }

    fn definition(&mut self, name: &str) -> &mut Definition {
        let index = self.all.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.all.push((name.to_owned(), Definition::default()));
            self.all.len() - 1
        });
        &mut self.all[index].1
    }

    /// Resolves the configurations to kinds of memtables.
    pub(super) fn resolve(&self) -> Result<MemtableConfigurations, ConfigurationError> {
        let mut classes = self.predefined();
        let inherits = |definition: &Definition| definition.inherits.is_some();
        let first = self.all.iter().filter(|(_, definition)| !inherits(definition));
        let then = self.all.iter().filter(|(_, definition)| inherits(definition));
        for (name, definition) in first.chain(then) {
            let class = definition.class(&classes)?;
            classes.insert(name.clone(), class);
        }
        let mut configurations = MemtableConfigurations::default();
        for (name, class) in classes {
            configurations.set(name, class.kind()?);
        }
        Ok(configurations)
    }

    /// Returns the predefined configurations, less the ones that the operator has defined.
    fn predefined(&self) -> BTreeMap<String, Class> {
        let predefined =
            [(DEFAULT, "TrieMemtable"), ("skiplist", "SkipListMemtable"), ("trie", "TrieMemtable")];
        let is_given = |name: &str| self.all.iter().any(|(given, _)| given == name);
        let class = |(name, class): (&str, &str)| {
            let key = format!("{PREFIX}{name}.class_name");
            let name_of_class = Given { key, value: class.to_owned(), origin: Origin::Set };
            (name.to_owned(), Class { name: name_of_class, parameters: BTreeMap::new() })
        };
        predefined.into_iter().filter(|(name, _)| !is_given(name)).map(class).collect()
    }
}

impl Definition {
    /// Returns the class of this definition, which may inherit from the classes `there_are`.
    fn class(&self, there_are: &BTreeMap<String, Class>) -> Result<Class, ConfigurationError> {
        let Some(inherits) = &self.inherits else {
            let name = self.class_name.clone().ok_or_else(|| match &self.named {
                Some(named) => named.refuse("expected class_name or inherits"),
                None => ConfigurationError::Inconsistent(format!("{PREFIX}: no class_name")),
            })?;
            return Ok(Class { name, parameters: self.parameters.clone() });
        };
        let Some(parent) = there_are.get(&inherits.value) else {
            return Err(inherits.refuse(
                "there is no such configuration before this one; it may inherit one that inherits \
                 nothing, an earlier one, or \"default\"",
            ));
        };
        let mut class = parent.clone();
        if let Some(name) = &self.class_name {
            class.name = name.clone();
        }
        class.parameters.extend(self.parameters.clone());
        Ok(class)
    }
}

impl Class {
    fn kind(&self) -> Result<MemtableKind, ConfigurationError> {
        let class = self.name.value.strip_prefix(PACKAGE).unwrap_or(&self.name.value);
        let (structure, parameters): (Structure, &[&str]) = match class {
            "TrieMemtable" => (Structure::Trie, &["shards"]),
            "SkipListMemtable" => (Structure::SkipList, &[]),
            "ShardedSkipListMemtable" => (Structure::SkipList, &["shards", "serialize_writes"]),
            _ => {
                return Err(self
                    .name
                    .refuse("expected TrieMemtable, SkipListMemtable or ShardedSkipListMemtable"));
            }
        };
        let mut kind = MemtableKind { structure, shards: 1 };
        for (name, given) in &self.parameters {
            if !parameters.contains(&name.as_str()) {
                let taken = if parameters.is_empty() {
                    "no parameters".to_owned()
                } else {
                    parameters.join(" and ")
                };
                return Err(given.refuse(format!("{class} takes {taken}")));
            }
            let value = given.value.as_str();
            if name == "shards" {
                let most = MemtableKind::MAX_SHARDS;
                let shards = value.parse().ok().filter(|shards| (1..=most).contains(shards));
                kind.shards = shards.ok_or_else(|| {
                    given.refuse(format!("expected a number of shards for each core, 1 to {most}"))
                })?;
            } else if value != "true" && value != "false" {
                // The value has no effect, because a core applies one write at a time.
                return Err(given.refuse("expected true or false"));
            }
        }
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::document::{parse_file, parse_set};
    use super::*;

    const TRIE: MemtableKind = MemtableKind { structure: Structure::Trie, shards: 1 };
    const SKIP_LIST: MemtableKind = MemtableKind { structure: Structure::SkipList, shards: 1 };

    fn load(configurations: &str, set: &[&str]) -> Result<MemtableConfigurations, String> {
        let text = format!("memtable:\n  configurations:\n{configurations}");
        let mut entries = parse_file(Path::new("c.yaml"), text.as_bytes()).unwrap();
        entries.extend(set.iter().flat_map(|argument| parse_set(argument).unwrap()));
        let mut definitions = Definitions::default();
        for entry in entries {
            assert!(is_key(&entry.key));
            let taken = definitions.take(&entry.key, &entry.value, entry.origin);
            taken.map_err(|error| error.to_string())?;
        }
        definitions.resolve().map_err(|error| error.to_string())
    }

    fn kinds(configurations: &str, names: &[&str]) -> Vec<Option<MemtableKind>> {
        let loaded = load(configurations, &[]).unwrap();
        names.iter().map(|name| loaded.get(name)).collect()
    }

    #[test]
    fn default_configurations_exist_without_settings() {
        let expected = [Some(TRIE), Some(TRIE), Some(SKIP_LIST), None];
        assert_eq!(kinds("", &["default", "trie", "skiplist", "mine"]), expected);
        assert_eq!(Definitions::default().resolve().unwrap(), MemtableConfigurations::default());
    }

    #[test]
    fn configurations_inherit() {
        let file = "    default: { inherits: skiplist }
    skiplist: { class_name: org.apache.cassandra.db.memtable.SkipListMemtable }
    many: { class_name: TrieMemtable, parameters: { shards: 4 } }
    more: { inherits: many, class_name: ShardedSkipListMemtable, parameters: { serialize_writes: false } }
    most: { inherits: more, parameters: { shards: '8' } }
";
        let expected = [
            Some(SKIP_LIST),
            Some(MemtableKind { shards: 4, ..TRIE }),
            Some(MemtableKind { shards: 4, ..SKIP_LIST }),
            Some(MemtableKind { shards: 8, ..SKIP_LIST }),
            Some(TRIE),
        ];
        assert_eq!(kinds(file, &["default", "many", "more", "most", "trie"]), expected);
    }

    #[test]
    fn set_overrides_the_configuration_file() {
        let file = "    default: { inherits: trie, parameters: { shards: 2 } }\n";
        let set = ["memtable.configurations.default.parameters.shards=3"];
        let loaded = load(file, &set).unwrap();
        assert_eq!(loaded.get("default"), Some(MemtableKind { shards: 3, ..TRIE }));
        let set = ["memtable={configurations: {default: {inherits: skiplist}}}"];
        assert_eq!(load("", &set).unwrap().get("default"), Some(SKIP_LIST));
    }

    #[test]
    fn wrong_memtable_settings_are_reported_with_their_line() {
        let refused = |file: &str| load(&format!("    x:\n{file}"), &[]).unwrap_err();
        let reported = [
            refused("      class_name: Fast\n"),
            refused("      inherits: gone\n"),
            refused("      inherits: x\n"),
            refused("      parameters: { shards: 2 }\n"),
            refused("      class_name: SkipListMemtable\n      parameters: { shards: 2 }\n"),
            refused("      class_name: TrieMemtable\n      parameters: { shard: 2 }\n"),
            refused("      inherits: trie\n      parameters: { shards: 0 }\n"),
            refused("      inherits: trie\n      class: TrieMemtable\n"),
            refused("      inherits: [trie]\n"),
            load("    x: trie\n", &[]).unwrap_err(),
            load("    x:\n", &[]).unwrap_err(),
        ];
        let expected = "\
c.yaml:4: memtable.configurations.x.class_name: Fast: expected TrieMemtable, SkipListMemtable or ShardedSkipListMemtable
c.yaml:4: memtable.configurations.x.inherits: gone: there is no such configuration before this one; it may inherit one that inherits nothing, an earlier one, or \"default\"
c.yaml:4: memtable.configurations.x.inherits: x: there is no such configuration before this one; it may inherit one that inherits nothing, an earlier one, or \"default\"
c.yaml:4: memtable.configurations.x.parameters.shards: 2: expected class_name or inherits
c.yaml:5: memtable.configurations.x.parameters.shards: 2: SkipListMemtable takes no parameters
c.yaml:5: memtable.configurations.x.parameters.shard: 2: TrieMemtable takes shards
c.yaml:5: memtable.configurations.x.parameters.shards: 0: expected a number of shards for each core, 1 to 1024
c.yaml:5: there is no setting \"memtable.configurations.x.class\"; docs/settings.md lists the settings
c.yaml:4: memtable.configurations.x.inherits: [trie]: expected one value
c.yaml:3: memtable.configurations.x: trie: expected class_name, inherits or parameters
c.yaml:3: memtable.configurations.x: nothing: expected class_name or inherits";
        assert_eq!(reported.join("\n"), expected);
    }
}

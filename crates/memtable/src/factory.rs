//! Makes memtables of the kind that a table asks for.

use std::{collections::BTreeMap, rc::Rc};

use espalier_mutation::schema::TableMetadata;
use espalier_runtime::ShardContext;

use super::{Memtable, MemtableBudget, MemtableKind, Structure};

/// The configuration of tables that name no other.
const DEFAULT: &str = "default";

/// The node's kinds of memtables by the names that tables use (`memtable.configurations`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemtableConfigurations {
    kinds: BTreeMap<String, MemtableKind>,
}

impl Default for MemtableConfigurations {
    /// Returns `trie`, `skiplist`, and `default`, which is the trie.
    fn default() -> Self {
        let trie = MemtableKind::default();
        let skip_list = MemtableKind { structure: Structure::SkipList, ..trie };
        let kinds = [(DEFAULT, trie), ("skiplist", skip_list), ("trie", trie)];
        Self { kinds: kinds.map(|(name, kind)| (name.to_owned(), kind)).into() }
    }
}

impl MemtableConfigurations {
    /// Adds or replaces a configuration.
    pub fn set(&mut self, name: impl Into<String>, kind: MemtableKind) {
        self.kinds.insert(name.into(), kind);
    }

    /// Returns the kind with this name.
    pub fn get(&self, name: &str) -> Option<MemtableKind> {
        self.kinds.get(name).copied()
    }
}

/// Makes a core's memtables. Clones share the budget.
#[derive(Clone)]
pub struct MemtableFactory {
    context: ShardContext,
    configurations: Rc<MemtableConfigurations>,
    budget: MemtableBudget,
}

impl MemtableFactory {
    /// Creates the factory of a core, with the kinds in `configurations`. Its memtables take their
    /// memory from `budget`.
    pub fn new(
        context: ShardContext,
        configurations: MemtableConfigurations,
        budget: MemtableBudget,
    ) -> Self {
        Self { context, configurations: Rc::new(configurations), budget }
    }

    /// Makes an empty memtable. If the table's configuration no longer exists, the default
    /// configuration applies.
    pub fn make(&self, table: &TableMetadata) -> Rc<Memtable> {
        let name = &table.options.memtable;
        let kinds = &self.configurations;
        let kind = kinds.get(name).unwrap_or_else(|| {
            tracing::warn!(
                keyspace = table.keyspace,
                table = table.name,
                memtable = name,
                "memtable configuration not in the settings, using the default; add it to \
                 memtable.configurations or alter the table"
            );
            kinds.get(DEFAULT).unwrap_or_default()
        });
        Rc::new(Memtable::new(table, kind, self.context, self.budget.clone()))
    }
}

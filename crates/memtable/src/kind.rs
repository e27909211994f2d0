//! The kinds of memtables.

/// The data structure of a memtable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Structure {
    /// The trie.
    #[default]
    Trie,
    /// A skip list.
    SkipList,
}

/// A kind of memtable: its structure, and the number of parts into which each core divides its
/// tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemtableKind {
    /// The structure of each part.
    pub structure: Structure,
    /// The number of parts for each core, by ranges of tokens: 1 to [`Self::MAX_SHARDS`].
    pub shards: usize,
}

impl MemtableKind {
    /// The maximum of `shards`, more than any memory needs (arbitrary).
    pub const MAX_SHARDS: usize = 1024;
}

impl Default for MemtableKind {
    fn default() -> Self {
        Self { structure: Structure::default(), shards: 1 }
    }
}

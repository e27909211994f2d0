//! Kinds of memtables.

/// What a memtable keeps its contents in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Structure {
    /// The trie.
    #[default]
    Trie,
    /// A skip list.
    SkipList,
}

/// A kind of memtable: the structure, and into how many of it each core divides its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemtableKind {
    /// Of what there is one or there are several.
    pub structure: Structure,
    /// How many there are for each core, by ranges of tokens: 1 to [`Self::MOST_SHARDS`].
    pub shards: usize,
}

impl MemtableKind {
    /// An arbitrary choice: more than what any memory needs.
    pub const MOST_SHARDS: usize = 1024;
}

impl Default for MemtableKind {
    fn default() -> Self {
        Self { structure: Structure::default(), shards: 1 }
    }
}

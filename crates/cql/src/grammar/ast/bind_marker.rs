//! Bind markers, numbered in the order in which they stand in the text.

use super::{Name, Position};

/// `?` or `:name` where it is used; its name is found in `BindMarkers` by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindMarker {
    /// Its number, from 0. Two markers of the same name have two numbers, as in Cassandra.
    pub index: u32,
    /// Where it stands.
    pub position: Position,
}

/// All bind markers of a statement (of a whole batch), in order.
#[derive(Clone, Debug, Default)]
pub struct BindMarkers<'a> {
    /// The name of each, `None` for `?`.
    pub names: Vec<Option<Name<'a>>>,
}

impl<'a> BindMarkers<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of marker `index`, if it was written as `:name`.
    pub fn name(&self, index: u32) -> Option<&Name<'a>> {
        self.names.get(index as usize)?.as_ref()
    }
}

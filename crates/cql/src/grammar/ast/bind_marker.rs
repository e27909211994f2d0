//! Bind markers, numbered in the order of the text.

use super::{Name, Position};

/// The use of a bind marker, `?` or `:name`. `BindMarkers` has its name, by the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindMarker {
    /// The marker's number, from 0. Two markers of the same name have two numbers, as in Cassandra.
    pub index: u32,
    /// The place of the marker.
    pub position: Position,
}

/// All bind markers of a statement (of a whole batch), in order.
#[derive(Clone, Debug, Default)]
pub struct BindMarkers<'a> {
    /// The name of each, `None` for `?`.
    pub names: Vec<Option<Name<'a>>>,
}

impl<'a> BindMarkers<'a> {
    /// Returns the number of markers.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no markers.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the name of marker `index`, if it was written as `:name`.
    pub fn name(&self, index: u32) -> Option<&Name<'a>> {
        self.names.get(index as usize)?.as_ref()
    }
}

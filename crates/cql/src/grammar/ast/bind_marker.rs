//! Bind markers: `?` and `:name`, numbered in the order of the text.

use super::{Name, Position};

/// A bind marker at its place in an expression. [`BindMarkers::name`] returns its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindMarker {
    /// The number of markers before this one in the text. Two markers with the same name have two
    /// indexes, as in Cassandra.
    pub index: u32,
    /// The place of the marker.
    pub position: Position,
}

/// All bind markers of a text, which is one statement or a whole batch.
#[derive(Clone, Debug, Default)]
pub struct BindMarkers<'a> {
    /// The name of each marker in the order of the text; `None` for `?`.
    pub names: Vec<Option<Name<'a>>>,
}

impl<'a> BindMarkers<'a> {
    /// Returns the number of markers.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether there are no markers.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the name of marker `index`, if it was written as `:name`.
    pub fn name(&self, index: u32) -> Option<&Name<'a>> {
        self.names.get(index as usize)?.as_ref()
    }
}

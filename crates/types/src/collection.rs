//! Reads and builds frozen collections, tuples, UDTs, vectors and composites.
//!
//! | value | form |
//! | --- | --- |
//! | list, set | be32 count, then each element: be32 length, bytes (length -1: null) |
//! | map | be32 count, then each key and value as above |
//! | tuple, UDT | each field as above, no count; trailing fields may be missing |
//! | vector | elements of fixed length end to end; others each behind an unsigned vint length |
//! | composite | each component: be16 length, bytes, an end-of-component byte |
//!
//! The iterators borrow from the value. At the first malformed byte they yield an error, and then
//! end. They never panic, and allocate only for errors. They refuse a count at once if the bytes
//! cannot hold as many elements. The builders make the same forms.

mod build;
mod iterate;

pub use build::{
    Builder, list_of, map_of, set_of, sorted_map_of, tuple_of, vector_of, write_value,
};
pub use iterate::{
    CompositeComponent, CompositeComponents, Elements, Entries, Fields, VectorElements,
    composite_components, elements, entries, fields, vector_elements,
};

/// The first two bytes of a composite that is the prefix of a static row.
pub const STATIC_COMPOSITE: u16 = 0xFFFF;

//! Tests of types and of their byte-comparable form, in one binary, because building a test binary
//! takes as long as running its tests.
#![allow(clippy::unwrap_used)]

mod byte_comparable_properties;
mod canonical_values;
mod cassandra_byte_comparable;
mod cassandra_names;
mod cassandra_text;
mod cassandra_timeuuid;
mod cassandra_validation;
mod hostile_values;
mod literal_properties;
mod name_properties;
mod scylla_vectors;
mod support;

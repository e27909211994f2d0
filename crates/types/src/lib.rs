//! CQL types and values, and their byte-comparable form.

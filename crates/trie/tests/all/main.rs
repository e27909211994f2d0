//! The tests of the tries in memory and on pages, in one binary, because each binary takes as long
//! to build as its tests to run.
#![allow(clippy::unwrap_used)]

mod common;
mod cursor_steps;
mod dump;
mod long_history;
mod model;
mod owner;
mod page_hostile;
mod page_layout;
mod page_long_keys;
mod page_model;
mod page_small_tries;
mod page_support;
mod readers;
mod removal_shape;
mod slice_and_seek;
mod transactions;

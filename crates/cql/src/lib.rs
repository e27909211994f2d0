//! Grammar, statements, planning, execution, functions, system tables.

pub mod grammar;

//! Grammar, statements, planning, execution, functions, system tables.

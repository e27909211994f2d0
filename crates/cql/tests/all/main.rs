//! Tests of the CQL crate as a whole, one behaviour in each file. They form one program, because
//! linking many programs takes longer than running them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod auth_scripts;
mod batch_sizes;
mod functions;
mod grammar_bounds;
mod grammar_cases;
mod grammar_round_trip;
mod grammar_soup;
mod guardrails;
mod hostile_values;
mod index_conditions;
mod index_damage;
mod index_histories;
mod index_ranges;
mod index_shards;
mod late_turns;
mod masks;
mod point_paths;
mod prepared_metadata;
mod read_budgets;
mod schema_round_trip;
mod scripts;
mod scylla_dialect;
mod support;
mod transactions;
mod transitional_authorizer;
mod turn_calls;
mod unreadable_tables;
mod vector_damage;
mod vector_histories;
mod vector_refusals;
mod view_builds;
mod view_histories;
mod virtual_tables;
mod write_products;

//! Tests of the runtime through its public interface, one behaviour a file, linked as one program.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod clocks;
mod groups;
mod mailbox_stress;
mod preemption;
mod real_files;
mod requests_and_slices;
mod same_behaviour;
mod scheduling;
mod shards;
mod sockets;
mod stop_signal;
mod tls;
mod tls_between_nodes;
mod traces;
mod waiting;

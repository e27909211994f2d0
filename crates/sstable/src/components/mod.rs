//! This module names an SSTable's files, and lists, copies and removes them. It also reads and
//! writes the smallest ones: table of contents and digest. Format: docs/formats/components.md.

mod component;
mod copy;
mod descriptor;
mod digest;
mod directory;
mod identifier;
mod toc;

pub use component::Component;
pub use copy::{copy_unsealed, link_unsealed, seal};
pub use descriptor::{Descriptor, NotAnSSTable};
pub use digest::{format_digest, parse_digest};
pub use directory::{
    DirectoryListing, component_taken, components_found, components_of_each, files_found,
    files_of_each, list_directory, remove_sstable, remove_sstables, reserve_name,
};
pub(crate) use directory::{check_name_is_free, take_back_if_failed};
pub use identifier::SSTableId;
pub use toc::{format_toc, parse_toc};

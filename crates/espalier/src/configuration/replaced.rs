//! The directories of the Cassandra node that this node replaces (`replace_in_place`).
//!
//! `data_file_directories` and `commitlog_directory` of the cassandra.yaml name these directories.
//! This node only reads them; its own directories are in the working directory.

use std::path::Path;

use espalier_storage::ReplacedNode;

use super::error::ConfigurationError;
use super::settings::Draft;

/// Takes the directories of the Cassandra node out of the settings, so that this node does not use
/// them as its own.
pub(super) fn take_directories(
    draft: &mut Draft,
    working: &Path,
) -> Result<ReplacedNode, ConfigurationError> {
    let inconsistent = |message: String| Err(ConfigurationError::Inconsistent(message));
    let directories = (draft.data_file_directories.take(), draft.commitlog_directory.take());
    let (Some(data), Some(commitlog)) = directories else {
        return inconsistent(
            "replace_in_place needs data_file_directories and commitlog_directory of the Cassandra \
             node, as in its cassandra.yaml"
                .to_owned(),
        );
    };
    let cluster_name = draft.cluster_name.clone().unwrap_or_default();
    for given in data.iter().chain([&commitlog]) {
        let is_same =
            |left: &Path, right: &Path| left.starts_with(right) || right.starts_with(left);
        if is_same(given, &working.join("data")) || is_same(given, &working.join("commitlog")) {
            return inconsistent(format!(
                "replace_in_place: {} of the Cassandra node would be a directory of this node; \
                 give another --workdir",
                given.display()
            ));
        }
    }
    Ok(ReplacedNode { data_directories: data, commitlog_directory: commitlog, cluster_name })
}

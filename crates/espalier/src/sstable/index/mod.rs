//! `espalier sstable index`: reports the structure of the trie index.

mod report;
mod svg;

use std::path::Path;

use espalier_runtime::file::FileSystem;
use espalier_runtime::time::Instant;
use espalier_sstable::PageCache;
use espalier_sstable::index::bti::survey::{IndexSurvey, survey};
use espalier_sstable::{Component, Descriptor};

use super::arguments::IndexArguments;
use super::failures::Failures;
use super::output::Output;
use super::progress::Progress;
use super::{ToolError, paths};

const CACHE_BYTES: usize = 16 << 20;

/// Walks the indexes of all SSTables and prints a report for each.
///
/// # Errors
/// Fails if a path cannot be used, if an SSTable fails, if a drawing of several SSTables is
/// requested, or if the output or the drawing cannot be written.
pub async fn index(arguments: &IndexArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let found = paths::find(&file_system, &arguments.paths.paths).await?;
    let descriptors = &found.descriptors;
    if let (Some(_), [_, _, ..]) = (&arguments.svg, descriptors.as_slice()) {
        let reason = format!("one drawing shows one SSTable, and {} are named", descriptors.len());
        return Err(ToolError::Argument { name: "svg", reason });
    }
    let mut failures = Failures::of(&found);
    let mut output = Output::new();
    for descriptor in descriptors {
        let began = Instant::now();
        let surveyed = match walk(&file_system, descriptor).await {
            Ok(surveyed) => surveyed,
            Err(error) => {
                failures.take(error)?;
                continue;
            }
        };
        let name = descriptor.directory.join(descriptor.to_string());
        let text = report::text(&name.display().to_string(), &surveyed, began.elapsed());
        output.buffer().extend_from_slice(text.as_bytes());
        output.flush_if_large()?;
        if let Some(path) = &arguments.svg {
            let drawing = svg::draw(&descriptor.to_string(), &surveyed);
            write(&file_system, path, drawing).await?;
        }
    }
    output.flush()?;
    failures.result()
}

async fn walk(file_system: &FileSystem, descriptor: &Descriptor) -> Result<IndexSurvey, ToolError> {
    // The walk needs a page again only on its way up, so a small cache is enough.
    let cache = PageCache::new(CACHE_BYTES);
    let path = descriptor.path(&Component::Partitions);
    let length = file_system.metadata(&path).await.map_or(0, |metadata| metadata.length);
    let mut progress = Progress::new("index", length);
    Ok(survey(file_system, descriptor, &cache, |bytes| progress.at(bytes)).await?)
}

async fn write(file_system: &FileSystem, path: &Path, text: String) -> Result<(), ToolError> {
    let unusable = |error: espalier_runtime::file::FileError| ToolError::Path {
        path: path.to_owned(),
        reason: error.source.to_string(),
    };
    if Descriptor::parse(path).is_ok() {
        let reason =
            "this is the name of a file of an SSTable; give the drawing another name".to_owned();
        return Err(ToolError::Path { path: path.to_owned(), reason });
    }
    let file = file_system.create(path).await.map_err(unusable)?;
    file.write_at(0, text.into_bytes()).await.map_err(unusable)?;
    Ok(())
}

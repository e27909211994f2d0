//! Compares the files with TOC.txt, and with the checksums in Digest.crc32, Scylla.db and
//! Checksums.db.

use espalier_runtime::file::{FileSystem, PAGE_BYTES};

use super::report::{Severity, VerifyReport};
use crate::{
    checksums::check_page,
    components::{Component, Descriptor, components_found, parse_digest, parse_toc},
    error::Result,
    reader::{read_checksums, read_component},
    scylla::{self, ScyllaMetadata},
};

const READ_BYTES: usize = 256 * 1024;
const MAX_SMALL_LENGTH: u64 = 1024 * 1024;

pub(super) async fn check_files(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    report: &mut VerifyReport,
) -> Result<()> {
    let present = components_found(file_system, descriptor).await?;
    let toc = descriptor.name_in_errors(&Component::Toc);
    let read = read_component(file_system, descriptor, &Component::Toc, MAX_SMALL_LENGTH).await;
    match read.and_then(|bytes| parse_toc(&toc, &bytes)) {
        Ok(listed) => {
            for missing in listed.difference(&present) {
                // A reader rebuilds Summary.db from Index.db.
                let severity = match missing {
                    Component::Summary => Severity::Warning,
                    _ => Severity::Failure,
                };
                let what = format_args!("{toc}: {missing} is listed but missing");
                report.add(severity, &descriptor.name_in_errors(missing), what);
            }
            // Cassandra does not list components of secondary indexes.
            for extra in present.difference(&listed).filter(|component| component.is_known()) {
                let what = format_args!("{toc}: {extra} is not listed");
                report.add(Severity::Warning, &toc, what);
            }
        }
        Err(error) => report.take_error(error)?,
    }
    let data_checksum = checksum_of(file_system, descriptor, &Component::Data).await;
    let data_checksum = match data_checksum {
        Ok(checksum) => Some(checksum),
        Err(error) => {
            report.take_error(error)?;
            None
        }
    };
    if let Some(checksum) = data_checksum
        && let Err(error) = check_digest(file_system, descriptor, checksum, report).await
    {
        report.take_error(error)?;
    }
    if present.contains(&Component::Scylla)
        && let Err(error) = check_scylla(file_system, descriptor, data_checksum, report).await
    {
        report.take_error(error)?;
    }
    if present.contains(&Component::Checksums)
        && let Err(error) = check_pages(file_system, descriptor).await
    {
        report.take_error(error)?;
    }
    Ok(())
}

/// Checks the pages of all files that Checksums.db lists, up to the first fault.
async fn check_pages(file_system: &FileSystem, descriptor: &Descriptor) -> Result<()> {
    let checksums = read_checksums(file_system, descriptor).await?;
    for (component, checksums) in checksums.files() {
        let name = descriptor.name_in_errors(component);
        let file = file_system.open_read_direct(descriptor.path(component)).await?;
        checksums.check_length(&name, file.length().await?)?;
        for (number, expected) in checksums.pages.iter().enumerate() {
            let offset = number as u64 * PAGE_BYTES as u64;
            let page = file.read_at(offset, PAGE_BYTES).await?;
            check_page(&name, number as u64, &page, *expected)?;
            espalier_runtime::maybe_yield().await;
        }
    }
    Ok(())
}

/// Compares whole files with their checksums in Scylla.db.
async fn check_scylla(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    data_checksum: Option<u32>,
    report: &mut VerifyReport,
) -> Result<()> {
    let component = Component::Scylla;
    let name = descriptor.name_in_errors(&component);
    let bytes = read_component(file_system, descriptor, &component, scylla::MAX_LENGTH).await?;
    let metadata = ScyllaMetadata::read(&name, &bytes)?;
    for (component, expected) in &metadata.checksums {
        let actual = match (component, data_checksum) {
            (Component::Data, Some(known)) => known,
            // The report already has the reason why Data.db could not be read.
            (Component::Data, None) => continue,
            _ => checksum_of(file_system, descriptor, component).await?,
        };
        if actual != *expected {
            let what = format!("it says {expected:08x} of {component}, which has {actual:08x}");
            report.fail(&name, 0, what);
        }
    }
    Ok(())
}

async fn checksum_of(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    component: &Component,
) -> Result<u32> {
    let file = file_system.open_read_direct(descriptor.path(component)).await?;
    let mut checksum = crc32fast::Hasher::new();
    let mut offset = 0;
    loop {
        let part = file.read_at(offset, READ_BYTES).await?;
        if part.is_empty() {
            return Ok(checksum.finalize());
        }
        checksum.update(&part);
        offset += part.len() as u64;
        espalier_runtime::maybe_yield().await;
    }
}

async fn check_digest(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    actual: u32,
    report: &mut VerifyReport,
) -> Result<()> {
    let component = Component::Digest;
    let name = descriptor.name_in_errors(&component);
    let bytes = read_component(file_system, descriptor, &component, MAX_SMALL_LENGTH).await?;
    let expected = parse_digest(&name, &bytes)?;
    if actual != expected {
        let what = format!("the digest says {expected}, Data.db has {actual}");
        report.fail(&name, 0, what);
    }
    Ok(())
}

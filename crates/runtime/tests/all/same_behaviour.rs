//! Tests that the simulated disk behaves like the real one: random programs give the same answers
//! and errors on both.

use espalier_runtime::block_on;
use espalier_runtime::file::{File, FileSystem, Result};
use proptest::prelude::*;
use std::io::ErrorKind;
use std::path::Path;

#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    CreateNew(usize),
    OpenAppend(usize),
    OpenWrite(usize),
    OpenRead(usize),
    Append(Vec<u8>),
    Write(u64, Vec<u8>),
    Read(u64, usize),
    ReadExact(u64, usize),
    Truncate(u64),
    Allocate(u64),
    Length,
    Whole(usize),
    Rename(usize, usize),
    HardLink(usize, usize),
    Remove(usize),
    CreateDirectories(usize),
    RemoveDirectory(usize),
    List(usize),
    Status(usize),
    Atomically(usize, Vec<u8>),
    SyncDirectory(usize),
}

const NAMES: [&str; 7] = ["a", "b", "d", "d/a", "d/e", "d/e/b", "missing/c"];

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    let at = 0u64..30;
    prop_oneof![
        3 => name.clone().prop_map(Step::Create),
        1 => name.clone().prop_map(Step::CreateNew),
        2 => name.clone().prop_map(Step::OpenAppend),
        1 => name.clone().prop_map(Step::OpenWrite),
        2 => name.clone().prop_map(Step::OpenRead),
        4 => bytes.clone().prop_map(Step::Append),
        2 => (at.clone(), bytes.clone()).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        2 => (at.clone(), 0usize..30).prop_map(|(at, length)| Step::Read(at, length)),
        1 => (at.clone(), 0usize..30).prop_map(|(at, length)| Step::ReadExact(at, length)),
        1 => at.clone().prop_map(Step::Truncate),
        1 => (1u64..30).prop_map(Step::Allocate),
        1 => Just(Step::Length),
        2 => name.clone().prop_map(Step::Whole),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::HardLink(from, to)),
        2 => name.clone().prop_map(Step::Remove),
        2 => name.clone().prop_map(Step::CreateDirectories),
        1 => name.clone().prop_map(Step::RemoveDirectory),
        2 => name.clone().prop_map(Step::List),
        1 => name.clone().prop_map(Step::Status),
        1 => (name.clone(), bytes).prop_map(|(name, bytes)| Step::Atomically(name, bytes)),
        1 => name.prop_map(Step::SyncDirectory),
    ]
}

struct Machine<'a> {
    system: FileSystem,
    root: &'a Path,
    file: Option<File>,
}

impl Machine<'_> {
    async fn take(&mut self, step: Step) -> std::result::Result<String, ErrorKind> {
        self.act(step).await.map_err(|error| error.kind())
    }

    async fn act(&mut self, step: Step) -> Result<String> {
        let system = &self.system;
        let path = |name: usize| self.root.join(NAMES[name]);
        let opened = match step {
            Step::Create(name) => system.create(path(name)).await?,
            Step::CreateNew(name) => system.create_new(path(name)).await?,
            Step::OpenAppend(name) => system.create_append(path(name)).await?,
            Step::OpenWrite(name) => system.open_write(path(name)).await?,
            Step::OpenRead(name) => {
                let file = system.open_read(path(name)).await?;
                // A directory opens for reading on the machine; nothing here relies on that.
                file.read_at(0, 1).await?;
                file
            }
            Step::Whole(name) => return Ok(format!("{:?}", system.read(path(name)).await?)),
            Step::Rename(from, to) => {
                return system.rename(path(from), path(to)).await.map(|()| "renamed".to_owned());
            }
            Step::HardLink(from, to) => {
                return system.hard_link(path(from), path(to)).await.map(|()| "linked".to_owned());
            }
            Step::Remove(name) => {
                return system.remove_file(path(name)).await.map(|()| "removed".to_owned());
            }
            Step::CreateDirectories(name) => {
                return system.create_dir_all(path(name)).await.map(|()| "made".to_owned());
            }
            Step::RemoveDirectory(name) => {
                return system.remove_dir_all(path(name)).await.map(|()| "removed".to_owned());
            }
            Step::List(name) => {
                let entries = system.read_dir(path(name)).await?;
                let entries: Vec<_> =
                    entries.iter().map(|entry| (&entry.name, entry.is_directory)).collect();
                return Ok(format!("{entries:?}"));
            }
            Step::Status(name) => {
                let status = system.metadata(path(name)).await?;
                return Ok(if status.is_directory {
                    "a directory".to_owned()
                } else {
                    format!("{} bytes, {} links", status.length, status.links)
                });
            }
            Step::Atomically(name, bytes) => {
                return system
                    .write_atomically(path(name), bytes)
                    .await
                    .map(|()| "done".to_owned());
            }
            Step::SyncDirectory(name) => {
                return if system.metadata(path(name)).await?.is_directory {
                    system.sync_dir(path(name)).await.map(|()| "synced".to_owned())
                } else {
                    Ok("not a directory".to_owned())
                };
            }
            step => {
                let Some(file) = &self.file else { return Ok("no file".to_owned()) };
                return on_file(file, step).await;
            }
        };
        self.file = Some(opened);
        Ok("opened".to_owned())
    }
}

async fn on_file(file: &File, step: Step) -> Result<String> {
    Ok(match step {
        Step::Append(bytes) => format!("{}", file.append(bytes).await?.0),
        Step::Write(at, bytes) => format!("{:?}", file.write_at(at, bytes).await?),
        Step::Read(at, length) => format!("{:?}", &*file.read_at(at, length).await?),
        Step::ReadExact(at, length) => format!("{:?}", &*file.read_exact_at(at, length).await?),
        Step::Truncate(length) => format!("{:?}", file.truncate(length).await?),
        Step::Allocate(length) => format!("{:?}", file.allocate(length).await?),
        Step::Length => format!("{} {}", file.length().await?, file.append_position()),
        other => unreachable!("{other:?}"),
    })
}

proptest! {
    #![proptest_config(espalier_testing::properties(150))]
    #[test]
    fn random_programs_agree(steps in prop::collection::vec(step(), 1..60)) {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        block_on(async {
            let mut real = Machine { system: FileSystem::real(), root: directory.path(), file: None };
            let simulated = FileSystem::simulated(1);
            let mut simulated = Machine { system: simulated, root: Path::new(""), file: None };
            for (number, step) in steps.iter().enumerate() {
                let expected = real.take(step.clone()).await;
                let got = simulated.take(step.clone()).await;
                assert_eq!(got, expected, "step {number}: {step:?}");
            }
        });
    }
}

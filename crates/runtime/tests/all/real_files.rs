//! Tests that the machine's file system does what `FileSystem` promises.

use std::path::Path;

use bytes::Bytes;
use espalier_runtime::block_on;
use espalier_runtime::file::{FileSystem, PAGE_BYTES, PageBufferMut};

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn appended_bytes_are_read_back_buffered_and_direct() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("Data.db");
    let content = pattern(3 * PAGE_BYTES + 100);
    block_on(async {
        let system = FileSystem::real();
        let file = system.create(&path).await.unwrap();
        let (at, _) = file.append(content[..10].to_vec()).await.unwrap();
        assert_eq!(at, 0);
        let parts: Vec<Bytes> = content[10..].chunks(999).map(Bytes::copy_from_slice).collect();
        let (at, _) = file.append_vectored(parts).await.unwrap();
        assert_eq!((at, file.append_position()), (10, content.len() as u64));
        file.sync_data().await.unwrap();
        for direct in [false, true] {
            let file = if direct {
                system.open_read_direct(&path).await.unwrap()
            } else {
                system.open_read(&path).await.unwrap()
            };
            println!("direct: {}", file.is_direct());
            let ends = [(0, 4096), (4096, 4096), (1, 5000), (4095, 2), (12288, 100), (0, 12388)];
            for (offset, length) in ends {
                let read = file.read_exact_at(offset, length).await.unwrap();
                assert!(*read == content[offset as usize..offset as usize + length]);
            }
            assert_eq!(file.read_at(12300, 4096).await.unwrap().len(), 88);
            assert_eq!(file.read_at(1 << 40, 10).await.unwrap().len(), 0);
            let error = file.read_exact_at(12300, 4096).await.unwrap_err();
            assert!(error.is_unexpected_end(), "{error}");
            // A length from a corrupt file is compared with the file's length before memory is
            // allocated.
            assert!(file.read_exact_at(0, 1 << 50).await.unwrap_err().is_unexpected_end());
        }
    });
}

/// A link is listed with the kind of its target, and the target stays when the link is removed.
#[test]
fn links_are_followed_but_not_removed_through() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    block_on(async {
        let system = FileSystem::real();
        let (base, elsewhere) = (directory.path().join("base"), directory.path().join("else"));
        system.create_dir_all(&base).await.unwrap();
        system.create_dir_all(&elsewhere).await.unwrap();
        let large = elsewhere.join("large");
        // Large enough to be freed step by step.
        let file = system.create(&large).await.unwrap();
        file.append(vec![7; 64 << 20]).await.unwrap();
        drop(file);
        for (name, target) in [("there", elsewhere.as_path()), ("nowhere", "/no/such".as_ref())] {
            std::os::unix::fs::symlink(target, base.join(name)).unwrap();
        }
        let listed = system.read_dir(&base).await.unwrap();
        let kinds: Vec<_> = listed
            .iter()
            .map(|entry| (entry.name.as_str(), entry.is_directory, entry.is_link))
            .collect();
        assert_eq!(kinds, [("nowhere", false, true), ("there", true, true)]);
        system.remove_dir_all(base.join("there")).await.unwrap();
        assert!(!system.exists(base.join("there")).await.unwrap());
        assert_eq!(system.metadata(&large).await.unwrap().length, 64 << 20);
    });
}

#[test]
fn names_are_created_renamed_linked_listed_and_removed() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    block_on(async {
        let system = FileSystem::real();
        let base = directory.path().join("a/b");
        system.create_dir_all(&base).await.unwrap();
        system.create_dir_all(&base).await.unwrap();
        system.write_atomically(base.join("one"), "first").await.unwrap();
        system.rename(base.join("one"), base.join("two")).await.unwrap();
        system.hard_link(base.join("two"), base.join("three")).await.unwrap();
        system.create_dir_all(base.join("inner")).await.unwrap();
        let listed = system.read_dir(&base).await.unwrap();
        let names: Vec<_> =
            listed.iter().map(|entry| (entry.name.as_str(), entry.is_directory)).collect();
        assert_eq!(names, [("inner", true), ("three", false), ("two", false)]);
        let kept = system.read_dir_where(&base, |name| name.starts_with('t')).await.unwrap();
        assert_eq!(kept, listed[1..]);
        let first = async |directory: &Path| {
            let names = ["one", "three", "two"].map(str::to_owned).to_vec();
            system.first_existing(directory, names).await.unwrap()
        };
        assert_eq!(first(&base).await.as_deref(), Some("three"));
        assert_eq!(
            (first(&base.join("inner")).await, first(&base.join("one")).await),
            (None, None)
        );
        let linked = system.metadata(base.join("two")).await.unwrap();
        assert_eq!(linked.links, 2);
        assert_eq!(linked, system.metadata(base.join("three")).await.unwrap());
        assert_ne!(linked.inode, system.metadata(base.join("inner")).await.unwrap().inode);
        assert_eq!(system.read(base.join("three")).await.unwrap(), b"first");
        system.remove_file(base.join("two")).await.unwrap();
        assert!(!system.exists(base.join("two")).await.unwrap());
        let error = system.create_new(base.join("three")).await.err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        let error = system.open_read(base.join("gone")).await.err().unwrap();
        assert!(error.is_not_found());
        assert!(error.to_string().ends_with("a/b/gone: No such file or directory"), "{error}");
        system.remove_dir_all(directory.path().join("a")).await.unwrap();
        assert!(!system.exists(&base).await.unwrap());
    });
}

#[test]
fn files_are_preallocated_truncated_and_reopened_at_their_end() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("log");
    block_on(async {
        let system = FileSystem::real();
        let file = system.create_append(&path).await.unwrap();
        file.allocate(1 << 20).await.unwrap();
        assert_eq!(file.length().await.unwrap(), 1 << 20);
        file.append(vec![1; 100]).await.unwrap();
        assert_eq!(file.append_position(), 100);
        file.truncate(50).await.unwrap();
        file.append(vec![2; 5]).await.unwrap();
        file.sync_all().await.unwrap();
        let again = system.create_append(&path).await.unwrap();
        assert_eq!(again.append_position(), 55);
        again.write_at(0, vec![3; 2]).await.unwrap();
        assert_eq!(again.read_exact_at(0, 3).await.unwrap()[..], [3, 3, 1]);
        let reader = system.open_read(&path).await.unwrap();
        let error = reader.write_at(7, vec![0; 9]).await.unwrap_err();
        let expected =
            format!("write of 9 bytes at offset 7 of {}: Bad file descriptor", path.display());
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn whole_pages_are_written_around_the_cache_and_all_else_through_it() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("Data.db");
    let content = pattern(5 * PAGE_BYTES + 100);
    block_on(async {
        let system = FileSystem::real();
        let file = system.create_new_direct(&path).await.unwrap();
        let is_taken = file.is_direct();
        println!("direct: {is_taken}");
        let (pages, tail) = content.split_at(4 * PAGE_BYTES);
        for two in pages.chunks(2 * PAGE_BYTES) {
            let mut buffer = PageBufferMut::with_capacity(two.len());
            buffer.extend_from_slice(two);
            file.append(buffer).await.unwrap();
            assert_eq!(file.is_direct(), is_taken);
        }
        // A `Vec` need not be page-aligned, and this one does not hold whole pages.
        file.append(tail.to_vec()).await.unwrap();
        assert!(!file.is_direct());
        file.append_vectored(vec![b"more".to_vec(), b"of it".to_vec()]).await.unwrap();
        file.sync_all().await.unwrap();
        assert!(system.read(&path).await.unwrap() == [&content[..], b"moreof it"].concat());
        let again = system.create_new_direct(&path).await.err().unwrap();
        assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    });
}

#[test]
fn many_reads_are_under_way_at_once() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("pages");
    let content = pattern(64 * PAGE_BYTES);
    block_on(async {
        let system = FileSystem::real();
        system.write_atomically(&path, content.clone()).await.unwrap();
        let file = system.open_read_direct(&path).await.unwrap();
        let reads = (0..64u64).map(|page| file.read_exact_at(page * 4096, PAGE_BYTES));
        let pages = futures_util::future::try_join_all(reads).await.unwrap();
        assert!(pages.concat() == content);
    });
}

#[test]
fn a_large_removed_file_is_closed_in_the_end() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("large");
    let still_open = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = descriptors.flatten().flat_map(|entry| std::fs::read_link(entry.path()));
        targets.filter(|target| target.starts_with(directory.path())).count()
    };
    let is_open_so_often = async |times| {
        for _ in 0..12_000 {
            if still_open() == times {
                return;
            }
            espalier_runtime::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the file is open {} times", still_open());
    };
    block_on(async {
        let system = FileSystem::real();
        let file = system.create(&path).await.unwrap();
        file.append(vec![1; 24 << 20]).await.unwrap();
        let other = system.open_read(&path).await.unwrap();
        system.remove_file(&path).await.unwrap();
        drop(file);
        is_open_so_often(1).await;
        // The blocks of a file that a reader has open stay.
        let last = other.read_exact_at((24 << 20) - 1, 1).await.unwrap();
        assert_eq!(last[..], [1]);
        drop(other);
        is_open_so_often(0).await;
    });
}

//! The replay would see what it is there for.

use espalier_fuzz_targets::{MAXIMUM_MEMORY_BYTES, Target, run};

fn fails(run_it: fn(&[u8])) -> bool {
    std::panic::catch_unwind(|| run(&Target { name: "a test", run: run_it }, b"")).is_err()
}

/// One test, since the count of memory is the process's.
#[test]
fn panics_and_memory_are_seen() {
    assert!(fails(|_| panic!("a panic")));
    assert!(!fails(|_| drop(vec![1u8; MAXIMUM_MEMORY_BYTES / 2])));
    assert!(fails(|_| drop(vec![1u8; MAXIMUM_MEMORY_BYTES + 4096])));
    // In pieces, and moved as it grows.
    assert!(fails(|_| {
        let mut pieces = Vec::new();
        for _ in 0..65 {
            pieces.push(vec![1u8; 1 << 20]);
        }
        assert_eq!(pieces.len(), 65);
    }));
    assert!(!fails(|_| for _ in 0..65 {
        drop(vec![1u8; 1 << 20]);
    }));
}

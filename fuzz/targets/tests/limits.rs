//! The replay detects panics and too much memory.

use espalier_fuzz_targets::{MAX_MEMORY_BYTES, Target, run};

fn fails(run_it: fn(&[u8])) -> bool {
    std::panic::catch_unwind(|| run(&Target { name: "a test", run: run_it }, b"")).is_err()
}

/// One test, because the count of memory is that of the process.
#[test]
fn panics_and_memory_are_seen() {
    assert!(fails(|_| panic!("a panic")));
    assert!(!fails(|_| drop(vec![1u8; MAX_MEMORY_BYTES / 2])));
    assert!(fails(|_| drop(vec![1u8; MAX_MEMORY_BYTES + 4096])));
    // Many pieces, held in a vector that grows.
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

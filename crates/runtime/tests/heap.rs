//! Tests the allocator. This is a program of its own, because a program has one global allocator.

#![allow(unsafe_code, clippy::disallowed_methods, clippy::unwrap_used)]

use std::{
    alloc::{Layout, alloc, dealloc},
    time::{Duration, Instant},
};

use espalier_runtime::{heap, memory::resident_bytes};

#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::allocator();

#[test]
fn a_thread_returns_the_memory_that_others_free() {
    const BYTES: usize = 64 << 20;
    heap::fill_ahead().unwrap();
    let large = vec![1u8; BYTES];
    let before = resident_bytes();
    drop(large);
    let began = Instant::now();
    // By default, the allocator would let this thread return the memory after a second.
    while began.elapsed() < Duration::from_secs(3) || resident_bytes() > before - BYTES as u64 / 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} bytes", resident_bytes());
        drop(std::hint::black_box(vec![vec![1u8; 100_000]; 100]));
    }
    assert_eq!(heap::returned_by_thread(), 0);
}

/// Returns the bytes of huge pages of the mapping at `address`.
fn huge_bytes(address: usize) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_in = false;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let [start, end] = [start, end].map(|word| usize::from_str_radix(word, 16).unwrap());
            is_in = (start..end).contains(&address);
        } else if is_in && first == "AnonHugePages:" {
            return words.next().unwrap().parse().unwrap();
        }
    }
    panic!("{address:x} is not mapped");
}

#[test]
fn memory_of_large_alignment_has_small_pages() {
    heap::fill_ahead().unwrap();
    let layout = Layout::from_size_align(8 << 20, 2 << 20).unwrap();
    // SAFETY: the layout has a size, and the memory is used as it says and then freed.
    let huge = unsafe {
        let memory = alloc(layout);
        memory.write_bytes(1, layout.size());
        let huge = huge_bytes(memory.addr());
        dealloc(memory, layout);
        huge
    };
    assert_eq!(huge, 0);
}

//! Tests of long keys, deep tries, far children, and a writer whose memory does not grow with the
//! number of keys.

use crate::page_support::*;
use espalier_trie::page::layout::PAGE_SIZE;
use espalier_trie::page::{MemoryPages, PageTrieWriter, Walker};

#[test]
fn ten_thousand_keys_that_extend_one_another() {
    for length in [2, 40] {
        let entry = |depth: u32| (1 + (depth % 15) as u8, payload(length, depth as u8));
        let model: Model =
            (0..=10_000).map(|depth| (vec![b'a'; depth as usize], entry(depth))).collect();
        let (file, root) = build(&model, 5);
        assert_eq!(check_nodes(&file, root), 10_001);
        assert_eq!(contents(&file, root), model);
        for depth in (0..10_000).step_by(997) {
            let mut key = vec![b'a'; depth];
            check_lookups(&file, root, &model, &key);
            key.push(b'b');
            check_lookups(&file, root, &model, &key);
        }
    }
}

#[test]
fn keys_that_share_two_kilobytes() {
    let mut writer = PageTrieWriter::new(0);
    let mut file = Vec::new();
    let mut key = vec![0xAB; 2048];
    let count = 100_000_u32;
    for number in 0..count {
        key.truncate(2048);
        key.extend(number.to_be_bytes());
        writer.add(&mut file, &key, 1, b"\0\x02").unwrap();
    }
    let root = writer.complete(&mut file).unwrap();
    // The shared bytes are stored once, at two bytes each; everything else is as without them.
    let nodes = check_nodes(&file, root);
    assert_eq!(nodes, 2048 + 1 + 1 + 2 + 391 + count as usize);
    assert!(file.len() < 2 * 2048 + 600_000, "{}", file.len());
    let mut walker = Walker::new(MemoryPages(&file));
    for number in (0..count).step_by(1009) {
        key.truncate(2048);
        key.extend(number.to_be_bytes());
        assert!(block_on(walker.exact(root, &key)).unwrap().is_some());
    }
}

#[test]
fn keys_of_sixty_thousand_bytes() {
    let mut dice = Dice(5);
    let mut model = Model::new();
    let stem: Vec<u8> = (0..59_999).map(|_| dice.roll() as u8).collect();
    for number in 0..20 {
        let shared = [59_999, 59_999, 30_000, 4096, 2050, 100, 0][number % 7];
        let mut key = stem[..shared].to_vec();
        key.extend((shared..60_000).map(|_| dice.roll() as u8));
        model.insert(key, (3, payload(10, number as u8)));
        model.insert(stem[..number * 3000].to_vec(), (4, payload(19, number as u8)));
    }
    let (file, root) = build(&model, 1234);
    check_nodes(&file, root);
    check_iteration(&file, root, &model);
    for key in model.keys() {
        check_lookups(&file, root, &model, key);
    }
    check_lookups(&file, root, &model, &stem);
    // Chains over page boundaries waste little: at most the size of a node at each.
    let nodes = check_nodes(&file, root);
    assert!(file.len() < 2 * nodes + 6 * PAGE_SIZE, "{} for {nodes} nodes", file.len());
}

/// Children of the root at distances of one to four bytes, and the branches that grow because of
/// these distances.
#[test]
fn children_far_from_their_parents() {
    let mut dice = Dice(31);
    for (fan_out, payload_length, tail) in [(256, 14, 1), (256, 30, 2), (40, 2000, 1), (7, 19, 3)] {
        let mut model = Model::new();
        for first in 0..fan_out {
            for second in 0..200_u64.min(120_000 / fan_out) {
                let mut key = vec![first as u8, (second * 83 % 251) as u8];
                key.extend((0..tail).map(|_| dice.roll() as u8));
                let length = (payload_length - dice.below(payload_length / 4)) as usize;
                model.insert(key, (7, payload(length, dice.roll() as u8)));
            }
        }
        let (file, root) = build(&model, 0);
        check_nodes(&file, root);
        assert_eq!(contents(&file, root), model);
        for key in model.keys().step_by(97) {
            check_lookups(&file, root, &model, key);
        }
        let bytes: usize = model.values().map(|(_, payload)| payload.len() + 8).sum();
        let fill = bytes as f64 / file.len() as f64;
        assert!(fill > 0.5, "{fan_out} {payload_length}: {fill}");
    }
}

/// Branches of seven full nodes, each over a page of leaves that is already written. A branch is
/// smaller than a page when it is finished, but larger when the root is finished, because its
/// distances then need three bytes.
#[test]
fn branches_that_outgrow_their_page_while_they_wait() {
    let mut model = Model::new();
    for (first, second) in (0..5).flat_map(|first| (0..7).map(move |second| (first, second))) {
        model.extend((0..=255).map(|third| (vec![first, second, third], (5, payload(15, third)))));
    }
    let (file, root) = build(&model, 0);
    check_nodes(&file, root);
    check_iteration(&file, root, &model);
    let mut walker = Walker::new(MemoryPages(&file));
    let branch = block_on(walker.node(root)).unwrap().child_for(0).unwrap().unwrap();
    let (first, last) = {
        let node = block_on(walker.node(branch)).unwrap();
        (node.child_for(0).unwrap().unwrap(), node.child_for(6).unwrap().unwrap())
    };
    let page = PAGE_SIZE as u64;
    assert!(first / page < last / page, "the first branch is not the one that this test is about");
    let kind = block_on(walker.node(first)).unwrap().kind();
    assert_eq!(kind, espalier_trie::page::layout::NodeKind::Dense24);
    assert!(file.len() < 35 * PAGE_SIZE + 8 * PAGE_SIZE, "{}", file.len());
}

#[test]
fn memory_is_bounded_by_depth_not_by_keys() {
    let max_memory = |count: u64| {
        let mut dice = Dice(count);
        let mut keys: Vec<u64> = (0..count).map(|_| dice.roll()).collect();
        keys.sort_unstable();
        let mut writer = PageTrieWriter::new(0);
        let mut output = Vec::new();
        let mut most = 0;
        for key in keys {
            writer.add(&mut output, &key.to_be_bytes(), 9, b"12345").unwrap();
            // The writer's memory does not include its output.
            output.clear();
            most = most.max(writer.memory_bytes());
        }
        writer.complete(&mut output).unwrap();
        most.max(writer.memory_bytes())
    };
    let (few, many) = (max_memory(60_000), max_memory(600_000));
    assert!(few < 3 << 20 && many < 3 << 20, "{few} and {many} bytes");
    assert!(many < 2 * few, "{few} bytes for 60,000 keys, {many} for 600,000");
}

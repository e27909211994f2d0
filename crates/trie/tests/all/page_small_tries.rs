//! Tests all tries over tiny alphabets, with payloads large enough to push nodes over page
//! boundaries.

use crate::page_support::*;

/// Returns all strings of at most `length` bytes of `alphabet`.
fn strings(alphabet: &[u8], length: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut start = 0;
    for _ in 0..length {
        let end = all.len();
        for index in start..end {
            for &byte in alphabet {
                let mut longer = all[index].clone();
                longer.push(byte);
                all.push(longer);
            }
        }
        start = end;
    }
    all
}

fn check_all_subsets(alphabet: &[u8], length: usize, longest_payload: u64) {
    let strings = strings(alphabet, length);
    let mut dice = Dice(0x1234_5678_9ABC_DEF1);
    for subset in 1..1_u32 << strings.len() {
        let members = strings.iter().enumerate().filter(|(index, _)| subset >> index & 1 == 1);
        let mut entry = || {
            let length = 2 + dice.below(longest_payload);
            (1 + dice.below(15) as u8, payload(length as usize, dice.roll() as u8))
        };
        let model: Model = members.map(|(_, key)| (key.clone(), entry())).collect();
        let (file, root) = build(&model, dice.below(5000) as usize);
        check_nodes(&file, root);
        check_iteration(&file, root, &model);
        for key in &strings {
            check_lookups(&file, root, &model, key);
        }
    }
}

#[test]
fn two_letters_up_to_two_bytes() {
    for longest_payload in [1, 20, 1400, 2040] {
        check_all_subsets(&[0x00, 0xFF], 2, longest_payload);
    }
}

#[test]
fn three_letters_up_to_two_bytes() {
    check_all_subsets(&[0x00, 0x01, 0xFF], 2, 1400);
}

#[test]
fn two_letters_up_to_three_bytes() {
    check_all_subsets(&[0x40, 0x41], 3, 700);
}

#[test]
fn one_letter_up_to_twelve_bytes() {
    check_all_subsets(&[0x40], 12, 900);
}

#[test]
fn many_letters_up_to_one_byte() {
    check_all_subsets(&[0, 1, 2, 3, 0x20, 0x40, 0x60, 0xA0, 0xB0, 0xFE, 0xFF], 1, 300);
}

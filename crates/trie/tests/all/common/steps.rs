//! Compares random steps of a cursor with those of the naive one.

use super::naive::Naive;
use espalier_trie::cursor::{Cursor, Direction, Position};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub enum Step {
    Advance,
    AdvanceMultiple,
    SkipChildren,
    /// Bytes to follow: these, or those of a later path that extends the present one.
    SkipAlong(Vec<u8>, usize),
    /// The target is `up` levels above a child of the present node. If `up` is 0, `byte` is the
    /// byte of that child. Otherwise `byte` (modulo 3 if `near`) is the distance from the byte of
    /// the present path to the byte of the target.
    SkipTo {
        up: usize,
        byte: u8,
        near: bool,
        returning: bool,
    },
}

pub fn step() -> impl Strategy<Value = Step> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"\x00\xFFabcdexyz".as_slice())];
    prop_oneof![
        4 => Just(Step::Advance),
        4 => Just(Step::AdvanceMultiple),
        1 => Just(Step::SkipChildren),
        2 => (super::key(), any::<usize>()).prop_map(|(path, ahead)| Step::SkipAlong(path, ahead)),
        4 => (0..4usize, byte, any::<bool>(), any::<bool>())
            .prop_map(|(up, byte, near, returning)| Step::SkipTo { up, byte, near, returning }),
    ]
}

fn target(naive: &Naive, step: &Step) -> Option<Position> {
    let Step::SkipTo { up, byte, near, returning } = step else { return None };
    let path = naive.path()?;
    let depth = (path.len() + 1).saturating_sub(*up);
    let reverse = naive.direction().is_reverse();
    let Some(last) = depth.checked_sub(1) else {
        return reverse.then(|| Position::root(Direction::Reverse).returning());
    };
    let mut returning = *returning && reverse;
    let byte = match path.get(last).copied() {
        None => *byte,
        Some(present) => {
            let gap = if *near { byte % 3 } else { *byte };
            if gap == 0 {
                if !reverse {
                    return None;
                }
                returning = true;
            }
            if reverse { present.checked_sub(gap)? } else { present.checked_add(gap)? }
        }
    };
    let position = Position::new(naive.direction(), depth as u32, byte);
    Some(if returning { position.returning() } else { position })
}

/// Makes the same steps with both cursors, and compares positions, contents and paths.
pub fn compare<C: Cursor<Content = u32>>(mut cursor: C, mut naive: Naive, steps: &[Step]) {
    let mut path = Vec::new();
    assert_eq!(cursor.position(), naive.position());
    assert_eq!(cursor.content(), naive.content());
    for step in steps {
        let position = match step {
            Step::Advance => {
                naive.advance();
                cursor.advance()
            }
            Step::SkipChildren => {
                naive.skip_children();
                cursor.skip_children()
            }
            Step::SkipAlong(path_along, ahead) => {
                let along = naive.path_ahead(*ahead).unwrap_or_else(|| path_along.clone());
                let followed = naive.skip_along(&along);
                assert_eq!(cursor.skip_along(&along), followed, "{along:?}");
                path.extend_from_slice(&along[..followed]);
                cursor.position()
            }
            Step::SkipTo { .. } => {
                let Some(target) = target(&naive, step) else { continue };
                naive.skip_to(target);
                cursor.skip_to(target)
            }
            Step::AdvanceMultiple => {
                let position = cursor.advance_multiple(&mut path);
                while naive.advance() > position || naive.path() != Some(&path_at(&path, position))
                {
                    assert!(!naive.is_exhausted() || position.is_exhausted(), "went too far");
                    assert_eq!(naive.content(), None, "passed a content");
                    if naive.is_exhausted() {
                        break;
                    }
                }
                position
            }
        };
        assert_eq!(position, cursor.position());
        assert_eq!(position, naive.position(), "{step:?}");
        assert_eq!(cursor.content(), naive.content());
        if !position.is_exhausted() {
            path = path_at(&path, position);
            assert_eq!(Some(&path[..]), naive.path());
        }
    }
}

/// Returns the path at a position, by the rule in the contract of cursors.
fn path_at(path: &[u8], position: Position) -> Vec<u8> {
    let mut path = path.to_vec();
    if position.depth() > 0 {
        path.truncate(position.depth() as usize - 1);
        path.push(position.byte());
    } else {
        path.clear();
    }
    path
}

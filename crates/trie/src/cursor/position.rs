//! A position in a walk, as one number: a smaller position comes earlier in the walk.
//!
//! If two walks go in step (each has listed everything up to here), the deeper one is earlier,
//! because it still has to finish a branch that the other has left or never entered; at the same
//! depth the byte decides (paper, section 5.2). So the depth is stored complemented in the upper
//! half and the byte, complemented for a reverse walk, in the lower. The lowest bit is set when the
//! walk returns to a node after its children.

use std::fmt;

/// The order in which a walk lists keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Ascending: a key comes before its extensions.
    #[default]
    Forward,
    /// Descending: a key comes after its extensions.
    Reverse,
}

impl Direction {
    /// Returns whether this is [`Direction::Reverse`].
    pub fn is_reverse(self) -> bool {
        self == Direction::Reverse
    }
}

/// The depth reached, the byte that led there, and whether the children are passed.
///
/// Positions compare in the order of the walk, for cursors of the same direction that walk in step,
/// as in [`crate::cursor::Union`]. Positions of one cursor compare only if neither is below the
/// other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

const RETURNING: u64 = 1;
const BYTE_SHIFT: u32 = 1;
const REVERSE: u64 = 1 << 16;
const DEPTH_SHIFT: u32 = 32;

impl Position {
    /// Returns the first position of every walk: depth 0, before any byte.
    pub const fn root(direction: Direction) -> Position {
        Position::new(direction, 0, 0)
    }

    /// Returns the position after the last one; it compares greater than all others.
    pub const fn exhausted(direction: Direction) -> Position {
        Position((u32::MAX as u64) << DEPTH_SHIFT | Position::direction_bits(direction))
    }

    /// Returns the position of a node at `depth` bytes from the root, reached by `byte` (0 at the
    /// root).
    pub const fn new(direction: Direction, depth: u32, byte: u8) -> Position {
        let byte_in_order = match direction {
            Direction::Forward => byte,
            Direction::Reverse => !byte,
        };
        Position(
            ((u32::MAX - 1 - depth) as u64) << DEPTH_SHIFT
                | Position::direction_bits(direction)
                | (byte_in_order as u64) << BYTE_SHIFT,
        )
    }

    const fn direction_bits(direction: Direction) -> u64 {
        match direction {
            Direction::Forward => 0,
            Direction::Reverse => REVERSE,
        }
    }

    /// Returns the position of the second visit to this node, after its children. Only reverse
    /// walks have such positions.
    pub const fn returning(self) -> Position {
        Position(self.0 | RETURNING)
    }

    /// Returns the position of the first visit to this node, before its children.
    pub const fn descending(self) -> Position {
        Position(self.0 & !RETURNING)
    }

    /// Returns whether the walk is over.
    pub const fn is_exhausted(self) -> bool {
        self.0 >> DEPTH_SHIFT == u32::MAX as u64
    }

    /// Returns whether the node's children are passed.
    pub const fn is_returning(self) -> bool {
        self.0 & RETURNING != 0
    }

    /// Returns the number of bytes from the root; 0 when exhausted: check
    /// [`Position::is_exhausted`] first.
    pub const fn depth(self) -> u32 {
        (u32::MAX - 1).saturating_sub((self.0 >> DEPTH_SHIFT) as u32)
    }

    /// Returns the last byte of the path to this node; 0 at the root.
    pub const fn byte(self) -> u8 {
        let byte_in_order = (self.0 >> BYTE_SHIFT) as u8;
        match self.direction() {
            Direction::Forward => byte_in_order,
            Direction::Reverse if self.is_exhausted() => 0,
            Direction::Reverse => !byte_in_order,
        }
    }

    /// Returns the direction of the walk.
    pub const fn direction(self) -> Direction {
        if self.0 & REVERSE == 0 { Direction::Forward } else { Direction::Reverse }
    }

    /// Returns whether a cursor at this position need not move to reach `target`, a position as
    /// [`super::Cursor::skip_to`] requires. That is not quite `self >= target`: a child of the
    /// present node is ahead, although its position is the lesser number, because it is deeper.
    pub const fn is_at_or_after(self, target: Position) -> bool {
        let into_children =
            target.depth() > self.depth() && !self.is_returning() && !self.is_exhausted();
        !into_children && self.0 >= target.0
    }

    /// Returns the position of this node's child by `byte`.
    pub const fn child(self, byte: u8) -> Position {
        Position::new(self.direction(), self.depth() + 1, byte)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_exhausted() {
            return f.write_str("exhausted");
        }
        write!(f, "{}:{:02x}", self.depth(), self.byte())?;
        if self.is_returning() { f.write_str("↑") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_order_by_depth_and_then_by_byte() {
        for direction in [Direction::Forward, Direction::Reverse] {
            let at = |depth, byte| Position::new(direction, depth, byte);
            assert!(at(3, 9) < at(2, 0));
            assert_eq!(at(3, 9) < at(3, 10), direction == Direction::Forward);
            assert!(at(2, 7) < at(2, 7).returning());
            assert!(at(0, 0) < Position::exhausted(direction));
            assert!(at(0, 0).returning() < Position::exhausted(direction));
        }
        let reverse = |byte| Position::new(Direction::Reverse, 2, byte);
        assert!(reverse(7).returning() < reverse(6));
    }

    #[test]
    fn a_position_returns_its_depth_byte_and_direction() {
        for direction in [Direction::Forward, Direction::Reverse] {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let position = Position::new(direction, 77, byte);
                assert_eq!((position.depth(), position.byte()), (77, byte));
                assert_eq!(position.direction(), direction);
                assert_eq!(position.returning().descending(), position);
                assert!(!position.is_exhausted() && position.returning().is_returning());
            }
            assert!(Position::exhausted(direction).is_exhausted());
            assert_eq!(Position::exhausted(direction).direction(), direction);
            assert_eq!(Position::exhausted(direction).depth(), 0);
        }
    }
}

//! Consistency levels on the wire. The node's one copy of the data satisfies each level. The node
//! distinguishes the levels all the same: it refuses some of them for reads or for writes, and a
//! read at `SERIAL` waits for conditional writes. `NODE_LOCAL` is Cassandra's since 4.1: the
//! coordinator uses only its own rows.

use std::fmt;

use super::error::DecodeError;

/// A consistency level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Consistency {
    Any = 0x00,
    #[default]
    One = 0x01,
    Two = 0x02,
    Three = 0x03,
    Quorum = 0x04,
    All = 0x05,
    LocalQuorum = 0x06,
    EachQuorum = 0x07,
    Serial = 0x08,
    LocalSerial = 0x09,
    LocalOne = 0x0A,
    NodeLocal = 0x0B,
}

impl Consistency {
    /// Returns the level of a [consistency] field.
    ///
    /// # Errors
    ///
    /// Fails if no level has this code.
    pub fn from_code(code: u16) -> Result<Self, DecodeError> {
        Ok(match code {
            0x00 => Self::Any,
            0x01 => Self::One,
            0x02 => Self::Two,
            0x03 => Self::Three,
            0x04 => Self::Quorum,
            0x05 => Self::All,
            0x06 => Self::LocalQuorum,
            0x07 => Self::EachQuorum,
            0x08 => Self::Serial,
            0x09 => Self::LocalSerial,
            0x0A => Self::LocalOne,
            0x0B => Self::NodeLocal,
            _ => return Err(DecodeError::UnknownConsistency { code }),
        })
    }

    /// Returns the code on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// Returns whether the level is one of lightweight transactions: SERIAL or LOCAL_SERIAL.
    pub fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "ANY",
            Self::One => "ONE",
            Self::Two => "TWO",
            Self::Three => "THREE",
            Self::Quorum => "QUORUM",
            Self::All => "ALL",
            Self::LocalQuorum => "LOCAL_QUORUM",
            Self::EachQuorum => "EACH_QUORUM",
            Self::Serial => "SERIAL",
            Self::LocalSerial => "LOCAL_SERIAL",
            Self::LocalOne => "LOCAL_ONE",
            Self::NodeLocal => "NODE_LOCAL",
        })
    }
}

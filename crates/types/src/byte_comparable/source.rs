//! Reads the input of decoders through a mask.
//!
//! A reversed column's value is stored with every byte inverted and without its length, so a
//! decoder must invert while it reads: the mask is `FF` there and 0 elsewhere.

use crate::{CqlType, DecodeError};

/// The input that is left to decode.
pub(super) struct Source<'a> {
    rest: &'a [u8],
    mask: u8,
}

impl<'a> Source<'a> {
    pub(super) fn new(rest: &'a [u8], reversed: bool) -> Self {
        Self { rest, mask: if reversed { 0xFF } else { 0 } }
    }

    /// Returns the bytes that were not read, as they are stored.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().map(|byte| byte ^ self.mask)
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first ^ self.mask)
    }

    #[inline]
    pub(super) fn byte(&mut self, ty: &CqlType) -> Result<u8, DecodeError> {
        self.next().ok_or_else(|| truncated(ty))
    }

    pub(super) fn array<const N: usize>(&mut self, ty: &CqlType) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| truncated(ty))?;
        self.rest = rest;
        Ok(head.map(|byte| byte ^ self.mask))
    }

    /// Appends the next `count` bytes to `out`. Allocates only if that many are left.
    pub(super) fn copy(
        &mut self,
        count: usize,
        ty: &CqlType,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(|| truncated(ty))?;
        self.rest = rest;
        out.extend(head.iter().map(|byte| byte ^ self.mask));
        Ok(())
    }

    /// Appends bytes up to the next zero byte (not included) to `out`.
    pub(super) fn copy_until_zero(&mut self, out: &mut Vec<u8>) {
        let mask = self.mask;
        let length = self.rest.iter().position(|&byte| byte == mask).unwrap_or(self.rest.len());
        let (head, rest) = self.rest.split_at(length);
        self.rest = rest;
        out.extend(head.iter().map(|byte| byte ^ mask));
    }

    /// Makes the error for `got`, the byte that was read last.
    pub(super) fn unexpected(&self, ty: &CqlType, expected: &'static str, got: u8) -> DecodeError {
        let type_name = ty.cql_name();
        DecodeError::Unexpected { type_name, expected, got, remaining: self.rest.len() }
    }
}

pub(super) fn truncated(ty: &CqlType) -> DecodeError {
    DecodeError::Truncated { type_name: ty.cql_name() }
}

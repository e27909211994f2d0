//! Limits the size of the numbers that the node prints or computes with.

use crate::{CqlType, ValueError, collection};

/// Largest `varint` or `decimal`, in bytes, that the node prints or computes with: about 39,450
/// digits. Printing and division take time quadratic in the bytes. The slowest operation takes 15
/// ms at this limit, and 70 ms at 64 KiB.
pub const MAX_NUMBER_BYTES: usize = 16 * 1024;

/// Limit of the numbers in one value: together they may take as long to print as this many numbers
/// of [`MAX_NUMBER_BYTES`]. Arbitrary.
pub const MAX_LARGE_NUMBERS: usize = 4;

const MAX_WORK: usize = MAX_LARGE_NUMBERS * MAX_NUMBER_BYTES * MAX_NUMBER_BYTES;

/// Length of a value, in bytes, whose numbers take no more than some microseconds to print.
const SHORT_VALUE: usize = 256;

/// An operation that converts numbers of a value to decimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// Prints the value. A composite prints as a blob.
    Print,
    /// Makes an entry of an index, which has the digits of decimals, also of those in composites.
    Index,
}

/// Refuses a `varint` or `decimal` that exceeds [`MAX_NUMBER_BYTES`].
///
/// # Errors
/// Returns [`ValueError::TooLarge`] for such a number.
pub fn check_number(ty: &CqlType, value: &[u8]) -> Result<(), ValueError> {
    if value.len() > MAX_NUMBER_BYTES && matches!(ty, CqlType::Varint | CqlType::Decimal) {
        return Err(too_large(ty, value.len()));
    }
    Ok(())
}

/// The work that a secondary index has with the decimals of several values: it converts them to
/// decimal digits, as printing does.
#[derive(Debug, Default)]
pub struct IndexedDecimals {
    work: usize,
}

impl IndexedDecimals {
    /// Adds a value, which may be or contain decimals.
    ///
    /// # Errors
    /// Returns [`ValueError::TooLarge`] for a decimal that exceeds [`MAX_NUMBER_BYTES`], and if the
    /// values so far take longer than [`MAX_LARGE_NUMBERS`] of the largest decimals.
    pub fn add(&mut self, ty: &CqlType, value: &[u8]) -> Result<(), ValueError> {
        if !has_decimals(ty) {
            return Ok(());
        }
        check_parts(ty, value, Operation::Index, &mut self.work)
    }
}

/// Returns whether a value of the type may hold decimals.
pub fn has_decimals(ty: &CqlType) -> bool {
    has_numbers(ty, Operation::Index)
}

/// Refuses a value whose numbers take too long to print. Returns the sum of the squares of the
/// lengths of its numbers, or 0 for a short value.
///
/// # Errors
/// Returns [`ValueError::TooLarge`] for such a value.
pub fn check_printable(ty: &CqlType, value: &[u8]) -> Result<usize, ValueError> {
    let mut work = 0;
    if value.len() > SHORT_VALUE && has_numbers(ty, Operation::Print) {
        check_parts(ty, value, Operation::Print, &mut work)?;
    }
    Ok(work)
}

fn too_large(ty: &CqlType, got: usize) -> ValueError {
    ValueError::TooLarge { type_name: ty.cql_name(), limit: MAX_NUMBER_BYTES, got }
}

/// Returns whether a value of the type may hold numbers of any length that the operation converts.
fn has_numbers(ty: &CqlType, operation: Operation) -> bool {
    match (operation, ty) {
        (_, CqlType::Decimal) | (Operation::Print, CqlType::Varint) => true,
        (Operation::Print, CqlType::Composite(_)) => false,
        _ => ty.parts().any(|part| has_numbers(part, operation)),
    }
}

/// Adds the work for `value` to `work`. A malformed part counts as nothing: it prints as a blob,
/// and an entry of an index ends before it.
fn check_parts(
    ty: &CqlType,
    value: &[u8],
    operation: Operation,
    work: &mut usize,
) -> Result<(), ValueError> {
    let mut nullable = |ty: &CqlType, part: Option<&[u8]>| {
        part.map_or(Ok(()), |part| check_parts(ty, part, operation, work))
    };
    match ty {
        CqlType::Varint if operation == Operation::Index => Ok(()),
        CqlType::Varint | CqlType::Decimal => {
            check_number(ty, value)?;
            *work += value.len() * value.len();
            if *work > MAX_WORK { Err(too_large(ty, value.len())) } else { Ok(()) }
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let Ok(mut elements) = collection::elements(value) else { return Ok(()) };
            elements.try_for_each(|item| nullable(element, item.ok().flatten()))
        }
        CqlType::Vector { element, dimension } => {
            collection::vector_elements(element, *dimension, value)
                .try_for_each(|item| nullable(element, item.ok()))
        }
        CqlType::Map { key, value: ty, .. } => {
            let Ok(entries) = collection::entries(value) else { return Ok(()) };
            for (k, v) in entries.map_while(Result::ok) {
                nullable(key, Some(k))?;
                nullable(ty, Some(v))?;
            }
            Ok(())
        }
        CqlType::Tuple(types) => collection::fields(value)
            .zip(types.iter())
            .try_for_each(|(field, ty)| nullable(ty, field.ok().flatten())),
        CqlType::UserDefined { definition, .. } => collection::fields(value)
            .zip(&definition.fields)
            .try_for_each(|(field, (_, ty))| nullable(ty, field.ok().flatten())),
        CqlType::Composite(types) if operation == Operation::Index => {
            let (_, components) = collection::composite_components(value);
            components.zip(types.iter()).try_for_each(|(component, ty)| {
                nullable(ty, component.ok().map(|component| component.value))
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(count: usize, bytes: usize) -> Vec<u8> {
        let number = vec![1; bytes];
        let numbers = std::iter::repeat_n(number.as_slice(), count);
        collection::list_of(numbers).to_vec()
    }

    fn composite_of(count: usize, bytes: usize) -> Vec<u8> {
        let length = u16::try_from(bytes).unwrap().to_be_bytes();
        [&length[..], vec![1; bytes].as_slice(), &[0]].concat().repeat(count)
    }

    #[test]
    fn large_numbers_are_refused_wherever_they_are() {
        let large = vec![1; MAX_NUMBER_BYTES + 1];
        let error = check_printable(&CqlType::Varint, &large).unwrap_err();
        let message = "varint of 16385 bytes is too large to print or to compute with: \
                       the limit is 16384 bytes";
        assert!(error.to_string().starts_with(message), "{error}");
        assert!(check_number(&CqlType::Decimal, &large).is_err());
        assert!(check_printable(&CqlType::Decimal, &large[1..]).is_ok());
        assert!(check_printable(&CqlType::Blob, &large).is_ok());
        let set = CqlType::Set { element: CqlType::Varint.into(), frozen: false };
        assert!(check_printable(&set, &set_of(1, MAX_NUMBER_BYTES + 1)).is_err());
        let tuple = CqlType::Tuple([CqlType::Int, set.clone()].into());
        let value = collection::tuple_of([None, Some(set_of(1, MAX_NUMBER_BYTES + 1))]);
        assert!(check_printable(&tuple, &value).is_err());
        // The numbers of a value may take as long to print as four of the largest.
        assert!(check_printable(&set, &set_of(4, MAX_NUMBER_BYTES)).is_ok());
        assert!(check_printable(&set, &set_of(5, MAX_NUMBER_BYTES)).is_err());
        assert!(check_printable(&set, &set_of(400, MAX_NUMBER_BYTES / 10)).is_ok());
        assert!(check_printable(&set, &set_of(100_000, 40)).is_ok());
    }

    #[test]
    fn an_index_counts_the_decimals_of_composites_but_printing_does_not() {
        let composite = CqlType::Composite(vec![CqlType::Decimal; 5].into());
        let add = |ty: &CqlType, value: &[u8]| IndexedDecimals::default().add(ty, value);
        assert!(has_decimals(&composite));
        assert!(add(&composite, &composite_of(4, MAX_NUMBER_BYTES)).is_ok());
        assert!(add(&composite, &composite_of(5, MAX_NUMBER_BYTES)).is_err());
        let large = composite_of(1, MAX_NUMBER_BYTES + 1);
        assert!(add(&composite, &large).is_err());
        let list = CqlType::List { element: composite.clone().into(), frozen: true };
        assert!(add(&list, &collection::list_of([&large])).is_err());
        assert!(check_printable(&composite, &large).is_ok());
        assert!(check_printable(&list, &collection::list_of([&large])).is_ok());
        // An index does not convert varints.
        let mixed = CqlType::Composite([CqlType::Decimal, CqlType::Varint].into());
        let value = [composite_of(1, 1), large].concat();
        assert!(add(&mixed, &value).is_ok());
    }
}

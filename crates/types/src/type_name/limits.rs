//! Defines the limits of types, which schema statements check.
//!
//! All readers of type names can read a type within the limits: the decoder of the schema tables,
//! the reader of SSTable headers, and the parser of DESCRIBE's output. Functions over types
//! recurse, so the depth is bounded. The number of parts has a bound of its own: if a user type has
//! two fields of a second type, which has two fields of a third type, and so on, the number doubles
//! with each level.

use thiserror::Error;

use crate::CqlType;

/// Limit of a type's nesting, including the fields of its user types: `list<int>` is nested once.
/// Arbitrary. CQL names of frozen types are twice as deep (`frozen<list<...>>`).
pub const MAX_TYPE_DEPTH: usize = 50;

/// Limit of the number of types in a type: itself, its parts, and the fields of its user types.
/// Arbitrary.
pub const MAX_TYPE_PARTS: usize = 4096;

/// The limit that a type exceeds. Schema statements refuse such a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe the variants
pub enum TypeLimitError {
    #[error("A type with all fields of its user types may have at most {MAX_TYPE_PARTS} parts")]
    Parts,
    #[error(
        "Types nested deeper than {MAX_TYPE_DEPTH} levels, those of user types included, are not supported"
    )]
    Depth,
    #[error("A value of this vector type would have more than 2^31-1 bytes")]
    VectorBytes,
    #[error("The elements of a vector cannot be of type 'empty', whose values have no bytes")]
    VectorOfEmpty,
}

impl CqlType {
    /// Checks that all readers of type names accept the type.
    ///
    /// # Errors
    ///
    /// Returns the limit that the type exceeds. Takes time for at most [`MAX_TYPE_PARTS`] parts.
    pub fn check_limits(&self) -> Result<(), TypeLimitError> {
        self.check_limits_inside(0, &mut 0)
    }

    /// Checks a type at `depth` levels inside an outer type. `parts` counts the outer type's parts.
    ///
    /// # Errors
    ///
    /// Returns the limit that the outer type exceeds.
    pub fn check_limits_inside(
        &self,
        depth: usize,
        parts: &mut usize,
    ) -> Result<(), TypeLimitError> {
        *parts += 1;
        if *parts > MAX_TYPE_PARTS {
            return Err(TypeLimitError::Parts);
        }
        if depth > MAX_TYPE_DEPTH {
            return Err(TypeLimitError::Depth);
        }
        self.parts().try_for_each(|part| part.check_limits_inside(depth + 1, parts))?;
        match self {
            Self::Vector { element, dimension } => check_vector(element, *dimension),
            _ => Ok(()),
        }
    }
}

/// Checks that the values of a vector fit into 2^31-1 bytes, and that its elements have bytes.
/// Without bytes in the elements, the size of a value would not bound the time to read it.
pub(super) fn check_vector(element: &CqlType, dimension: usize) -> Result<(), TypeLimitError> {
    // An element of variable length takes at least one byte.
    let element_bytes = match element.fixed_length() {
        Some(0) => return Err(TypeLimitError::VectorOfEmpty),
        Some(bytes) => bytes,
        None => 1,
    };
    let bytes = element_bytes.checked_mul(dimension);
    match bytes {
        Some(bytes) if bytes <= i32::MAX as usize => Ok(()),
        _ => Err(TypeLimitError::VectorBytes),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::UserType;

    fn deep(depth: usize, wrap: impl Fn(CqlType) -> CqlType) -> CqlType {
        (0..depth).fold(CqlType::Int, |inner, _| wrap(inner))
    }

    fn user_type(name: &str, field: CqlType) -> Arc<UserType> {
        let fields = vec![("f".to_owned(), field)];
        Arc::new(UserType { keyspace: "ks".into(), name: name.into(), fields })
    }

    /// Each kind of type, nested as deeply as possible, is parsed back from both of its names.
    #[test]
    fn the_deepest_types_are_read_again() {
        let wraps: [fn(CqlType) -> CqlType; 5] = [
            |inner| CqlType::List { element: Arc::new(inner), frozen: true },
            |inner| CqlType::Set { element: Arc::new(inner), frozen: true },
            |inner| CqlType::Map {
                key: Arc::new(CqlType::Text),
                value: Arc::new(inner),
                frozen: true,
            },
            |inner| CqlType::Tuple([inner].into()),
            |inner| CqlType::Vector { element: Arc::new(inner), dimension: 1 },
        ];
        for wrap in wraps {
            let ty = deep(MAX_TYPE_DEPTH, wrap);
            assert_eq!(ty.check_limits(), Ok(()));
            assert_eq!(CqlType::parse_cql(&ty.cql_name(), "ks", &|_| None).as_ref(), Ok(&ty));
            let reversed = format!("ReversedType({})", ty.marshal_name());
            assert_eq!(CqlType::parse_marshal_maybe_reversed(&reversed).as_ref(), Ok(&(ty, true)));
            let ty = deep(MAX_TYPE_DEPTH + 1, wrap);
            assert_eq!(ty.check_limits(), Err(TypeLimitError::Depth));
        }
    }

    #[test]
    fn fields_of_user_types_count() {
        let mut ty = CqlType::Int;
        for number in 0..MAX_TYPE_DEPTH {
            let definition = user_type(&format!("u{number}"), ty);
            ty = CqlType::UserDefined { definition, frozen: true };
        }
        assert_eq!(ty.check_limits(), Ok(()));
        assert_eq!(CqlType::parse_marshal(&ty.marshal_name()).as_ref(), Ok(&ty));
        let outer = CqlType::List { element: Arc::new(ty), frozen: true };
        assert_eq!(outer.check_limits(), Err(TypeLimitError::Depth));
        let wide = CqlType::Tuple(vec![CqlType::Int; MAX_TYPE_PARTS].into());
        assert_eq!(wide.check_limits(), Err(TypeLimitError::Parts));
    }

    /// The check before a type is stored refuses the same vectors as the readers of names.
    #[test]
    fn vectors_have_bytes_and_not_too_many() {
        let vector = |element: CqlType, dimension: usize| CqlType::Vector {
            element: Arc::new(element),
            dimension,
        };
        let accepted = [
            vector(CqlType::Bigint, (1 << 28) - 1),
            vector(vector(CqlType::Bigint, 16383), 16384),
            vector(CqlType::Text, i32::MAX as usize),
            // The elements have no fixed length, so the check counts one byte for each.
            vector(vector(CqlType::Tinyint, 1 << 16), 1 << 16),
        ];
        for ty in accepted {
            assert_eq!(ty.check_limits(), Ok(()), "{}", ty.cql_name());
            assert_eq!(CqlType::parse_cql(&ty.cql_name(), "ks", &|_| None).as_ref(), Ok(&ty));
            assert_eq!(CqlType::parse_marshal(&ty.marshal_name()).as_ref(), Ok(&ty));
        }
        let refused = [
            vector(vector(CqlType::Bigint, 16384), 16384),
            vector(CqlType::Int, i32::MAX as usize),
            vector(CqlType::Empty, 3),
        ];
        for ty in refused {
            assert!(ty.check_limits().is_err(), "{}", ty.cql_name());
            assert!(CqlType::parse_cql(&ty.cql_name(), "ks", &|_| None).is_err());
            let inside = CqlType::List { element: Arc::new(ty), frozen: false };
            assert!(inside.check_limits().is_err(), "{}", inside.cql_name());
        }
    }
}

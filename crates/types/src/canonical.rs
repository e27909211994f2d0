//! Brings values into canonical form: a driver may send one value in several forms, and the node
//! stores one of them.
//!
//! The elements of a set, and the keys of a map, are sorted and unique, wherever the set or map is
//! nested. If elements are equal, the first one stays. If keys are equal, the first key stays, with
//! the value of the last.
//!
//! Elements of lists, sets and maps have the shortest form of their type, because Cassandra decodes
//! and encodes them again: a varint without superfluous sign bytes, `01` for true, an IPv4 address
//! in 4 bytes. Scalars elsewhere (columns, fields of tuples and user types, elements of a vector
//! column) keep the bytes that the client sent, as in Cassandra. One difference: inside tuples,
//! user types and vector columns, Cassandra also keeps the client's bytes of sets and maps. Two
//! orders of one set are then two partition keys in Cassandra, but one here.
//!
//! [`CqlType::canonical`] first checks the value without allocating, and builds a new value only if
//! the form differs. It skips types that have only one form ([`CqlType::has_canonical_form`]).

use std::{borrow::Cow, cmp::Ordering};

use crate::{CqlType, ValueError, collection, duration::Duration, varint};

/// The place of a set or map that is not sorted and unique, see [`CqlType::find_unsorted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsorted {
    /// Outside tuples, user types and vectors. Cassandra stores no such value either.
    Anywhere,
    /// Inside a tuple, user type or vector, where Cassandra keeps the bytes that the client sent.
    InsideTuple,
}

/// The place of a value: a scalar has a canonical form only as an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Whole,
    Element,
}

impl CqlType {
    /// Returns whether some value of this type has more than one form, one of which is stored.
    #[inline]
    pub fn has_canonical_form(&self) -> bool {
        self.varies(Place::Whole)
    }

    /// Returns the canonical form of a valid value; `None` if the value has it already, or if the
    /// bytes are not a valid value.
    #[inline]
    pub fn canonical(&self, value: &[u8]) -> Option<Vec<u8>> {
        if !self.has_canonical_form() || self.is_canonical_at(Place::Whole, value).unwrap_or(true) {
            return None;
        }
        self.canonical_at(Place::Whole, value).ok().map(Cow::into_owned)
    }

    /// Returns whether [`Self::canonical`] has nothing to change.
    #[inline]
    pub fn is_canonical(&self, value: &[u8]) -> bool {
        !self.has_canonical_form() || self.is_canonical_at(Place::Whole, value).unwrap_or(true)
    }

    /// Finds a set or map that is not sorted or has an element or key twice. It may be the value
    /// itself or a part of the value.
    pub fn find_unsorted(&self, value: &[u8]) -> Option<Unsorted> {
        if !self.has_canonical_form() {
            return None;
        }
        self.unsorted_in(value).ok().flatten()
    }

    fn varies(&self, place: Place) -> bool {
        match self {
            Self::Set { .. } | Self::Map { .. } => true,
            Self::List { element, .. } => element.varies(Place::Element),
            Self::Vector { element, .. } => element.varies(place),
            Self::Tuple(types) => types.iter().any(|ty| ty.varies(Place::Whole)),
            Self::UserDefined { definition, .. } => {
                definition.field_types().any(|ty| ty.varies(Place::Whole))
            }
            Self::Boolean | Self::Varint | Self::Decimal | Self::Inet | Self::Duration => {
                place == Place::Element
            }
            _ => false,
        }
    }

    fn is_canonical_at(&self, place: Place, value: &[u8]) -> Result<bool, ValueError> {
        if !self.varies(place) {
            return Ok(true);
        }
        Ok(match self {
            Self::List { element, .. } => {
                for item in collection::elements(value)? {
                    if !element.is_canonical_at(Place::Element, item?.unwrap_or_default())? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Set { element, .. } => {
                let mut before = None;
                for item in collection::elements(value)? {
                    let item = item?.unwrap_or_default();
                    if !element.is_canonical_at(Place::Element, item)?
                        || !is_behind(element, &mut before, item)
                    {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Map { key, value: ty, .. } => {
                let mut before = None;
                for entry in collection::entries(value)? {
                    let (k, v) = entry?;
                    if !key.is_canonical_at(Place::Element, k)?
                        || !ty.is_canonical_at(Place::Element, v)?
                        || !is_behind(key, &mut before, k)
                    {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Vector { element, dimension } => {
                for item in collection::vector_elements(element, *dimension, value) {
                    if !element.is_canonical_at(place, item?)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Tuple(types) => are_canonical(types.iter(), value)?,
            Self::UserDefined { definition, .. } => are_canonical(definition.field_types(), value)?,
            _ => shortest(self, value)? == value,
        })
    }

    fn canonical_at<'v>(&self, place: Place, value: &'v [u8]) -> Result<Cow<'v, [u8]>, ValueError> {
        if self.is_canonical_at(place, value)? {
            return Ok(value.into());
        }
        let built = match self {
            Self::List { element, .. } => collection::list_of(canonical_elements(element, value)?),
            Self::Set { element, .. } => {
                collection::set_of(element, canonical_elements(element, value)?)
            }
            Self::Map { key, value: ty, .. } => {
                let entries = collection::entries(value)?.map(|entry| {
                    let (k, v) = entry?;
                    let k = key.canonical_at(Place::Element, k)?;
                    Ok((k, ty.canonical_at(Place::Element, v)?))
                });
                collection::sorted_map_of(key, entries.collect::<Result<_, ValueError>>()?)
            }
            Self::Vector { element, dimension } => {
                let items = collection::vector_elements(element, *dimension, value)
                    .map(|item| element.canonical_at(place, item?));
                collection::vector_of(element, items.collect::<Result<Vec<_>, _>>()?)
            }
            Self::Tuple(types) => canonical_fields(types.iter(), value)?,
            Self::UserDefined { definition, .. } => {
                canonical_fields(definition.field_types(), value)?
            }
            _ => return shortest(self, value),
        };
        Ok(Cow::Owned(built.into()))
    }

    fn unsorted_in(&self, value: &[u8]) -> Result<Option<Unsorted>, ValueError> {
        let mut found = None;
        let mut before = None;
        match self {
            Self::List { element, .. } | Self::Set { element, .. } => {
                let is_set = matches!(self, Self::Set { .. });
                for item in collection::elements(value)? {
                    let item = item?.unwrap_or_default();
                    if is_set && !is_behind(element, &mut before, item) {
                        return Ok(Some(Unsorted::Anywhere));
                    }
                    found = found.or(element.unsorted_in(item)?);
                }
            }
            Self::Map { key, value: ty, .. } => {
                for entry in collection::entries(value)? {
                    let (k, v) = entry?;
                    if !is_behind(key, &mut before, k) {
                        return Ok(Some(Unsorted::Anywhere));
                    }
                    found = found.or(key.unsorted_in(k)?).or(ty.unsorted_in(v)?);
                }
            }
            Self::Vector { element, dimension } => {
                for item in collection::vector_elements(element, *dimension, value) {
                    found = found.or(element.unsorted_in(item?)?.map(|_| Unsorted::InsideTuple));
                }
            }
            Self::Tuple(types) => found = unsorted_field(types.iter(), value)?,
            Self::UserDefined { definition, .. } => {
                found = unsorted_field(definition.field_types(), value)?;
            }
            _ => {}
        }
        Ok(found)
    }
}

/// Returns whether `item` is greater than the element in `before`. Stores `item` in `before`.
fn is_behind<'v>(element: &CqlType, before: &mut Option<&'v [u8]>, item: &'v [u8]) -> bool {
    before.replace(item).is_none_or(|before| element.compare(before, item) == Ordering::Less)
}

fn are_canonical<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    value: &[u8],
) -> Result<bool, ValueError> {
    for (ty, field) in types.zip(collection::fields(value)) {
        if let Some(field) = field?
            && !ty.is_canonical_at(Place::Whole, field)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unsorted_field<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    value: &[u8],
) -> Result<Option<Unsorted>, ValueError> {
    for (ty, field) in types.zip(collection::fields(value)) {
        if let Some(field) = field?
            && ty.unsorted_in(field)?.is_some()
        {
            return Ok(Some(Unsorted::InsideTuple));
        }
    }
    Ok(None)
}

fn canonical_elements<'v>(
    element: &CqlType,
    value: &'v [u8],
) -> Result<Vec<Cow<'v, [u8]>>, ValueError> {
    collection::elements(value)?
        .map(|item| element.canonical_at(Place::Element, item?.unwrap_or_default()))
        .collect()
}

fn canonical_fields<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    value: &[u8],
) -> Result<bytes::Bytes, ValueError> {
    let fields = types
        .zip(collection::fields(value))
        .map(|(ty, field)| field?.map(|field| ty.canonical_at(Place::Whole, field)).transpose());
    Ok(collection::tuple_of(fields.collect::<Result<Vec<_>, _>>()?))
}

/// Returns the form in which Cassandra writes an element that it has read.
fn shortest<'v>(ty: &CqlType, value: &'v [u8]) -> Result<Cow<'v, [u8]>, ValueError> {
    /// `::ffff:0:0/96`, the prefix of IPv4 addresses among those of 16 bytes.
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];
    Ok(match (ty, value) {
        (CqlType::Boolean, [byte]) if *byte > 1 => Cow::Borrowed(&[1]),
        (CqlType::Varint, [_, ..]) => varint::shortest(value).into(),
        (CqlType::Decimal, [_, _, _, _, unscaled @ ..]) => {
            let kept = varint::shortest(unscaled);
            if kept.len() == unscaled.len() {
                return Ok(value.into());
            }
            let (scale, _) = value.split_at(4);
            [scale, kept].concat().into()
        }
        (CqlType::Inet, [mapped @ .., a, b, c, d]) if mapped == MAPPED => {
            vec![*a, *b, *c, *d].into()
        }
        (CqlType::Duration, _) => {
            let mut out = Vec::new();
            Duration::decode(value)?.encode(&mut out);
            if out == value { value.into() } else { out.into() }
        }
        _ => value.into(),
    })
}

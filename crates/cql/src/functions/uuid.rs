//! The function `uuid()`: a random identifier.

use bytes::Bytes;
use espalier_runtime::random;
use espalier_types::CqlType;

use super::ResolvedFunction;

/// Returns the function of that name.
pub fn overload(name: &str) -> Option<ResolvedFunction> {
    (name == "uuid").then(|| {
        ResolvedFunction::strict(name, Vec::new(), CqlType::Uuid, |_, _| {
            Ok(Some(Bytes::copy_from_slice(random::uuid_v4().as_bytes())))
        })
        .impure()
    })
}

//! Checks the groups of addresses from which a role has access: `ACCESS FROM CIDRS` and
//! `system_auth.cidr_groups`.

use std::net::IpAddr;

use bytes::Bytes;
use espalier_storage::Node;
use espalier_types::collection;

use super::login::unauthorized;
use super::role::EffectiveRole;
use crate::Result;
use crate::internal_query;

/// Checks whether a role has access from an address. The inner result is Cassandra's error if the
/// role has no access.
///
/// # Errors
/// The storage fails.
pub async fn check(database: &Node, role: &EffectiveRole, address: IpAddr) -> Result<Result<()>> {
    let Some(groups) = &role.cidr_groups else { return Ok(Ok(())) };
    const TEXT: &str = "SELECT cidrs FROM system_auth.cidr_groups WHERE cidr_group = ?";
    for group in groups {
        let rows = internal_query::read(database, TEXT, &[group]).await?;
        let cidrs = rows.first().and_then(|row| row.first()?.as_ref());
        if ranges(cidrs).any(|(network, bits)| contains(network, bits, address)) {
            return Ok(Ok(()));
        }
    }
    Ok(Err(unauthorized(format!("You do not have access from this IP {address}"))))
}

/// Returns the ranges of a value of `cidrs`: `set<tuple<inet, smallint>>`.
fn ranges(value: Option<&Bytes>) -> impl Iterator<Item = (IpAddr, u16)> {
    internal_query::elements(value).filter_map(|tuple| {
        let mut fields = collection::fields(tuple);
        let network = address_of(fields.next()?.ok()??)?;
        let bits = fields.next()?.ok()??;
        Some((network, u16::from_be_bytes(bits.try_into().ok()?)))
    })
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(bytes.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// Returns whether the first `bits` bits of two addresses of one family are equal.
fn contains(network: IpAddr, bits: u16, address: IpAddr) -> bool {
    let (network, address, length) = match (network, address.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u128::from(network.to_bits()), u128::from(address.to_bits()), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    let ignored = u32::from(length - bits.min(length));
    network.checked_shr(ignored).unwrap_or(0) == address.checked_shr(ignored).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_elements_of_the_set() {
        let (network, bits) = ([10, 1, 0, 0], 16u16.to_be_bytes());
        let range = collection::tuple_of([Some(&network[..]), Some(&bits[..])]);
        let mut set = collection::list_of([&range, &range]).to_vec();
        let expected = (IpAddr::from(network), 16u16);
        let found = |set: &[u8]| ranges(Some(&Bytes::copy_from_slice(set))).collect::<Vec<_>>();
        assert_eq!(found(&set), [expected; 2]);
        // The last element is longer than the rest of the set.
        set[4 + 4 + range.len() + 3] += 1;
        assert_eq!(found(&set), [expected]);
    }

    #[test]
    fn ranges_contain_addresses_of_their_family() {
        let inside = |network: &str, bits, address: &str| {
            contains(network.parse().unwrap(), bits, address.parse().unwrap())
        };
        assert!(inside("10.1.0.0", 16, "10.1.200.7"));
        assert!(!inside("10.1.0.0", 16, "10.2.0.1"));
        assert!(inside("0.0.0.0", 0, "192.168.0.1"));
        assert!(inside("10.0.0.1", 32, "::ffff:10.0.0.1"));
        assert!(!inside("10.0.0.1", 32, "::1"));
        assert!(inside("2001:db8::", 32, "2001:db8:1::5"));
        assert!(inside("::", 0, "2001::"));
    }
}

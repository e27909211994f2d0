//! The canonical form of addresses, and the networks by which the node counts clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bits of an IPv6 address that name a network (RFC 4291, section 2.5.1). Every host may choose the
/// other bits at will.
const NETWORK_BITS: u32 = 64;

/// The network 64:ff9b::/96 of translators between IPv4 and IPv6 (RFC 6052, section 2.1), as the
/// first 96 bits of its addresses. The last 32 bits are the IPv4 address of the client.
const TRANSLATED: u128 = 0x0064_FF9B << 64;

/// Returns the network by which the node counts a client that has not logged in: an IPv4 address
/// itself, or the first 64 bits of an IPv6 address. Otherwise one host could count as 2^64 clients.
/// An IPv4 address behind a translator counts as itself.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if address.to_bits() >> 32 == TRANSLATED => {
            Ipv4Addr::from_bits(address.to_bits() as u32).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        address => address,
    }
}

/// Turns an IPv4 address that a socket for both families shows as an IPv6 address
/// (`::ffff:10.0.0.1`) back into an IPv4 address. Returns other addresses unchanged.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str) -> String {
        client_network(address.parse().unwrap()).to_string()
    }

    #[test]
    fn hosts_of_a_network_count_as_one_client() {
        assert_eq!(network("2001:db8:1:2::1"), "2001:db8:1:2::");
        assert_eq!(network("2001:db8:1:2:ffff:ffff:ffff:ffff"), "2001:db8:1:2::");
        assert_eq!(network("2001:db8:1:3::1"), "2001:db8:1:3::");
        assert_eq!(network("::1"), "::");
        assert_eq!(network("10.0.0.1"), "10.0.0.1");
        assert_eq!(network("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(network("::ffff:10.0.0.2"), "10.0.0.2");
        assert_eq!(network("64:ff9b::192.0.2.7"), "192.0.2.7");
        assert_eq!(network("64:ff9b:0:0:1::192.0.2.7"), "64:ff9b::");
    }
}

//! Addresses and networks from text, without leading zeros: `010.0.0.1` means 10.0.0.1 to some and 8.0.0.1 to others.

use std::net::IpAddr;

use ipnet::IpNet;

/// An address. `::ffff:203.0.113.10` is none, because the same address would then have two names.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    match text.parse::<IpAddr>().ok()? {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => None,
        address @ (IpAddr::V4(_) | IpAddr::V6(_)) => Some(address),
    }
}

/// A network, host bits as they are written.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let (base, length) = text.split_once('/')?;
    if length.is_empty()
        || (length.len() > 1 && length.starts_with('0'))
        || !length.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    IpNet::new(address(base)?, length.parse().ok()?).ok()
}

/// Whether two networks share an address.
pub(crate) fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// Whether an address stands for its network: the first of a network with more than two (RFC 3021), and in IPv6 the
/// routers' anycast address (RFC 4291, section 2.6.1).
pub(crate) fn is_network_address(network: &IpNet, ip: IpAddr) -> bool {
    ip == network.network() && network.max_prefix_len() - network.prefix_len() > 1
}

/// Whether an address reaches everybody on its network; IPv6 has none that does.
pub(crate) fn is_broadcast_address(network: &IpNet, ip: IpAddr) -> bool {
    ip.is_ipv4() && ip == network.broadcast() && network.max_prefix_len() - network.prefix_len() > 1
}

/// The family of an address as `Service.spec.ipFamilies` says it.
pub(crate) fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_strictly() {
        assert_eq!(address("203.0.113.10"), "203.0.113.10".parse().ok());
        assert_eq!(network("10.1.2.3/8").unwrap().to_string(), "10.1.2.3/8");
        for wrong in ["010.0.0.1", "1.2.3", "1.2.3.4 ", "::ffff:1.2.3.4", "fe80::1%eth0", ""] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
        assert_eq!(address("2001:db8::1"), "2001:db8::1".parse().ok());
        for wrong in ["010.0.0.0/8", "10.0.0.0/08", "10.0.0.0/33", "10.0.0.0", "10.0.0.0/+8", "10.0.0.0/"] {
            assert_eq!(network(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn networks_keep_their_first_and_in_ipv4_their_last_address() {
        for (network, ip, first, last) in [
            ("203.0.113.0/24", "203.0.113.0", true, false),
            ("203.0.113.0/24", "203.0.113.255", false, true),
            ("203.0.113.0/31", "203.0.113.0", false, false),
            ("2001:db8::/64", "2001:db8::", true, false),
            ("2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff", false, false),
            ("2001:db8::/127", "2001:db8::", false, false),
        ] {
            let (network, ip) = (self::network(network).unwrap(), address(ip).unwrap());
            assert_eq!(
                (is_network_address(&network, ip), is_broadcast_address(&network, ip)),
                (first, last),
                "{ip}"
            );
        }
    }
}

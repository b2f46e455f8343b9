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
        for wrong in ["010.0.0.0/8", "10.0.0.0/08", "10.0.0.0/33", "10.0.0.0", "10.0.0.0/+8", "10.0.0.0/"] {
            assert_eq!(network(wrong), None, "{wrong}");
        }
    }
}

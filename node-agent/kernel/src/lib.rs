//! The only crate with netlink, nftables and raw sockets.

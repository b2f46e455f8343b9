//! The numbers of `linux/netfilter/nf_tables.h` that we use.

/// `NFNL_SUBSYS_NFTABLES`
pub(super) const SUBSYSTEM: u16 = 10;
/// `NFPROTO_INET`
pub(super) const INET: u8 = 1;
/// `NFPROTO_IPV4`
pub(super) const IPV4: u8 = 2;
/// `NFPROTO_IPV6`
pub(super) const IPV6: u8 = 10;

pub(super) const BATCH_BEGIN: u16 = 16;
pub(super) const BATCH_END: u16 = 17;

/// `enum nf_tables_msg_types`
pub(super) mod message {
    pub(in crate::nft) const NEW_TABLE: u16 = 0;
    pub(in crate::nft) const GET_TABLE: u16 = 1;
    pub(in crate::nft) const DELETE_TABLE: u16 = 2;
    pub(in crate::nft) const NEW_CHAIN: u16 = 3;
    pub(in crate::nft) const GET_CHAIN: u16 = 4;
    pub(in crate::nft) const DELETE_CHAIN: u16 = 5;
    pub(in crate::nft) const NEW_RULE: u16 = 6;
    pub(in crate::nft) const GET_RULE: u16 = 7;
    pub(in crate::nft) const DELETE_RULE: u16 = 8;
    pub(in crate::nft) const NEW_SET: u16 = 9;
    pub(in crate::nft) const GET_SET: u16 = 10;
    pub(in crate::nft) const DELETE_SET: u16 = 11;
    pub(in crate::nft) const NEW_ELEMENTS: u16 = 12;
    pub(in crate::nft) const GET_ELEMENTS: u16 = 13;
    pub(in crate::nft) const DELETE_ELEMENTS: u16 = 14;
    pub(in crate::nft) const GET_GENERATION: u16 = 16;
}

/// `enum nft_set_flags`
pub(super) mod set_flag {
    pub(in crate::nft) const INTERVAL: u32 = 0x4;
    pub(in crate::nft) const MAP: u32 = 0x8;
    pub(in crate::nft) const CONCATENATION: u32 = 0x80;
}

/// `NFT_SET_ELEM_INTERVAL_END`
pub(super) const INTERVAL_END: u32 = 1;

/// nft's own numbers of data types, which only `nft list` reads; six bits each in a concatenation.
pub(super) mod data_type {
    pub(in crate::nft) const ADDRESS_V4: u32 = 7;
    pub(in crate::nft) const ADDRESS_V6: u32 = 8;
    pub(in crate::nft) const MARK: u32 = 19;
    pub(in crate::nft) const INTERFACE: u32 = 41;
    /// `NFT_DATA_VERDICT`
    pub(in crate::nft) const VERDICT: u32 = 0xffff_ff00;
}

/// `NF_*` and `NFT_*` verdicts as they are on the wire.
pub(super) mod verdict {
    pub(in crate::nft) const DROP: i32 = 0;
    pub(in crate::nft) const ACCEPT: i32 = 1;
    pub(in crate::nft) const JUMP: i32 = -3;
    pub(in crate::nft) const GOTO: i32 = -4;
    pub(in crate::nft) const RETURN: i32 = -5;
}

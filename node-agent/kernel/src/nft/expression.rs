//! Rules as the kernel's expressions, and expressions read as rules again.
//!
//! A rule is a little program over registers. What both directions know of registers and packets is here.

mod read;
mod write;

use litek8s_plan::Family;
use litek8s_plan::nft::Selector;

use super::constants::{IPV4, IPV6};

pub(super) use read::{read_rule, read_verdict};
pub(super) use write::{write_rule, write_verdict};

/// The register of verdicts.
const VERDICT_REGISTER: u32 = 0;
/// The first register of 16 bytes, the same place as [`FIRST_WORD`].
const FIRST: u32 = 1;
/// The first register of four bytes.
const FIRST_WORD: u32 = 8;

const META_MARK: u32 = 3;
const META_OUTPUT: u32 = 7;
const META_PROTOCOL: u32 = 15;
const META_TRANSPORT: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const TCP: u8 = 6;
/// `NFT_FIB_RESULT_ADDRTYPE` of `NFTA_FIB_F_SADDR`, and `RTN_LOCAL`.
const FIB_TYPE: u32 = 3;
const FIB_SOURCE: u32 = 1;
const LOCAL: u32 = 2;
/// `NFT_CT_STATE`, and the bits `NF_CT_STATE_INVALID_BIT` and `NF_CT_STATE_UNTRACKED_BIT`.
const CT_STATE: u32 = 0;
const NO_CONNECTION: u32 = 0x41;
/// The loopback interface's name as a register holds it.
const LOOPBACK: &[u8; 16] = b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// `NFT_CMP_EQ` and `NFT_CMP_NEQ`.
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// `NF_NAT_RANGE_PROTO_RANDOM_FULLY`
const FULLY_RANDOM: u32 = 0x10;

/// `NFT_REJECT_TCP_RST`, `NFT_REJECT_ICMPX_UNREACH` and `NFT_REJECT_ICMPX_ADMIN_PROHIBITED`.
const REJECT_RESET: u32 = 1;
const REJECT_ICMPX: u32 = 2;
const ICMPX_PROHIBITED: u8 = 3;

/// Where the addresses of a family are.
struct Layout {
    /// `NFPROTO_…`
    protocol: u8,
    /// The bytes of an address.
    width: u32,
    /// In the header.
    source: u32,
    destination: u32,
    /// `NFT_CT_SRC_IP…` and `NFT_CT_DST_IP…`
    original_source: u32,
    original_destination: u32,
    /// ICMP as a transport, and its message that tells another router.
    icmp: u8,
    redirect: u8,
}

const LAYOUT_V4: Layout = Layout {
    protocol: IPV4,
    width: 4,
    source: 12,
    destination: 16,
    original_source: 19,
    original_destination: 20,
    icmp: 1,
    redirect: 5,
};
const LAYOUT_V6: Layout = Layout {
    protocol: IPV6,
    width: 16,
    source: 8,
    destination: 24,
    original_source: 21,
    original_destination: 22,
    icmp: 58,
    redirect: 137,
};
const FAMILIES: [(Family, &Layout); 2] = [(Family::V4, &LAYOUT_V4), (Family::V6, &LAYOUT_V6)];

fn layout(family: Family) -> &'static Layout {
    match family {
        Family::V4 => &LAYOUT_V4,
        Family::V6 => &LAYOUT_V6,
    }
}

/// How many registers of four bytes a column takes.
fn words(selector: Selector) -> u32 {
    match selector {
        Selector::Source(family)
        | Selector::Destination(family)
        | Selector::OriginalSource(family)
        | Selector::OriginalDestination(family) => layout(family).width / 4,
        Selector::MaskedMark(_) => 1,
        Selector::OutputInterface => 4,
    }
}

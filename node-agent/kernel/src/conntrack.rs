//! Forgetting tracked connections by their addresses.
//!
//! The kernel cannot select by the addresses we need, so the list is read and what matches is deleted by its tuple.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use litek8s_plan::Flow;

use crate::KernelError;
use crate::wire::{
    Answer, Attributes, HEADER, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetfilterSocket, Writer, messages,
};

/// `NFNL_SUBSYS_CTNETLINK`
const SUBSYSTEM: u16 = 1;
const GET: u16 = 1;
const DELETE: u16 = 2;
/// `AF_UNSPEC`: of both families.
const ANY: u8 = 0;
/// `CTA_TUPLE_ORIG`, `CTA_TUPLE_REPLY`, `CTA_ID`, `CTA_ZONE`
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
const NESTED: u16 = 0x8000;

/// The addresses of one connection.
struct Tuple {
    original_source: IpAddr,
    original_destination: IpAddr,
    /// Who answers: another one than the destination where that was translated.
    reply_source: IpAddr,
    reply_destination: IpAddr,
}

/// Deletes every connection that one of `flows` selects, and says how many there were.
pub(crate) fn forget(socket: &mut NetfilterSocket, flows: &[Flow]) -> Result<usize, KernelError> {
    let mut by_address: BTreeMap<IpAddr, Vec<&Flow>> = BTreeMap::new();
    for flow in flows {
        let (Flow::Address(address) | Flow::PodSource { pod: address, .. } | Flow::Pod { pod: address, .. }) =
            flow;
        by_address.entry(*address).or_default().push(flow);
    }
    let selected = |tuple: &Tuple| {
        [tuple.original_source, tuple.original_destination, tuple.reply_destination]
            .iter()
            .filter_map(|address| by_address.get(address))
            .flatten()
            .any(|flow| selects(flow, tuple))
    };
    let mut request = Writer::default();
    request.message(SUBSYSTEM << 8 | GET, NLM_F_REQUEST | NLM_F_DUMP, 1, (ANY, 0), |_| {});
    let mut doomed = Writer::default();
    let mut count = 0;
    // A list that changes meanwhile is no matter: what is missed is new, and new connections are judged anew.
    socket.dump(&request, "connections", |message| {
        let attributes = message.attributes();
        if read_tuple(attributes).is_some_and(|tuple| selected(&tuple)) {
            count += 1;
            write_deletion(&mut doomed, message.bytes[HEADER], attributes);
        }
    })?;
    for message in messages(&doomed.bytes) {
        socket.send(message.bytes)?;
        let answer = socket.receive(true)?.unwrap_or_default();
        for answer in messages(answer).filter_map(|message| Answer::of(&message)) {
            if answer.errno != 0 && answer.errno != libc::ENOENT {
                return Err(KernelError::Refused { what: "conntrack -D".to_owned(), source: answer.error() });
            }
        }
    }
    Ok(count)
}

/// The id keeps a connection that reuses the tuple from being deleted for its predecessor.
fn write_deletion(doomed: &mut Writer, family: u8, connection: Attributes<'_>) {
    doomed.message(SUBSYSTEM << 8 | DELETE, NLM_F_REQUEST | NLM_F_ACK, 2, (family, 0), |writer| {
        for (kind, written) in [(ORIGINAL, ORIGINAL | NESTED), (ID, ID), (ZONE, ZONE)] {
            if let Some(value) = connection.get(kind) {
                writer.put(written, value);
            }
        }
    });
}

fn read_tuple(attributes: Attributes<'_>) -> Option<Tuple> {
    // `CTA_IP_V4_SRC` and `_DST` are 1 and 2, those of IPv6 are 3 and 4.
    let address = |tuple: u16, four: u16| -> Option<IpAddr> {
        let addresses = attributes.nest(tuple)?.nest(1)?;
        match addresses.get(four) {
            Some(bytes) => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
            None => Some(Ipv6Addr::from(<[u8; 16]>::try_from(addresses.get(four + 2)?).ok()?).into()),
        }
    };
    Some(Tuple {
        original_source: address(ORIGINAL, 1)?,
        original_destination: address(ORIGINAL, 2)?,
        reply_source: address(REPLY, 1)?,
        reply_destination: address(REPLY, 2)?,
    })
}

fn selects(flow: &Flow, tuple: &Tuple) -> bool {
    match flow {
        Flow::Address(address) => {
            tuple.original_destination == *address || tuple.reply_destination == *address
        }
        Flow::PodSource { pod, source } => {
            tuple.original_source == *pod && tuple.reply_destination == *source
        }
        Flow::Pod { pod, networks, except, keep } => {
            let within = |list: &[ipnet::IpNet], address| list.iter().any(|net| net.contains(address));
            tuple.original_source == *pod
                && within(networks, &tuple.original_destination)
                && !within(except, &tuple.original_destination)
                && !within(except, &tuple.reply_source)
                && !keep.contains(&tuple.reply_destination)
        }
    }
}

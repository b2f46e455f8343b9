//! The members of the cluster as bytes of our own, in log records and snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use litek8s_store::DecodeError;
use litek8s_store::codec::{Reader, Writer};
use openraft::BasicNode;

use crate::types::Membership;

const VERSION: u8 = 1;

/// The membership as bytes.
pub(crate) fn encode(membership: &Membership) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A vector takes every write.
    let _ = write(&mut Writer::new(&mut bytes), membership);
    bytes
}

fn write(to: &mut Writer<'_>, membership: &Membership) -> io::Result<()> {
    to.tag(VERSION)?;
    let configs = membership.get_joint_config();
    to.size(configs.len())?;
    for config in configs {
        to.size(config.len())?;
        config.iter().try_for_each(|id| to.number(*id))?;
    }
    to.size(membership.nodes().count())?;
    for (id, node) in membership.nodes() {
        to.number(*id)?;
        to.bytes(node.addr.as_bytes())?;
    }
    Ok(())
}

/// The membership of these bytes, all of them.
pub(crate) fn decode(bytes: Bytes) -> Result<Membership, DecodeError> {
    let from = &mut Reader::new(bytes);
    let version = from.tag()?;
    if version != VERSION {
        return Err(from.error(format!("membership version {version}")));
    }
    let mut configs = Vec::new();
    for _ in 0..from.size()? {
        let mut config = BTreeSet::new();
        for _ in 0..from.size()? {
            config.insert(from.number()?);
        }
        configs.push(config);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..from.size()? {
        let id = from.number()?;
        let addr = from.string()?.as_ref().to_owned();
        nodes.insert(id, BasicNode { addr });
    }
    from.finish()?;
    Membership::new(configs, nodes).map_err(|error| from.error(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joint_membership_with_a_learner_comes_back() {
        let membership = Membership::new(
            vec![BTreeSet::from([1]), BTreeSet::from([1, 2, 3])],
            (1..=4).map(|id| (id, BasicNode { addr: format!("n{id}") })).collect::<BTreeMap<_, _>>(),
        )
        .unwrap();
        assert_eq!(decode(encode(&membership).into()), Ok(membership));
    }

    #[test]
    fn an_empty_membership_comes_back() {
        assert_eq!(decode(encode(&Membership::default()).into()), Ok(Membership::default()));
    }
}

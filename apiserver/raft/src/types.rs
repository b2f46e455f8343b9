//! The types that openraft is run with. None of them is ever stored.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use litek8s_store::{Entry, Outcome};
use openraft::type_config::alias;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::log::Position;
use crate::snapshot::SnapshotFile;

openraft::declare_raft_types!(
    /// One leader a term, so that a term names a leadership and can fence writes.
    pub(crate) TypeConfig:
        D = Proposal,
        R = Answer,
        NodeId = u64,
        Node = openraft::BasicNode,
        LeaderId = openraft::impls::leader_id_std::LeaderId<Self::Term, Self::NodeId>,
);

pub(crate) type LogId = alias::LogIdOf<TypeConfig>;
pub(crate) type LeaderId = alias::LeaderIdOf<TypeConfig>;
pub(crate) type RaftVote = alias::VoteOf<TypeConfig>;
pub(crate) type RaftEntry = alias::EntryOf<TypeConfig>;
pub(crate) type Payload = alias::PayloadOf<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, openraft::BasicNode>;
pub(crate) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
pub(crate) type Snapshot = alias::SnapshotOf<TypeConfig, SnapshotFile>;

impl From<LogId> for Position {
    fn from(id: LogId) -> Self {
        Self { term: id.leader_id.term, index: id.index }
    }
}

impl From<Position> for LogId {
    fn from(position: Position) -> Self {
        Self { leader_id: position.term.into(), index: position.index }
    }
}

/// What is proposed to the cluster. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Proposal(pub(crate) Arc<Entry>);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proposal {:x}/{}", self.0.session, self.0.sequence)
    }
}

/// What became of an entry; nothing for those that hold no command.
#[derive(Clone, Debug)]
pub(crate) struct Answer(pub(crate) Option<Outcome>);

// openraft asks for serde, for a network that sends its types as they are. They travel in the
// same bytes as in the log.
impl Serialize for Proposal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0.encode())
    }
}

impl<'de> Deserialize<'de> for Proposal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_byte_buf(ByteVisitor(PhantomData))?;
        let entry = Entry::decode(bytes.into()).map_err(serde::de::Error::custom)?;
        Ok(Self(Arc::new(entry)))
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.as_ref().map(Outcome::encode).unwrap_or_default();
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_byte_buf(ByteVisitor(PhantomData))?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        let outcome = Outcome::decode(bytes.into()).map_err(serde::de::Error::custom)?;
        Ok(Self(Some(outcome)))
    }
}

struct ByteVisitor(PhantomData<()>);

impl<'de> Visitor<'de> for ByteVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

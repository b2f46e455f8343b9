//! The way to the other servers: there are none, so nobody can be reached.

use std::future::Future;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};

use crate::snapshot::SnapshotFile;
use crate::types::{RaftVote, Snapshot, TypeConfig};

/// A network without links.
pub(crate) struct NoNetwork;

/// A link that is down.
pub(crate) struct NoLink(u64);

impl NoLink {
    fn unreachable(&self) -> Unreachable<TypeConfig> {
        Unreachable::from_string(format!("server {} is not known", self.0))
    }
}

impl RaftNetworkFactory<TypeConfig> for NoNetwork {
    type Network = NoLink;

    async fn new_client(&mut self, target: u64, _node: &BasicNode) -> NoLink {
        NoLink(target)
    }
}

impl RaftNetworkV2<TypeConfig> for NoLink {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    async fn vote(
        &mut self,
        _rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    // The default grants every vote.
    async fn pre_vote(
        &mut self,
        _rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    async fn full_snapshot(
        &mut self,
        _vote: RaftVote,
        _snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Err(StreamingError::Unreachable(self.unreachable()))
    }
}

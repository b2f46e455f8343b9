//! Which FlowSchema a request is of, and with it which priority level. By them requests are counted, and those of exempt
//! levels always get in. Seats are of one pool (`filters::inflight`): levels have no shares of it, and nobody waits in a
//! queue.

mod keep;
mod schema;

use std::sync::{Arc, PoisonError, RwLock};

use litek8s_raft::Replica;
use litek8s_store::{GroupResource, Revision, View};
use tokio::sync::watch;

use crate::request::{RequestInfo, UserInfo};
pub(crate) use keep::keep;
use schema::Schema;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

fn schemas() -> GroupResource {
    GroupResource::new(GROUP, "flowschemas")
}

fn levels() -> GroupResource {
    GroupResource::new(GROUP, "prioritylevelconfigurations")
}

/// What a request is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The FlowSchema's name and uid.
    pub(crate) schema: (String, String),
    /// The level's name and uid.
    pub(crate) level: (String, String),
    /// Whether requests of the level always get in.
    pub(crate) exempt: bool,
}

/// The FlowSchemas as the store has them.
#[derive(Debug)]
pub struct FlowControl {
    changed: [watch::Receiver<Revision>; 2],
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The revision they were read at.
    seen: Option<Revision>,
    schemas: Arc<Vec<Schema>>,
}

impl FlowControl {
    /// Of what is in a store.
    pub fn new(replica: &Replica) -> Self {
        let changed = [replica.changes(&schemas()), replica.changes(&levels())];
        Self { changed, known: RwLock::default() }
    }

    /// What a request is of; nothing before there are FlowSchemas.
    pub(crate) fn flow_of(&self, view: &View, user: &UserInfo, info: &RequestInfo) -> Option<Arc<Flow>> {
        self.schemas(view).iter().find(|schema| schema.matches(user, info)).map(|schema| schema.flow.clone())
    }

    /// Those whose level exists, in the order in which they are asked.
    fn schemas(&self, view: &View) -> Arc<Vec<Schema>> {
        let newest = self.changed.iter().map(|changed| *changed.borrow()).max();
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if known.seen.is_some() && known.seen >= newest {
                return known.schemas.clone();
            }
        }
        let mut read: Vec<Schema> =
            view.list(&schemas(), None).filter_map(|object| Schema::of(object, view)).collect();
        read.sort_by(|a, b| (a.precedence, &a.flow.schema.0).cmp(&(b.precedence, &b.flow.schema.0)));
        let read = Arc::new(read);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Known { seen: Some(view.revision()), schemas: read.clone() };
        read
    }
}

//! What a decision says, and what is to be said of each VipGateway.

use std::collections::BTreeMap;
use std::fmt;

use litek8s_crds::VipRoute;

use crate::vip::{Note, Verdict};

/// A decision. Printed, it explains itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// What to change, in this order: what is new comes before what is old goes.
    pub actions: Vec<Action>,
    /// Events.
    pub notes: Vec<Note>,
    /// What is to be said of the VipGateways.
    pub reports: Vec<GatewayReport>,
    /// By UID of the VipGateway: the reason of `Ready` that was told.
    pub said: BTreeMap<String, String>,
}

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make a VipRoute.
    Create(Box<VipRoute>),
    /// Delete this VipRoute and no other of its name.
    Delete {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Why, in words.
        why: String,
    },
}

/// What is to be said of a VipGateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayReport {
    /// Its name.
    pub name: String,
    /// The generation that was judged.
    pub generation: i64,
    /// `Accepted`: False when no node can apply it.
    pub accepted: Verdict,
    /// `Ready`: accepted, and at least one pod leads there.
    pub ready: Verdict,
    /// `Degraded`: some node refuses it, or another gateway comes before it.
    pub degraded: Verdict,
    /// How many pods lead there.
    pub pods: i64,
    /// How many agents apply it, of all.
    pub nodes: (usize, usize),
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(route) => {
                let spec = &route.spec;
                write!(
                    formatter,
                    "create viproute {}: {} by {}/{} ({}) on {}",
                    route.metadata.name.as_deref().unwrap_or_default(),
                    spec.destination_cidr,
                    spec.pod.namespace,
                    spec.pod.name,
                    spec.pod_ip,
                    spec.node
                )
            }
            Self::Delete { name, why, .. } => write!(formatter, "delete viproute {name}: {why}"),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in &self.reports {
            writeln!(formatter, "vipgateway {}: {}", report.name, report.ready)?;
        }
        self.actions.iter().try_for_each(|action| writeln!(formatter, "{action}"))
    }
}

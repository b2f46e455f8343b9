//! What a decision says: changes with their reasons, what to tell people, and when to decide again.

use std::fmt;

use jiff::Timestamp;
use litek8s_crds::{VipAddress, VipEndpoint, VipService};

use super::memory::Memory;
use super::report::{ConfigReport, NetworkReport, ServiceReport};

/// A decision. Printed, it explains itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to change, in this order.
    pub actions: Vec<Action>,
    /// Events that do not belong to a change.
    pub notes: Vec<Note>,
    /// What is to be said of the VipConfig, when there is one.
    pub config: Option<ConfigReport>,
    /// What is to be said of the VipNetworks.
    pub networks: Vec<NetworkReport>,
    /// What is to be said of the Services.
    pub services: Vec<ServiceReport>,
    /// When to decide again though nothing changed.
    pub wake: Option<Timestamp>,
    /// What the next decision has to know.
    pub memory: Memory,
}

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Delete this VipAddress and no other of its name.
    Delete {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Why, in words.
        why: String,
        /// The finalizers to leave on it, when nobody has to wait for its node: the same node has it
        /// again, or it is dead.
        finalizers: Option<Vec<String>>,
    },
    /// Let a VipAddress that is being deleted go.
    Release {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Its other finalizers.
        finalizers: Vec<String>,
        /// Why, in words.
        why: String,
    },
    /// Make a VipAddress.
    Create {
        /// The whole object.
        address: Box<VipAddress>,
        /// The Event once it is made.
        note: Note,
    },
    /// Tell a node which of its pods may not leave without a VIP; none takes what it was told back.
    Guard {
        /// The node.
        node: String,
        /// The pods.
        pods: Vec<VipEndpoint>,
    },
    /// Set the pods that leave with a VIP.
    Map {
        /// The VipAddress's namespace.
        namespace: String,
        /// The VipAddress's name.
        name: String,
        /// The VipAddress's UID.
        uid: String,
        /// The pods.
        endpoints: Vec<VipEndpoint>,
    },
}

/// What an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A Service.
    Service(VipService, String),
    /// A VipNetwork.
    Network(String, String),
    /// A VipGateway.
    Gateway(String, String),
}

/// The reasons of Events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// A VIP got a place.
    VipAssigned,
    /// A VIP went to another node.
    VipMoved,
    /// A VIP has no place.
    VipUnplaced,
    /// A node did not say that it let go of a VIP.
    VipReleaseUnanswered,
    /// A VIP belongs to somebody else.
    VipConflict,
    /// A VipNetwork is not in force.
    NetworkDisabled,
    /// Pods lead to a VipGateway's destination again.
    GatewayReady,
    /// No pod leads to a VipGateway's destination any more.
    GatewayClosed,
    /// No node can apply a VipGateway.
    GatewayRefused,
    /// Some node refuses a VipGateway or cannot reach its pods, or it is never used.
    GatewayDegraded,
}

impl NoteKind {
    /// The Event's reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::VipAssigned => "VipAssigned",
            Self::VipMoved => "VipMoved",
            Self::VipUnplaced => "VipUnplaced",
            Self::VipReleaseUnanswered => "VipReleaseUnanswered",
            Self::VipConflict => "VipConflict",
            Self::NetworkDisabled => "NetworkDisabled",
            Self::GatewayReady => "GatewayReady",
            Self::GatewayClosed => "GatewayClosed",
            Self::GatewayRefused => "GatewayRefused",
            Self::GatewayDegraded => "GatewayDegraded",
        }
    }

    /// Whether it is bad news.
    pub fn warning(self) -> bool {
        match self {
            Self::VipAssigned | Self::VipMoved | Self::GatewayReady => false,
            Self::VipUnplaced
            | Self::VipReleaseUnanswered
            | Self::VipConflict
            | Self::NetworkDisabled
            | Self::GatewayClosed
            | Self::GatewayRefused
            | Self::GatewayDegraded => true,
        }
    }
}

/// An Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub subject: Subject,
    /// Its reason.
    pub kind: NoteKind,
    /// Its text.
    pub message: String,
}

/// The longest text of an Event, in bytes, as `events.k8s.io` has it.
const LONGEST: usize = 1024;

/// Neighbours of one subject and kind as one, as long as that fits into an Event.
pub(crate) fn together<'a>(notes: impl IntoIterator<Item = &'a Note>) -> Vec<Note> {
    let mut all: Vec<Note> = Vec::new();
    for note in notes {
        let fits = |said: &&mut Note| {
            (&said.subject, said.kind) == (&note.subject, note.kind)
                && said.message.len() + "; ".len() + note.message.len() <= LONGEST
        };
        match all.last_mut().filter(fits) {
            Some(said) => said.message = format!("{}; {}", said.message, note.message),
            None => all.push(note.clone()),
        }
    }
    all
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete { namespace, name, why, .. } => {
                write!(formatter, "delete {namespace}/{name}: {why}")
            }
            Self::Release { namespace, name, why, .. } => {
                write!(formatter, "release {namespace}/{name}: {why}")
            }
            Self::Create { address, note } => {
                let spec = &address.spec;
                let (namespace, name) = (&spec.service.namespace, address.metadata.name.as_deref());
                write!(
                    formatter,
                    "create {namespace}/{} on {}: {} mark {:#x} table {} priority {}: {}",
                    name.unwrap_or_default(),
                    spec.node,
                    spec.virtual_cidr,
                    spec.firewall_mark,
                    spec.route_table,
                    spec.routing_priority,
                    note.message
                )
            }
            Self::Guard { node, pods } => {
                write!(formatter, "guard on {node}:")?;
                pods.iter().try_for_each(|pod| write!(formatter, " {}", pod.address))
            }
            Self::Map { namespace, name, endpoints, .. } => {
                write!(formatter, "map {namespace}/{name}:")?;
                endpoints.iter().try_for_each(|endpoint| write!(formatter, " {}", endpoint.address))
            }
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(config) = &self.config {
            writeln!(formatter, "vipconfig default: {}", config.verdict)?;
        }
        for network in &self.networks {
            writeln!(formatter, "vipnetwork {}: {}", network.name, network.ready)?;
            network.warnings.iter().try_for_each(|warning| writeln!(formatter, "  {warning}"))?;
        }
        for service in &self.services {
            let key = &service.key;
            writeln!(formatter, "service {}/{}: {}", key.namespace, key.name, service.verdict)?;
            for address in &service.addresses {
                writeln!(formatter, "  {}: {}", address.text, address.explanation)?;
            }
        }
        self.actions.iter().try_for_each(|action| writeln!(formatter, "{action}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_to_one_subject_is_one_event_as_long_as_it_fits() {
        let note = |service: &str, kind, message: &str| Note {
            subject: Subject::Service(
                VipService { namespace: "shop".into(), name: service.into() },
                "u".into(),
            ),
            kind,
            message: message.to_owned(),
        };
        let (assigned, moved) = (NoteKind::VipAssigned, NoteKind::VipMoved);
        let notes = [
            note("web", assigned, "one"),
            note("web", assigned, "two"),
            note("web", moved, "three"),
            note("api", moved, "four"),
        ];
        let told: Vec<String> = together(&notes).into_iter().map(|note| note.message).collect();
        assert_eq!(told, ["one; two", "three", "four"]);
        let long = vec![note("web", assigned, &"x".repeat(400)); 5];
        let lengths: Vec<usize> = together(&long).iter().map(|note| note.message.len()).collect();
        assert_eq!(lengths, [802, 802, 400]);
    }
}

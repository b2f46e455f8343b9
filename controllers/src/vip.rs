//! Virtual IPs: which node holds which address of which Service.
//!
//! [`decide`] is pure: facts and what is remembered in, changes with their reasons out. Everything around it gathers the
//! facts and does what the decision says.

pub(crate) mod cidr;
mod facts;

mod config;
mod marks;
mod names;
mod networks;

mod claims;
mod endpoints;
mod liveness;
mod refusal;
mod release;

mod allocate;
mod board;
mod egress;
mod guard;
mod memory;
mod quota;
mod rebalance;

mod changes;
mod decide;
mod decision;
mod report;

mod caches;
mod control;
mod execute;
mod gather;
mod metrics;
mod recorder;
mod status;

#[cfg(test)]
pub(crate) mod fixture;

pub(crate) use control::run;
pub use decide::decide;
pub use decision::{Action, Decision, Note, NoteKind, Subject};
pub(crate) use execute::brief;
pub use facts::{
    AddressFact, ConfigFact, EndpointFact, Facts, NetworkFact, NodeFact, ServiceFact, Terminating,
};
pub(crate) use gather::{Objects, facts};
pub(crate) use liveness::LeaseFact;
pub use memory::Memory;
pub(crate) use metrics::VipMetrics;
pub(crate) use names::label;
pub(crate) use recorder::Recorder;
pub use refusal::Refusal;
pub use report::{AddressReport, AddressState, ConfigReport, NetworkReport, ServiceReport, Verdict};
pub(crate) use status::condition;

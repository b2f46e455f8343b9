//! Gateways: which pods lead to which destination.
//!
//! [`decide`] is pure: facts and what was said before in, VipRoutes to make and to delete, statuses and Events out.

mod facts;
mod names;

mod decide;
mod verdict;

mod caches;
mod control;
mod execute;
mod gather;
mod metrics;
mod status;

pub(crate) use control::run;
pub use decide::decide;
pub use facts::{AgentFact, Facts, GatewayFact, PodFact, RouteFact};
pub(crate) use metrics::GatewayMetrics;
pub use verdict::{Action, Decision, GatewayReport};

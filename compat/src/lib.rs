//! What tests need to drive a live cluster from outside: kubectl, the `litek8s` binary, traffic, looks at the host.

mod background;
mod binary;
mod cluster;
pub mod corpus;
mod counters;
mod host;
mod kubectl;
mod pod;

pub use background::Background;
pub use binary::litek8s;
pub use cluster::Cluster;
pub use counters::Counters;
pub use host::HostNetwork;
pub use kubectl::{Finished, Kubectl, tool};
pub use litek8s_lab::{Answerers, Observer, PATIENCE, Seen, Traffic, eventually, within};
pub use pod::Pod;

//! What tests need to drive a live cluster from outside: kubectl, the `litek8s` binary, traffic, looks at the host.

mod background;
mod binary;
mod cluster;
pub mod corpus;
mod counters;
mod host;
mod kernel_watch;
mod kubectl;
mod left;
mod pod;

pub use background::Background;
pub use binary::litek8s;
pub use cluster::Cluster;
pub use counters::Counters;
pub use host::HostNetwork;
pub use kernel_watch::KernelWatch;
pub use kubectl::{Finished, Kubectl, tool};
pub use left::{nothing_in_force, nothing_left, vips_on};
pub use litek8s_lab::{Answerers, Observer, PATIENCE, Seen, Traffic, eventually, within};
pub use pod::Pod;

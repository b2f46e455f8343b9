//! What tests need to drive a live cluster from outside: kubectl, the `litek8s` binary, traffic, looks at the host.

mod binary;
mod cluster;
mod counters;
mod host;
mod kubectl;
mod observer;
mod pod;
mod traffic;
mod wait;

pub use binary::litek8s;
pub use cluster::Cluster;
pub use counters::Counters;
pub use host::HostNetwork;
pub use kubectl::{Finished, Kubectl, tool};
pub use observer::{Answerers, Observer, Seen};
pub use pod::Pod;
pub use traffic::{Background, Traffic};
pub use wait::{PATIENCE, eventually, within};

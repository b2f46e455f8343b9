//! Throw-away clusters on one machine: every node a network namespace, with cables to cut between them.
//!
//! It knows the other processes only as command lines of the `litek8s` binary, and touches nothing of the host's own
//! network: one listening socket on 127.0.0.1 is all a cluster has there.

mod options;

mod name;
mod topology;

mod down;
mod inside;
mod network;
mod probe;
mod process;
mod progress;
mod ready;
mod start;
mod state;
mod up;

mod lab;

mod request;
mod respond;
mod status;

mod hollow;
mod observer;
mod samples;
mod traffic;
mod wait;

mod run;

pub use hollow::HollowNodes;
pub use lab::{Lab, LabOptions};
pub use name::ClusterName;
pub use observer::{Answerers, Observer, Seen};
pub use options::Options;
pub use process::{Process, Role, Running};
pub use request::{Request, request};
pub use run::run;
pub use samples::Samples;
pub use topology::{Cable, Interface, Member, Segment, Topology};
pub use traffic::Traffic;
pub use wait::{PATIENCE, eventually, within};

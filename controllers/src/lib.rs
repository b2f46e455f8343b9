//! The operator suite's controllers; each a folder with its pure decide.

mod connect;
mod definitions;
mod install;
mod lease;
mod metrics;
mod options;
mod requests;
mod run;

pub mod gateway;
pub mod inspect;
pub mod vip;

pub use connect::InProcess;
pub use metrics::ControllerMetrics;
pub use options::{Options, Settings};
pub use run::{run, run_in_process, run_with_client};

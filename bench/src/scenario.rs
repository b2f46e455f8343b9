//! What is measured, a scenario a file.

mod api;
mod definitions;
mod fanout;
mod throughput;
mod vip;

pub(crate) use api::api;
pub(crate) use vip::vip;

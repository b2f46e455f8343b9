//! What is measured, a scenario a file.

mod api;
mod fanout;
mod throughput;

pub(crate) use api::api;

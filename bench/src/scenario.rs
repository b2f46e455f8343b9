//! What is measured, a scenario a file.

mod api;
mod definitions;
mod fanout;
mod moves;
mod objects;
mod scale;
mod throughput;
mod vip;

pub(crate) use api::api;
pub(crate) use moves::moves;
pub(crate) use scale::scale;
pub(crate) use vip::vip;

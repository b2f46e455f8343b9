//! The Rust types of every custom resource, annotation and label name; never behaviour.
//!
//! The CustomResourceDefinitions in `crds/manifests/` are generated from here:
//! `cargo run -p litek8s-crds --example manifests` rewrites them, a test compares them.
//!
//! Addresses and networks are strings: the schema says what is right, and an object that slipped by it (written under an
//! older definition) is reported by its reader instead of ending every watch of its kind.

#![allow(clippy::duplicated_attributes, reason = "every printer column has a type and a priority of its own")]

mod definitions;
mod finding;
mod schema;

pub mod names;

mod gateway_on_node;
mod selector;
#[allow(unreachable_pub, reason = "the schema derive repeats the type inside a function")]
mod vip_address;
#[allow(unreachable_pub, reason = "the schema derive repeats the type inside a function")]
mod vip_config;
#[allow(unreachable_pub, reason = "the schema derive repeats the type inside a function")]
mod vip_gateway;
#[allow(unreachable_pub, reason = "the schema derive repeats the type inside a function")]
mod vip_guard;
#[allow(unreachable_pub, reason = "the schema derive repeats the type inside a function")]
mod vip_network;
#[allow(unreachable_pub, reason = "the schema derive repeats the type inside a function")]
mod vip_route;

pub use definitions::definitions;
pub use finding::Finding;
pub use gateway_on_node::GatewayOnNode;
pub use selector::{Operator, Requirement, Selector};
pub use vip_address::{
    VipAddress, VipAddressPhase, VipAddressSpec, VipAddressStatus, VipEndpoint, VipService,
};
pub use vip_config::{
    RebalanceSpec, VipConfig, VipConfigSpec, VipConfigStatus, default_stabilization_seconds,
    default_withdraw_delay_seconds,
};
pub use vip_gateway::{PodSelector, VipGateway, VipGatewaySpec, VipGatewayStatus};
pub use vip_guard::{VipGuard, VipGuardSpec};
pub use vip_network::{NodeInterface, VipNetwork, VipNetworkSpec, VipNetworkStatus};
pub use vip_route::{VipRoute, VipRoutePod, VipRouteSpec};

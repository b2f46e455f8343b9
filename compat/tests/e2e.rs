//! The whole product from outside: real kubectl, real packets, real crashes. Needs root, and `make tools` for kubectl.

#[path = "e2e/announcements.rs"]
mod announcements;
#[path = "e2e/bad_input.rs"]
mod bad_input;
#[path = "e2e/chart.rs"]
mod chart;
#[path = "e2e/chart_permissions.rs"]
mod chart_permissions;
#[path = "e2e/clients.rs"]
mod clients;
#[path = "e2e/corpus.rs"]
mod corpus;
#[path = "e2e/crash.rs"]
mod crash;
#[path = "e2e/dev_cluster.rs"]
mod dev_cluster;
#[path = "e2e/drain.rs"]
mod drain;
#[path = "e2e/durability.rs"]
mod durability;
#[path = "e2e/egress.rs"]
mod egress;
#[path = "e2e/egress_required.rs"]
mod egress_required;
#[path = "e2e/gateways.rs"]
mod gateways;
#[path = "e2e/hand_over.rs"]
mod hand_over;
#[path = "e2e/image.rs"]
mod image;
#[path = "e2e/ipv6.rs"]
mod ipv6;
#[path = "e2e/kubectl_read.rs"]
mod kubectl_read;
#[path = "e2e/kubectl_write.rs"]
mod kubectl_write;
#[path = "e2e/manifests.rs"]
mod manifests;
#[path = "e2e/node_death.rs"]
mod node_death;
#[path = "e2e/questions.rs"]
mod questions;
#[path = "e2e/reloads.rs"]
mod reloads;
#[path = "e2e/repair.rs"]
mod repair;
#[path = "e2e/scale.rs"]
mod scale;
#[path = "e2e/soak.rs"]
mod soak;
#[path = "e2e/vips.rs"]
mod vips;
#[path = "e2e/workloads.rs"]
mod workloads;

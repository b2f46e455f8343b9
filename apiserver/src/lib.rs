//! The API server: one process that speaks Kubernetes over the replicated store; never kernel, never controllers.

pub mod admission;
pub mod api;
pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod bootstrap;
mod certificates;
pub mod endpoints;
mod extensions;
pub mod filters;
pub mod health;
pub mod join;
pub mod kubeconfig;
mod lifecycle;
pub mod metrics;
pub mod options;
mod reconcile;
pub mod registry;
pub mod request;
pub mod response;
pub mod reviews;
pub mod run;
pub mod server;
pub mod service_account;
pub mod strategy;
pub mod version;
pub mod watch;

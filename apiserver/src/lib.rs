//! The API server: one process that speaks Kubernetes over the replicated store; never kernel, never controllers.

pub mod request;

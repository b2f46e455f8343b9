//! Kubernetes object machinery as pure functions: types as data, patches, apply, validation, tables; never I/O.

pub mod apply;
pub mod field;
pub mod gvk;
pub mod managed;
pub mod patch;
pub mod schema;
pub mod selector;
pub mod status;
pub mod types;

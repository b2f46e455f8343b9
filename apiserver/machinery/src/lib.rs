//! Kubernetes object machinery as pure functions: types as data, patches, apply, validation, tables; never I/O.

pub mod field;
pub mod gvk;
pub mod status;

pub mod resource;
pub mod schema;
pub mod types;

pub mod decode;
pub mod defaults;
pub mod jsonpath;
pub mod protobuf;
pub mod quantity;
pub mod validate;

pub mod discovery;
pub mod openapi;
pub mod table;

pub mod selector;

pub mod apply;
pub mod managed;
pub mod patch;

#[cfg(test)]
mod hostile;

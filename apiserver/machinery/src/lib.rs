//! Kubernetes object machinery as pure functions: types as data, patches, apply, validation, tables; never I/O.

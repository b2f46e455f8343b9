//! The Rust types of every custom resource, annotation and label name; never behaviour.

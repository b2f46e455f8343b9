//! The Kubernetes API: server, endpoints, authentication, authorization, admission and extensions.

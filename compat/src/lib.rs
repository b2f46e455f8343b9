//! Everything that runs against a live cluster.

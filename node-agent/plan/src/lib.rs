//! From objects to the desired state of a node, and the difference to what is there; never I/O.

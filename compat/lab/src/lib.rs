//! Namespaces, links and faults for throw-away clusters on one machine.

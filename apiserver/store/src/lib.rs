//! The replicated state machine: commands, revisions, objects and history; never I/O.

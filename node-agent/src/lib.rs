//! The node agent: it watches the VIPs of its node and keeps the kernel as they say.
//!
//! ```text
//! watches ─► Event ─► owner (index → plan → diff → kernel) ─► status patches ─► writer
//! kernel  ─► Event ─┘
//! ```
//! One task owns all state. Its exit leaves traffic running; [`cleanup`] is the only way anything is removed for good.

mod diff;
mod options;
mod run;

mod company;
mod connection;
mod contest;
mod credentials;
mod detect;
mod session;

pub mod streams;

mod gateways;
mod index;
mod vips;

mod boot;
mod ledger;
mod owner;
mod standing;
mod state;

mod fitness;
mod metrics;
mod neighbours;

pub use diff::diff;
pub use options::{DiffOptions, Options};
pub use run::{cleanup, run};

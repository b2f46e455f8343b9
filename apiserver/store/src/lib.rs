//! The replicated state machine: commands, revisions, objects and history; never I/O.
//!
//! [`Store::apply`] is total and deterministic: every server that applies the same entries
//! holds the same objects under the same revisions and gave the same answers.

pub mod codec;
mod command;
mod event;
mod frame;
mod history;
mod key;
mod metadata;
mod object;
mod outcome;
mod session;
mod snapshot;
mod store;
mod view;

pub use codec::DecodeError;
pub use command::{Claim, Command, Entry, Precondition};
pub use event::{Event, EventKind, Expired};
pub use history::Limits;
pub use key::{GroupResource, ObjectKey, Revision};
pub use metadata::{Meta, OwnerReference};
pub use object::Object;
pub use outcome::{Outcome, Rejection};
pub use store::Store;
pub use view::View;

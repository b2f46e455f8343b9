//! What an agent says of its node in its Lease.

use serde::{Deserialize, Serialize};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// One word for programs, as in a condition.
    pub reason: String,
    /// What it is and what to do, for people.
    pub message: String,
}

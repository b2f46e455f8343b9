//! Which mutating policies or webhooks were asked in a first round, and which see the object a second time.

use std::collections::BTreeSet;

/// What is known of one write; the members are told apart by their ids.
#[derive(Default)]
pub(super) struct Rounds {
    /// Asked so far, and willing to be asked again.
    willing: BTreeSet<String>,
    again: BTreeSet<String>,
    changed: bool,
}

impl Rounds {
    /// Whether one of them changed the object: the mutators of the server then run once more.
    pub(super) fn changed(&self) -> bool {
        self.changed
    }

    /// Whether anybody wants to see what becomes of the object.
    pub(super) fn cares(&self) -> bool {
        !self.willing.is_empty()
    }

    /// Whether this one is asked in the second round.
    pub(super) fn is_due(&self, id: &str) -> bool {
        self.again.contains(id)
    }

    /// One was asked, and changed the object or not.
    pub(super) fn note(&mut self, id: &str, changed: bool, willing: bool) {
        if changed {
            self.changed = true;
            self.repeat_all();
        }
        if willing {
            self.willing.insert(id.to_owned());
        }
    }

    /// All that are willing are asked again: the object is no longer what they saw.
    pub(super) fn repeat_all(&mut self) {
        self.again.append(&mut self.willing);
    }
}

//! The words of an apply conflict; kubectl, Helm and Flux print them, and some read them.

use std::collections::BTreeMap;

use crate::managed::{OwnerId, PathElement, path_text};
use crate::status::{Cause, Status};

/// One field that another manager owns with another value.
#[derive(Debug, Clone)]
pub(super) struct Conflict {
    pub(super) owner: OwnerId,
    pub(super) path: Vec<PathElement>,
}

pub(super) fn status(conflicts: &[Conflict]) -> Status {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.owner.text()),
        field: path_text(&conflict.path),
    });
    Status::apply_conflict(causes.collect(), message(conflicts))
}

fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            only.owner.text(),
            path_text(&only.path)
        );
    }
    let mut by_owner: BTreeMap<&OwnerId, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        by_owner.entry(&conflict.owner).or_default().push(format!("- {}", path_text(&conflict.path)));
    }
    let parts: Vec<String> = by_owner
        .into_iter()
        .flat_map(|(owner, paths)| std::iter::once(format!("conflicts with {}:", owner.text())).chain(paths))
        .collect();
    format!("Apply failed with {} conflicts: {}", conflicts.len(), parts.join("\n"))
}

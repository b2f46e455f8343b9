//! What a request asks for and who asks: parsed once by the filters, read by everything behind them; never a body.

mod info;
mod query;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use info::{RequestInfo, RequestInfoError};
pub use query::Query;

/// The user without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of every user without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of every user with credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group that authorization never asks about.
pub const MASTERS: &str = "system:masters";
/// The group of every node.
pub const NODES: &str = "system:nodes";
/// What a node's user name starts with.
pub const NODE_USER_PREFIX: &str = "system:node:";

/// Who asks, as authentication (or impersonation) found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user's name, for example `system:serviceaccount:default:web`.
    pub name: String,
    /// The uid of the user, empty when the authenticator has none.
    pub uid: String,
    /// The groups, with `system:authenticated` or `system:unauthenticated` among them.
    pub groups: Vec<String>,
    /// Further facts, by lower-case key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with these groups and nothing else.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// Whether the user is in `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The node's name when the user is a node (`system:node:NAME` in `system:nodes`).
    pub fn node_name(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_USER_PREFIX)?;
        (!name.is_empty() && self.in_group(NODES)).then_some(name)
    }
}

/// The `Warning` headers of one answer, collected by whoever has something to say.
///
/// Clones share one list. Warnings added after the answer's head went out (a watch) are lost.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

/// Characters of all warnings of an answer, after which every one of them is cut, and of each that is cut. What does not
/// fit then is left out, as by kube-apiserver: clients refuse long heads.
const MAX_WARNINGS: (usize, usize) = (4 * 1024, 256);

impl Warnings {
    /// Adds a warning once; the same text again is ignored.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (total, each) = MAX_WARNINGS;
        let full = list.iter().map(|text| text.len().min(each)).sum::<usize>() >= total;
        if !full && !list.contains(&text) {
            list.push(text);
        }
    }

    /// Takes what was collected so far, cut to what fits.
    pub fn take(&self) -> Vec<String> {
        let mut list = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (total, each) = MAX_WARNINGS;
        if list.iter().map(|text| text.chars().count()).sum::<usize>() > total {
            list.iter_mut().for_each(|text| *text = text.chars().take(each).collect());
        }
        list
    }
}

/// Facts about a request for its record in the audit log; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Annotations(Arc<Mutex<BTreeMap<String, String>>>);

impl Annotations {
    /// The most that are kept.
    const MOST: usize = 256;

    /// Adds a fact; what was said first under a key stays.
    pub fn add(&self, key: impl Into<String>, value: impl Into<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < Self::MOST {
            all.entry(key.into()).or_insert_with(|| value.into());
        }
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Everything the filters found out about one request.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// What is asked for.
    pub info: RequestInfo,
    /// Who asks.
    pub user: UserInfo,
    /// The leader's term that writes of this identity are bound to; `None` for everybody but the in-process controllers.
    pub bound_term: Option<u64>,
    /// The `Audit-Id` of the answer.
    pub audit_id: String,
    /// The warnings of the answer.
    pub warnings: Warnings,
    /// What its record in the audit log says besides.
    pub annotations: Annotations,
    /// When the request must be answered; `None` for watches, which end by their own `timeoutSeconds`.
    pub deadline: Option<tokio::time::Instant>,
}

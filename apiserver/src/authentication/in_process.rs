//! The controllers of this process: a token that is never written down and dies with the leader's term.

use std::sync::{Arc, PoisonError, RwLock};

use subtle::ConstantTimeEq;

use crate::request::{AUTHENTICATED, UserInfo};

/// The user the controllers act as.
pub const CONTROLLERS: &str = "system:litek8s:controllers";

/// The one token there is while this server leads.
#[derive(Debug, Clone, Default)]
pub struct InProcess(Arc<RwLock<Option<Current>>>);

struct Current {
    token: String,
    term: u64,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").field("term", &self.term).finish_non_exhaustive()
    }
}

/// The right to act in one term; dropping it ends the token.
pub struct TermToken {
    owner: InProcess,
    term: u64,
    token: String,
}

impl std::fmt::Debug for TermToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TermToken").field("term", &self.term).finish_non_exhaustive()
    }
}

impl TermToken {
    /// The bearer token, for the client in this process only.
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for TermToken {
    fn drop(&mut self) {
        let mut current = self.owner.0.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.token == self.token) {
            *current = None;
        }
    }
}

impl InProcess {
    /// Makes the token of a term; one of an earlier term is no longer good.
    pub fn for_term(&self, term: u64) -> TermToken {
        // Two random UUIDs: 244 random bits from the system.
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Current { token: token.clone(), term });
        TermToken { owner: self.clone(), term, token }
    }

    /// The user and term of a token, compared in constant time.
    pub(super) fn find(&self, token: &str) -> Option<(UserInfo, u64)> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let current = current.as_ref()?;
        let same = bool::from(current.token.as_bytes().ct_eq(token.as_bytes()));
        same.then(|| (UserInfo::new(CONTROLLERS, [AUTHENTICATED]), current.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_as_long_as_its_holder() {
        let in_process = InProcess::default();
        let first = in_process.for_term(3);
        assert_eq!(in_process.find(first.token()).map(|(_, term)| term), Some(3));
        assert!(in_process.find("other").is_none());
        let second = in_process.for_term(4);
        assert!(in_process.find(first.token()).is_none());
        let token = second.token().to_owned();
        drop(first);
        assert!(in_process.find(&token).is_some(), "an old one does not end the new one");
        drop(second);
        assert!(in_process.find(&token).is_none());
    }
}

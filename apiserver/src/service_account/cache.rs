//! Tokens whose signature was good, by their hash: a signature is checked once, everything else at every use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::Claims;

/// Tokens that are remembered.
const MOST: usize = 4_096;

/// SHA-256 of a token: the token itself is not kept.
type Hash = [u8; 32];

/// Claims of tokens that were signed here.
#[derive(Default)]
pub(super) struct Cache(Mutex<BTreeMap<Hash, Arc<Claims>>>);

impl Cache {
    /// The claims of a token, checked by `check` unless its signature was good before.
    pub(super) fn claims<E>(
        &self,
        token: &str,
        check: impl FnOnce() -> Result<Claims, E>,
    ) -> Result<Arc<Claims>, E> {
        let hash: Hash = Sha256::digest(token).into();
        if let Some(claims) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&hash) {
            return Ok(claims.clone());
        }
        let claims = Arc::new(check()?);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            // Cheaper than to know which is old: those in use are back after one check each.
            known.clear();
        }
        known.insert(hash, claims.clone());
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bound, ISSUER, Reference};
    use super::*;

    fn claims() -> Claims {
        let account = Reference { name: "web".into(), uid: "u".into() };
        Claims::new(("prod", account), Bound::default(), vec![ISSUER.into()], (0, 600), "id".into())
    }

    #[test]
    fn a_signature_is_checked_once_and_a_bad_one_every_time() {
        let cache = Cache::default();
        assert!(cache.claims("bad", || Err::<Claims, _>("no")).is_err());
        assert!(cache.claims("bad", || Err::<Claims, _>("no")).is_err());
        assert!(cache.claims("good", || Ok::<_, &str>(claims())).is_ok());
        assert!(cache.claims("good", || Err("asked again")).is_ok());
    }

    #[test]
    fn it_does_not_grow_beyond_its_bound() {
        let cache = Cache::default();
        for number in 0..MOST + 100 {
            let token = number.to_string();
            assert!(cache.claims(&token, || Ok::<_, ()>(claims())).is_ok());
        }
        assert_eq!(cache.0.lock().unwrap().len(), 100);
    }
}

//! Who a request comes from: a client certificate, a ServiceAccount's token, a bootstrap token or the controllers of
//! this process.

mod bootstrap_token;
mod certificate;
mod in_process;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use litek8s_store::View;

pub(crate) use bootstrap_token::find as bootstrapper;
pub use certificate::PeerCertificate;
pub use in_process::{CONTROLLERS, InProcess, TermToken};

use crate::request::UserInfo;
use crate::service_account::Issuer;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// No credentials at all.
    Anonymous,
    /// Somebody known.
    Known {
        /// Who.
        user: UserInfo,
        /// The leader's term that the identity is bound to.
        bound_term: Option<u64>,
    },
    /// Credentials that are not good; the text is for the log and holds no secret.
    Refused(String),
}

impl Caller {
    fn known(user: UserInfo) -> Self {
        Self::Known { user, bound_term: None }
    }
}

/// Finds out who asks, at `now` (Unix seconds). A good certificate goes before a token.
pub fn authenticate(
    peer: Option<&PeerCertificate>,
    headers: &HeaderMap,
    issuer: &Issuer,
    in_process: &InProcess,
    view: &View,
    now: i64,
) -> Caller {
    let mut refused = None;
    if let Some(peer) = peer {
        match peer.user(now) {
            Ok(user) => return Caller::known(user.clone()),
            Err(reason) => refused = Some(reason),
        }
    }
    match bearer(headers) {
        Some(token) => match in_process.find(token) {
            Some((user, term)) => Caller::Known { user, bound_term: Some(term) },
            None => match bootstrapper(token, view, now) {
                Some(found) => found.map_or_else(Caller::Refused, Caller::known),
                None => match issuer.verify(token, &[], view, now) {
                    Ok(verified) => Caller::known(verified.user),
                    Err(error) => Caller::Refused(error.to_string()),
                },
            },
        },
        None if headers.contains_key(AUTHORIZATION) => Caller::Refused("no bearer token".to_owned()),
        None => refused.map_or(Caller::Anonymous, Caller::Refused),
    }
}

/// The token of `Authorization: Bearer TOKEN`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

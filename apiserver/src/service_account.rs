//! Tokens of ServiceAccounts: signed here, bound to objects of the store, checked against them at every use.

mod cache;
mod claims;
mod keys;

use std::sync::Arc;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use litek8s_daemon::pki::PkiError;
use litek8s_store::{GroupResource, Object, ObjectKey, View};
use serde_json::{Value, json};

pub use claims::{Bound, Claims, KubernetesClaims, Reference};

use crate::request::{AUTHENTICATED, UserInfo};

/// The issuer of every token, as in-cluster clients expect it.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// What the user name of a ServiceAccount starts with.
pub const USER_PREFIX: &str = "system:serviceaccount:";
/// The group of all ServiceAccounts.
pub const GROUP: &str = "system:serviceaccounts";
/// Clock differences that are forgiven, seconds.
const LEEWAY: i64 = 60;
/// How long the tokens of an object are good after the end that its deletion set (`jwt.WithLeeway`), seconds.
const LEFT_AFTER_DELETION: i64 = 60;

/// A token that is not good, and why; never shown to the client beyond "Unauthorized".
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The signature, the times or the form are wrong.
    #[error("not a valid token: {0}")]
    Invalid(#[from] jsonwebtoken::errors::Error),
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not begun.
    #[error("the token is not valid yet")]
    Early,
    /// The token is for somebody else.
    #[error("the token is not for this audience")]
    Audience,
    /// What the token is bound to is gone or is another object of the same name.
    #[error("{0} of the token is gone")]
    Unbound(String),
}

/// Makes and checks tokens.
pub struct Issuer {
    encoding: EncodingKey,
    decoding: DecodingKey,
    header: Header,
    jwks: Value,
    checked: cache::Cache,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("kid", &self.header.kid).finish_non_exhaustive()
    }
}

/// A good token.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Who holds it.
    pub user: UserInfo,
    /// What it is good for: those audiences of the token that were asked for.
    pub audiences: Vec<String>,
}

impl Issuer {
    /// An issuer with the ECDSA P-256 key of a PKCS #8 PEM.
    pub fn from_pem(pem: &str) -> Result<Self, IssuerError> {
        let public = keys::public(pem)?;
        let encoding = EncodingKey::from_ec_pem(pem.as_bytes())?;
        let decoding = DecodingKey::from_ec_components(&public.x, &public.y)?;
        let mut header = Header::new(Algorithm::ES256);
        header.typ = None;
        header.kid = Some(public.kid.clone());
        let key = json!({"use": "sig", "kty": "EC", "kid": public.kid, "crv": "P-256", "alg": "ES256",
            "x": public.x, "y": public.y});
        Ok(Self {
            encoding,
            decoding,
            header,
            jwks: json!({"keys": [key]}),
            checked: cache::Cache::default(),
        })
    }

    /// The public keys, as `/openid/v1/jwks` shows them.
    pub fn jwks(&self) -> &Value {
        &self.jwks
    }

    /// The document of `/.well-known/openid-configuration`.
    pub fn discovery(&self) -> Value {
        json!({
            "issuer": ISSUER,
            "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// Signs claims.
    pub fn sign(&self, claims: &Claims) -> Result<String, TokenError> {
        Ok(jsonwebtoken::encode(&self.header, claims, &self.encoding)?)
    }

    /// Checks a token at `now` (Unix seconds) against the objects of `view`.
    ///
    /// `audiences` is for whom it must be; with none, for the API server itself.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        view: &View,
        now: i64,
    ) -> Result<Verified, TokenError> {
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["exp", "iss", "sub"]);
        // Times are compared below with the caller's clock, audiences with the caller's list.
        validation.validate_exp = false;
        validation.validate_aud = false;
        let claims = self.checked.claims(token, || {
            jsonwebtoken::decode::<Claims>(token, &self.decoding, &validation).map(|decoded| decoded.claims)
        })?;
        if now > claims.exp + LEEWAY {
            return Err(TokenError::Expired);
        }
        if now < claims.nbf - LEEWAY {
            return Err(TokenError::Early);
        }
        let own = [ISSUER.to_owned()];
        let wanted = if audiences.is_empty() { &own[..] } else { audiences };
        let audiences: Vec<String> = wanted.iter().filter(|a| claims.aud.contains(a)).cloned().collect();
        if audiences.is_empty() {
            return Err(TokenError::Audience);
        }
        check_bound(&claims, view, now)?;
        Ok(Verified { user: user_of(&claims), audiences })
    }
}

/// Why there is no issuer.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The key is of no use.
    #[error("the key of service account tokens: {0}")]
    Key(#[from] PkiError),
    /// The token library refuses the key.
    #[error("the key of service account tokens: {0}")]
    Token(#[from] jsonwebtoken::errors::Error),
    /// The key is of another kind.
    #[error("the key of service account tokens is not ECDSA P-256")]
    Kind,
}

/// Everything a token names must still be there, with the same uid, and not be at the end of its deletion.
fn check_bound(claims: &Claims, view: &View, now: i64) -> Result<(), TokenError> {
    let kubernetes = &claims.kubernetes;
    let namespace = kubernetes.namespace.as_str();
    let mut bound = vec![("serviceaccounts", namespace, &kubernetes.serviceaccount)];
    bound.extend(kubernetes.pod.as_ref().map(|pod| ("pods", namespace, pod)));
    bound.extend(kubernetes.secret.as_ref().map(|secret| ("secrets", namespace, secret)));
    // A pod's token keeps its node as a fact; only a token for the node itself ends with it.
    let alone = kubernetes.pod.is_none() && kubernetes.secret.is_none();
    bound.extend(kubernetes.node.as_ref().filter(|_| alone).map(|node| ("nodes", "", node)));
    for (resource, namespace, reference) in bound {
        let key = ObjectKey::new(GroupResource::new("", resource), namespace, &reference.name);
        let good = |object: &Arc<Object>| object.meta.uid == reference.uid && !has_ended(object, now);
        if !view.get(&key).is_some_and(good) {
            return Err(TokenError::Unbound(format!("{key}")));
        }
    }
    Ok(())
}

/// Whether an object that its finalizers hold should be gone by now.
fn has_ended(object: &Object, now: i64) -> bool {
    let Some(text) = object.meta.deletion_timestamp.as_deref() else { return false };
    let end = text.parse::<jiff::Timestamp>().map_or(i64::MIN, jiff::Timestamp::as_second);
    now > end.saturating_add(LEFT_AFTER_DELETION)
}

fn user_of(claims: &Claims) -> UserInfo {
    let kubernetes = &claims.kubernetes;
    let mut user = user(&kubernetes.namespace, &kubernetes.serviceaccount.name);
    user.uid.clone_from(&kubernetes.serviceaccount.uid);
    let mut extra = |key: &str, value: String| {
        user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    if !claims.jti.is_empty() {
        extra("credential-id", format!("JTI={}", claims.jti));
    }
    for (kind, reference) in [("pod", &kubernetes.pod), ("node", &kubernetes.node)] {
        if let Some(reference) = reference {
            extra(&format!("{kind}-name"), reference.name.clone());
            extra(&format!("{kind}-uid"), reference.uid.clone());
        }
    }
    user
}

/// The user that a ServiceAccount acts as.
pub fn user(namespace: &str, name: &str) -> UserInfo {
    let groups = [GROUP.to_owned(), format!("{GROUP}:{namespace}"), AUTHENTICATED.to_owned()];
    UserInfo::new(format!("{USER_PREFIX}{namespace}:{name}"), groups)
}

/// Opens the key file of the tokens, or makes it.
pub fn open_issuer(path: &std::path::Path) -> Result<Arc<Issuer>, IssuerError> {
    Ok(Arc::new(Issuer::from_pem(&keys::open(path)?)?))
}

#[cfg(test)]
mod tests;

//! What a token says, in the form that Kubernetes gave it.

use serde::{Deserialize, Serialize};

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// For whom the token is.
    pub aud: Vec<String>,
    /// When it ends, Unix seconds.
    pub exp: i64,
    /// When it was made, Unix seconds.
    pub iat: i64,
    /// Who made it.
    pub iss: String,
    /// Its own id.
    #[serde(default)]
    pub jti: String,
    /// What it is bound to.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: KubernetesClaims,
    /// When it begins, Unix seconds.
    pub nbf: i64,
    /// The user's name.
    pub sub: String,
}

/// What a token is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesClaims {
    /// The namespace of the ServiceAccount, the pod and the Secret.
    pub namespace: String,
    /// The node, or the node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The ServiceAccount.
    pub serviceaccount: Reference,
}

/// One object by name and uid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid: an object of the same name made later is another one.
    pub uid: String,
}

/// What else than its ServiceAccount a token shall be bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bound {
    /// The pod.
    pub pod: Option<Reference>,
    /// The Secret.
    pub secret: Option<Reference>,
    /// The node, or the node of the pod.
    pub node: Option<Reference>,
}

impl Claims {
    /// Claims for a ServiceAccount from `now` on, Unix seconds.
    pub fn new(
        (namespace, account): (&str, Reference),
        bound: Bound,
        audiences: Vec<String>,
        (now, life): (i64, i64),
        id: String,
    ) -> Self {
        Self {
            aud: audiences,
            exp: now.saturating_add(life),
            iat: now,
            iss: super::ISSUER.to_owned(),
            jti: id,
            nbf: now,
            sub: format!("{}{namespace}:{}", super::USER_PREFIX, account.name),
            kubernetes: KubernetesClaims {
                namespace: namespace.to_owned(),
                node: bound.node,
                pod: bound.pod,
                secret: bound.secret,
                serviceaccount: account,
            },
        }
    }
}

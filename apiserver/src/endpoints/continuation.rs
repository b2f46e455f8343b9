//! The `continue` token of a chunked list: opaque to clients, and never trusted when it comes back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use litek8s_machinery::status::Status;
use serde::{Deserialize, Serialize};

use crate::response::Failure;

/// What marks a token that goes on at whatever state is the newest: the list is then no picture of one moment.
const INCONSISTENT: i64 = -1;

/// Where the next chunk begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The revision all chunks are taken at; `None` goes on at the newest.
    pub(crate) revision: Option<u64>,
    /// When the first chunk was taken, in seconds since 1970; chunks of what is long past are not given out.
    pub(crate) since: i64,
    /// The namespace of the last object sent.
    pub(crate) namespace: String,
    /// The name of the last object sent.
    pub(crate) name: String,
}

/// The token's content: the shape of kube-apiserver, which tools look into although they should not.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    rv: i64,
    start: String,
    #[serde(default)]
    since: i64,
}

const VERSION: &str = "meta.k8s.io/v1";

impl Continuation {
    /// The token.
    pub(crate) fn encode(&self) -> String {
        let rv = self.revision.and_then(|r| i64::try_from(r).ok()).unwrap_or(INCONSISTENT);
        // The next key is the least one behind the last object.
        let start = if self.namespace.is_empty() {
            format!("{}\0", self.name)
        } else {
            format!("{}/{}\0", self.namespace, self.name)
        };
        let token = Token { v: VERSION.to_owned(), rv, start, since: self.since };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    /// Reads a token; anything that is not one is a bad request.
    pub(crate) fn decode(text: &str) -> Result<Self, Failure> {
        let bad = |why: &str| Status::bad_request(format!("continue key is not valid: {why}"));
        let unreadable = "it is not one that this server gave out";
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad(unreadable))?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| bad(unreadable))?;
        if token.v != VERSION {
            return Err(bad("server does not recognize this encoded version"));
        }
        if token.rv == 0 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if token.start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let last = token.start.strip_suffix('\0').unwrap_or(&token.start);
        let (namespace, name) = last.split_once('/').unwrap_or(("", last));
        Ok(Self {
            revision: u64::try_from(token.rv).ok(),
            since: token.since,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was() {
        for (revision, namespace, name) in [(Some(7), "default", "a"), (None, "", "node-1")] {
            let token =
                Continuation { revision, since: 7, namespace: namespace.to_owned(), name: name.to_owned() };
            assert_eq!(Continuation::decode(&token.encode()).ok(), Some(token));
        }
    }

    proptest::proptest! {
        #[test]
        fn a_token_of_any_text_is_read_or_refused(
            text in "[A-Za-z0-9_=%-]{0,40}",
            rv in proptest::prelude::any::<i64>(),
            start in ".{0,12}",
        ) {
            let inner = serde_json::json!({"v": VERSION, "rv": rv, "start": start}).to_string();
            for token in [text.clone(), URL_SAFE_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(inner)] {
                match Continuation::decode(&token) {
                    // No object has such a name, so that nothing is lost.
                    Ok(read) if read.name.contains('/') => {}
                    Ok(read) => proptest::prop_assert_eq!(Continuation::decode(&read.encode()).ok(), Some(read)),
                    Err(status) => proptest::prop_assert_eq!(status.code, 400),
                }
            }
        }
    }

    #[test]
    fn what_is_no_token_is_a_bad_request() {
        let other = URL_SAFE_NO_PAD.encode(r#"{"v":"v2","rv":3,"start":"a"}"#);
        let zero = URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#);
        for text in ["%%%", "e30", &other, &zero] {
            assert_eq!(Continuation::decode(text).map_err(|s| s.code), Err(400), "{text}");
        }
    }
}

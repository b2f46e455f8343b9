//! The token a machine joins with: whom it may become, and which CA it must find; `K10<hash>::<user>:<secret>`.
//!
//! Neither `Debug` nor an error ever shows the secret.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use subtle::ConstantTimeEq;

/// What every token of this format starts with.
const PREFIX: &str = "K10";
/// The length of a SHA-256 in hexadecimal digits.
const HASH_DIGITS: usize = 64;
/// Random bytes in a secret.
const SECRET_BYTES: usize = 16;

/// A join token.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    ca_hash: String,
    user: String,
    secret: String,
}

/// A text that is no join token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a join token: expected K10<64 hexadecimal digits>::<user>:<secret>")]
pub struct JoinTokenError;

impl JoinToken {
    /// A token with a fresh secret from the system's source of randomness.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate(ca_hash: &str, user: &str) -> std::io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self { ca_hash: ca_hash.to_owned(), user: user.to_owned(), secret: crate::pki::hex(&bytes) })
    }

    /// The SHA-256 of the CA certificate's DER, in lower-case hexadecimal.
    pub fn ca_hash(&self) -> &str {
        &self.ca_hash
    }

    /// Whom the bearer joins as: `server` or `node`.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The whole token, to write into a file or an `Authorization` header.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}::{}:{}", self.ca_hash, self.user, self.secret)
    }

    /// Whether `other` has the same user and secret, in a time that does not depend on where they differ.
    pub fn matches(&self, other: &Self) -> bool {
        let user = self.user.as_bytes().ct_eq(other.user.as_bytes());
        let secret = self.secret.as_bytes().ct_eq(other.secret.as_bytes());
        bool::from(user & secret)
    }
}

impl FromStr for JoinToken {
    type Err = JoinTokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.trim().strip_prefix(PREFIX).ok_or(JoinTokenError)?;
        let (hash, credentials) = rest.split_once("::").ok_or(JoinTokenError)?;
        let (user, secret) = credentials.split_once(':').ok_or(JoinTokenError)?;
        let hash_ok = hash.len() == HASH_DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit());
        let user_ok = !user.is_empty() && user.bytes().all(|b| b.is_ascii_lowercase());
        let secret_ok = !secret.is_empty() && secret.bytes().all(|b| b.is_ascii_graphic());
        if !(hash_ok && user_ok && secret_ok) {
            return Err(JoinTokenError);
        }
        Ok(Self { ca_hash: hash.to_ascii_lowercase(), user: user.to_owned(), secret: secret.to_owned() })
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_text() {
        let hash = "ab".repeat(32);
        let token = JoinToken::generate(&hash, "node").unwrap();
        let text = token.reveal();
        assert!(text.starts_with(&format!("K10{hash}::node:")));
        let read: JoinToken = format!("{text}\n").parse().unwrap();
        assert_eq!((read.ca_hash(), read.user()), (hash.as_str(), "node"));
        assert!(read.matches(&token));
        assert!(!read.matches(&JoinToken::generate(&hash, "node").unwrap()));
    }

    #[test]
    fn other_texts_are_refused() {
        let hash = "ab".repeat(32);
        let bad = [
            String::new(),
            "K10".into(),
            format!("K10{hash}"),
            format!("K10{hash}::node"),
            format!("K10{hash}::node:"),
            format!("K10{hash}:::s"),
            format!("K11{hash}::node:s"),
            format!("K10{}::node:s", "ab".repeat(31)),
            format!("K10{}::node:s", "zz".repeat(32)),
            format!("K10{hash}::node:a b"),
        ];
        for text in bad {
            assert!(text.parse::<JoinToken>().is_err(), "{text}");
        }
    }

    #[test]
    fn debug_never_shows_the_secret() {
        let token: JoinToken = format!("K10{}::node:tellnobody", "ab".repeat(32)).parse().unwrap();
        assert!(!format!("{token:?}").contains("tellnobody"));
    }
}

//! The cluster's own CA and what it signs: ECDSA P-256, PEM, private files; never a private key that arrives from outside.

mod authority;
mod certificate;
mod name;
mod request;

use std::fmt::Write;
use std::path::PathBuf;

pub use authority::{Authority, Identity, Leaf, Usage};
pub use certificate::{CertificateInfo, der_of_pem, inspect, inspect_der, renewal_due, sha256_fingerprint};
pub use request::{KeyAndRequest, key_and_request};

/// Why a certificate cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// A key or a certificate is there without the other one.
    #[error("{present} exists without {missing}; restore it from a backup or remove both")]
    Half {
        /// The file that is there.
        present: PathBuf,
        /// The file that is not.
        missing: PathBuf,
    },
    /// The key does not belong to the certificate.
    #[error("{certificate} and {key} do not belong together")]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The text is no PEM certificate.
    #[error("no certificate in PEM form")]
    NotACertificate,
    /// The certificate request is unreadable or not signed by its own key.
    #[error("the certificate request cannot be accepted: {0}")]
    Request(String),
    /// A name cannot stand in a certificate.
    #[error("{0:?} cannot stand in a certificate")]
    Name(String),
    /// The library refused.
    #[error("cannot make the certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let written = write!(text, "{byte:02x}");
        debug_assert!(written.is_ok(), "writing to a String cannot fail");
        text
    })
}

#[cfg(test)]
mod tests;

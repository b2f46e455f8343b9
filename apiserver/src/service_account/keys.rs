//! The key of the tokens: one private file, and its public half as JSON Web Keys name it.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use litek8s_daemon::files;
use litek8s_daemon::pki::PkiError;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use sha2::{Digest, Sha256};

use super::IssuerError;

/// An uncompressed point of P-256: a marker and two coordinates of 32 octets.
const POINT: usize = 1 + 2 * COORDINATE;
const COORDINATE: usize = 32;

/// The public half.
pub(super) struct PublicKey {
    pub(super) x: String,
    pub(super) y: String,
    /// The SHA-256 of the SubjectPublicKeyInfo, as kube-apiserver names its keys.
    pub(super) kid: String,
}

/// Reads the key file, or makes it with mode 0600.
pub(super) fn open(path: &Path) -> Result<String, PkiError> {
    let file = |source| PkiError::File { path: path.to_owned(), source };
    if let Some(pem) = files::read_if_exists(path).map_err(file)? {
        return Ok(pem);
    }
    let pem = KeyPair::generate()?.serialize_pem();
    files::write_private(path, pem.as_bytes()).map_err(file)?;
    Ok(pem)
}

pub(super) fn public(pem: &str) -> Result<PublicKey, IssuerError> {
    let key = KeyPair::from_pem(pem).map_err(PkiError::from)?;
    let point = key.public_key_raw();
    if key.algorithm() != &PKCS_ECDSA_P256_SHA256 || point.len() != POINT {
        return Err(IssuerError::Kind);
    }
    let (x, y) = point[1..].split_at(COORDINATE);
    Ok(PublicKey {
        x: URL_SAFE_NO_PAD.encode(x),
        y: URL_SAFE_NO_PAD.encode(y),
        kid: URL_SAFE_NO_PAD.encode(Sha256::digest(key.subject_public_key_info())),
    })
}

//! A key and the request to sign it, for a machine that joins; the key never leaves it.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::PkiError;

/// A fresh key with its certificate request, both PEM.
#[derive(Clone)]
pub struct KeyAndRequest {
    /// The private key, PKCS #8.
    pub key: String,
    /// The certificate request, signed by the key.
    pub request: String,
}

impl std::fmt::Debug for KeyAndRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyAndRequest").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Makes an ECDSA P-256 key and a request for it; the signer decides what the certificate says.
pub fn key_and_request(common_name: &str) -> Result<KeyAndRequest, PkiError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let request = params.serialize_request(&key)?.pem()?;
    Ok(KeyAndRequest { key: key.serialize_pem(), request })
}

/// Refuses a subject that rcgen's parser would panic on: a relative name without an attribute.
pub(super) fn refuse_odd_subject(pem: &str) -> Result<(), PkiError> {
    let refuse = |reason: &str| PkiError::Request(reason.to_owned());
    let (_, block) =
        x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| refuse("not in PEM form"))?;
    let (_, request) =
        X509CertificationRequest::from_der(&block.contents).map_err(|_| refuse("not a PKCS #10 request"))?;
    let mut names = request.certification_request_info.subject.iter_rdn();
    if names.any(|name| name.iter().next().is_none()) {
        return Err(refuse("an empty relative name in the subject"));
    }
    Ok(())
}

//! Reading certificates: who, what for, until when; never whether to trust them.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{PkiError, hex};

/// Characters in a line of PEM (RFC 7468).
const PEM_LINE: usize = 64;

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    /// The common name, empty when there is none.
    pub common_name: String,
    /// All organisations, in order.
    pub organizations: Vec<String>,
    /// Host names it is valid for.
    pub hostnames: Vec<String>,
    /// Addresses it is valid for.
    pub addresses: Vec<IpAddr>,
    /// Start of its life.
    pub not_before: SystemTime,
    /// End of its life.
    pub not_after: SystemTime,
    /// The SubjectPublicKeyInfo, DER.
    pub public_key: Vec<u8>,
}

/// The DER of the first certificate in a PEM text.
pub fn der_of_pem(pem: &str) -> Result<Vec<u8>, PkiError> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| PkiError::NotACertificate)?;
    Ok(der.to_vec())
}

pub(super) fn pem_of_der(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(PEM_LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = tail;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// The SHA-256 of a DER, in lower-case hexadecimal.
pub fn sha256_fingerprint(der: &[u8]) -> String {
    hex(&Sha256::digest(der))
}

/// Reads the first certificate of a PEM text.
pub fn inspect(pem: &str) -> Result<CertificateInfo, PkiError> {
    inspect_der(&der_of_pem(pem)?)
}

/// Reads a certificate.
pub fn inspect_der(der: &[u8]) -> Result<CertificateInfo, PkiError> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| PkiError::NotACertificate)?;
    let subject = certificate.subject();
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned).ok();
    let mut info = CertificateInfo {
        common_name: subject.iter_common_name().next().and_then(text).unwrap_or_default(),
        organizations: subject.iter_organization().filter_map(text).collect(),
        hostnames: Vec::new(),
        addresses: Vec::new(),
        not_before: time(certificate.validity().not_before.timestamp()),
        not_after: time(certificate.validity().not_after.timestamp()),
        public_key: certificate.public_key().raw.to_vec(),
    };
    let names = certificate.subject_alternative_name().ok().flatten();
    for name in names.iter().flat_map(|names| &names.value.general_names) {
        if let GeneralName::DNSName(hostname) = name {
            info.hostnames.push((*hostname).to_owned());
        } else if let GeneralName::IPAddress(bytes) = name {
            info.addresses.extend(address(bytes));
        }
    }
    Ok(info)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}

fn time(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
}

/// Whether two thirds of the certificate's life are over, or it is not yet valid.
pub fn renewal_due(info: &CertificateInfo, now: SystemTime) -> bool {
    let life = info.not_after.duration_since(info.not_before).unwrap_or_default();
    now < info.not_before || now >= info.not_before + life / 3 * 2
}

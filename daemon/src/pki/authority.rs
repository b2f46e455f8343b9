//! The CA: made once, kept in two files, signs servers and clients.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};

use super::certificate::{der_of_pem, pem_of_der, sha256_fingerprint};
use super::{PkiError, inspect, inspect_der, name, renewal_due, request};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::files;

/// How far `notBefore` lies in the past: machines without a battery-backed clock start late.
const BACKDATE: Duration = Duration::from_secs(24 * 60 * 60);
/// The CA's life.
const CA_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// TLS servers.
    Server,
    /// TLS clients.
    Client,
}

/// What a certificate says.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The common name: a user's name in Kubernetes.
    pub common_name: String,
    /// The organisations: a user's groups in Kubernetes.
    pub organizations: Vec<String>,
    /// Host names it is valid for.
    pub hostnames: Vec<String>,
    /// Addresses it is valid for.
    pub addresses: Vec<IpAddr>,
    /// What it is for.
    pub usage: Usage,
    /// From now to `notAfter`.
    pub life: Duration,
}

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: Vec<u8>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Authority {
    /// Opens `DIR/NAME.crt` and `DIR/NAME.key`, or makes both when neither is there.
    pub fn open(directory: &Path, file_name: &str, now: SystemTime) -> Result<Self, PkiError> {
        let certificate_path = directory.join(format!("{file_name}.crt"));
        let key_path = directory.join(format!("{file_name}.key"));
        let read = |path: &Path| {
            files::read_if_exists(path).map_err(|source| PkiError::File { path: path.to_owned(), source })
        };
        match (read(&certificate_path)?, read(&key_path)?) {
            (Some(certificate), Some(key)) => Self::from_pem(&certificate, &key)?
                .ok_or(PkiError::Mismatch { certificate: certificate_path, key: key_path }),
            (Some(_), None) => Err(PkiError::Half { present: certificate_path, missing: key_path }),
            (None, found) => {
                // A key alone is what a crash between the two writes leaves: the certificate is made for it.
                let (authority, key) = Self::create(file_name, found.as_deref(), now)?;
                let write = |path: &Path, text: &str| {
                    files::write_private(path, text.as_bytes())
                        .map_err(|source| PkiError::File { path: path.to_owned(), source })
                };
                files::private_directory(directory)
                    .map_err(|source| PkiError::File { path: directory.to_owned(), source })?;
                write(&key_path, &key)?;
                write(&certificate_path, &authority.pem)?;
                Ok(authority)
            }
        }
    }

    fn from_pem(certificate: &str, key: &str) -> Result<Option<Self>, PkiError> {
        let der = der_of_pem(certificate)?;
        let key = KeyPair::from_pem(key)?;
        if inspect_der(&der)?.public_key != key.subject_public_key_info() {
            return Ok(None);
        }
        let issuer = Issuer::from_ca_cert_pem(certificate, key)?;
        Ok(Some(Self { issuer, pem: certificate.to_owned(), der }))
    }

    fn create(common_name: &str, key: Option<&str>, now: SystemTime) -> Result<(Self, String), PkiError> {
        let key = key.map_or_else(KeyPair::generate, KeyPair::from_pem)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("litek8s-{common_name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + CA_LIFE).into();
        let certificate = params.self_signed(&key)?;
        let key_pem = key.serialize_pem();
        let (pem, der) = (certificate.pem(), certificate.der().to_vec());
        let issuer = Issuer::from_ca_cert_pem(&pem, key)?;
        Ok((Self { issuer, pem, der }, key_pem))
    }

    /// The CA's certificate, PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The CA's certificate, DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The SHA-256 of the CA's DER, in lower-case hexadecimal.
    pub fn fingerprint(&self) -> String {
        sha256_fingerprint(&self.der)
    }

    /// Whether this CA signed the certificate of a PEM text.
    pub fn signed(&self, pem: &str) -> bool {
        let Ok(der) = der_of_pem(pem) else { return false };
        let (Ok((_, own)), Ok((_, leaf))) =
            (X509Certificate::from_der(&self.der), X509Certificate::from_der(&der))
        else {
            return false;
        };
        leaf.verify_signature(Some(own.public_key())).is_ok()
    }

    /// The identity in `DIR/NAME.crt` and `DIR/NAME.key`, made anew when it is absent, is not this CA's, says something
    /// else than `leaf`, or has two thirds of its life behind it. The flag says whether it was made now.
    pub fn identity(
        &self,
        directory: &Path,
        file_name: &str,
        leaf: &Leaf,
        now: SystemTime,
    ) -> Result<(Identity, bool), PkiError> {
        let paths = [directory.join(format!("{file_name}.crt")), directory.join(format!("{file_name}.key"))];
        let [certificate_path, key_path] = &paths;
        let file = |path: &Path, source| PkiError::File { path: path.to_owned(), source };
        let read = |path: &Path| files::read_if_exists(path).map_err(|source| file(path, source));
        if let (Some(certificate), Some(key)) = (read(certificate_path)?, read(key_path)?)
            && self.still_good(&certificate, &key, leaf, now)
        {
            return Ok((Identity { certificate, key }, false));
        }
        let identity = self.issue(leaf, now)?;
        for (path, text) in [(key_path, &identity.key), (certificate_path, &identity.certificate)] {
            files::write_private(path, text.as_bytes()).map_err(|source| file(path, source))?;
        }
        Ok((identity, true))
    }

    fn still_good(&self, certificate: &str, key: &str, leaf: &Leaf, now: SystemTime) -> bool {
        let (Ok(info), Ok(key)) = (inspect(certificate), KeyPair::from_pem(key)) else { return false };
        info.common_name == leaf.common_name
            && info.organizations == leaf.organizations
            && info.hostnames == leaf.hostnames
            && info.addresses == leaf.addresses
            && info.public_key == key.subject_public_key_info()
            && !renewal_due(&info, now)
            && self.signed(certificate)
    }

    /// Makes a key and a certificate for it.
    pub fn issue(&self, leaf: &Leaf, now: SystemTime) -> Result<Identity, PkiError> {
        let key = KeyPair::generate()?;
        Ok(Identity { certificate: self.sign(leaf, &key, now)?, key: key.serialize_pem() })
    }

    /// Signs the public key of a request, which must be signed by its own key; everything else in it is ignored.
    pub fn sign_request(&self, pem: &str, leaf: &Leaf, now: SystemTime) -> Result<String, PkiError> {
        request::refuse_odd_subject(pem)?;
        let request = CertificateSigningRequestParams::from_pem(pem)
            .map_err(|error| PkiError::Request(error.to_string()))?;
        self.sign(leaf, &request.public_key, now)
    }

    fn sign(&self, leaf: &Leaf, key: &impl PublicKeyData, now: SystemTime) -> Result<String, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match leaf.usage {
            Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        for hostname in &leaf.hostnames {
            let san = hostname.as_str().try_into().map_err(|_| PkiError::Name(hostname.clone()))?;
            params.subject_alt_names.push(SanType::DnsName(san));
        }
        params.subject_alt_names.extend(leaf.addresses.iter().map(|address| SanType::IpAddress(*address)));
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + leaf.life).into();
        let certificate = params.signed_by(key, &self.issuer)?;
        let key = self.issuer.key();
        let der = name::with_subject(certificate.der(), &leaf.common_name, &leaf.organizations, key)?;
        Ok(pem_of_der(&der))
    }
}

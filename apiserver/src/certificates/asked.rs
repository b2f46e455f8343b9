//! What a PKCS #10 request asks for.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

/// The names in a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The PEM text.
    pub(super) pem: String,
    /// The common name.
    pub(super) common_name: String,
    /// The organisations.
    pub(super) organizations: Vec<String>,
    /// Host names.
    pub(super) hostnames: Vec<String>,
    /// Addresses.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether it asks for mail addresses, URIs or other names.
    pub(super) other_names: bool,
}

impl Asked {
    /// Reads `spec.request`: base64 of PEM.
    pub(super) fn read(encoded: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(encoded).map_err(|_| "must be base64".to_owned())?;
        let pem = String::from_utf8(bytes).map_err(|_| "PEM block type must be CERTIFICATE REQUEST")?;
        let block = match x509_parser::pem::parse_x509_pem(pem.as_bytes()) {
            Ok((_, block)) if block.label == "CERTIFICATE REQUEST" => block,
            _ => return Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
        };
        let (_, request) = X509CertificationRequest::from_der(&block.contents)
            .map_err(|_| "not a PKCS #10 request".to_owned())?;
        request.verify_signature().map_err(|_| "not signed by its own key".to_owned())?;
        let mut asked = Self::default();
        let subject = &request.certification_request_info.subject;
        let text = |value: &AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned).ok();
        asked.common_name = subject.iter_common_name().next().and_then(text).unwrap_or_default();
        asked.organizations = subject.iter_organization().filter_map(text).collect();
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                names.general_names.iter().for_each(|name| asked.add(name));
            }
        }
        asked.pem = pem;
        Ok(asked)
    }

    fn add(&mut self, name: &GeneralName<'_>) {
        if let GeneralName::DNSName(hostname) = name {
            self.hostnames.push((*hostname).to_owned());
        } else if let GeneralName::IPAddress(bytes) = name
            && let Some(address) = address(bytes)
        {
            self.addresses.push(address);
        } else {
            self.other_names = true;
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

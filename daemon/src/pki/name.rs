//! A subject with one common name and any number of organisations, put into a certificate that is then signed anew.
//!
//! rcgen keeps a distinguished name as a map, so a second organisation would replace the first: a user would lose groups.
//! Here the subject is encoded by hand (X.690 DER, RFC 5280 §4.1.2.4) and takes the place of the one rcgen wrote.

use rcgen::SigningKey;

use super::PkiError;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
/// OBJECT IDENTIFIER 2.5.4.3.
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
/// OBJECT IDENTIFIER 2.5.4.10.
const ORGANIZATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];
/// Where the subject stands in a version 3 TBSCertificate: version, serial, signature, issuer, validity, subject.
const SUBJECT_INDEX: usize = 5;

/// The certificate `der` with this subject, signed by `key`, which must be the key that signed `der`.
pub(super) fn with_subject(
    der: &[u8],
    common_name: &str,
    organizations: &[String],
    key: &impl SigningKey,
) -> Result<Vec<u8>, PkiError> {
    let broken = || PkiError::NotACertificate;
    let (_, certificate, _) = element(der).ok_or_else(broken)?;
    let parts = elements(certificate).ok_or_else(broken)?;
    let [tbs, algorithm, _signature] = parts.as_slice() else { return Err(broken()) };
    let (_, tbs, _) = element(tbs).ok_or_else(broken)?;
    let subject = subject(common_name, organizations);
    let fields = elements(tbs).ok_or_else(broken)?;
    if fields.len() <= SUBJECT_INDEX {
        return Err(broken());
    }
    let fields: Vec<&[u8]> = fields
        .into_iter()
        .enumerate()
        .map(|(at, field)| if at == SUBJECT_INDEX { subject.as_slice() } else { field })
        .collect();
    let tbs = encode(SEQUENCE, &fields.concat());
    let mut signature = vec![0]; // No unused bits.
    signature.extend(key.sign(&tbs)?);
    Ok(encode(SEQUENCE, &[tbs.as_slice(), algorithm, &encode(BIT_STRING, &signature)].concat()))
}

/// The RDNSequence: organisations first, then the common name, each in a set of its own.
fn subject(common_name: &str, organizations: &[String]) -> Vec<u8> {
    let organizations = organizations.iter().map(|o| attribute(&ORGANIZATION, o));
    let names: Vec<Vec<u8>> = organizations.chain([attribute(&COMMON_NAME, common_name)]).collect();
    encode(SEQUENCE, &names.concat())
}

fn attribute(kind: &[u8], value: &str) -> Vec<u8> {
    let value = encode(UTF8_STRING, value.as_bytes());
    encode(SET, &encode(SEQUENCE, &[kind, &value].concat()))
}

/// Tag, length, content.
fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let significant =
        length.iter().position(|b| *b != 0).map_or(&length[length.len() - 1..], |at| &length[at..]);
    if content.len() < 0x80 {
        out.extend(significant);
    } else {
        // At most eight octets of length, so the count fits beside the marker bit.
        out.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
        out.extend(significant);
    }
    out.extend(content);
    out
}

/// Splits one element off: the whole of it, its content, and what follows.
fn element(input: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let first = *input.get(1)?;
    let (header, length) = if first < 0x80 {
        (2, usize::from(first))
    } else {
        let octets = usize::from(first & 0x7f);
        if octets == 0 || octets > size_of::<u32>() {
            return None;
        }
        let length =
            input.get(2..2 + octets)?.iter().fold(0, |length, octet| length << 8 | usize::from(*octet));
        (2 + octets, length)
    };
    let end = header.checked_add(length)?;
    Some((input.get(..end)?, input.get(header..end)?, input.get(end..)?))
}

/// All elements side by side in `input`.
fn elements(mut input: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !input.is_empty() {
        let (whole, _, rest) = element(input)?;
        found.push(whole);
        input = rest;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_form_come_back() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 70_000] {
            let content = vec![7; length];
            let encoded = encode(SEQUENCE, &content);
            let (whole, inner, rest) = element(&encoded).unwrap();
            assert_eq!((whole.len(), inner.len(), rest.len()), (encoded.len(), length, 0));
        }
        assert!(element(&[0x30, 0x84, 0xff]).is_none());
        assert!(element(&[0x30, 0x05, 0x00]).is_none());
    }
}

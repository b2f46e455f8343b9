//! The CA against what TLS and Kubernetes need from it.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn client(organizations: &[&str]) -> Leaf {
    Leaf {
        common_name: "alice".into(),
        organizations: organizations.iter().map(|o| (*o).to_owned()).collect(),
        hostnames: vec![],
        addresses: vec![],
        usage: Usage::Client,
        life: 90 * DAY,
    }
}

/// Whether rustls accepts the certificate as a client's under this CA.
fn accepted_as_client(authority: &Authority, pem: &str) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.der().to_vec().into()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let now = rustls_pki_types::UnixTime::now();
    verifier.verify_client_cert(&der_of_pem(pem).unwrap().into(), &[], now).is_ok()
}

#[test]
fn every_organisation_is_in_the_certificate_and_its_signature_holds() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    for groups in [&[][..], &["one"], &["system:masters", "dev"], &["a", "b", "c", "d", "a"]] {
        let identity = authority.issue(&client(groups), SystemTime::now()).unwrap();
        let info = inspect(&identity.certificate).unwrap();
        assert_eq!(info.common_name, "alice");
        assert_eq!(info.organizations, groups);
        assert!(accepted_as_client(&authority, &identity.certificate), "{groups:?}");
    }
}

#[test]
fn long_names_need_long_lengths() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    let groups: Vec<String> = (0..200).map(|n| format!("system:a-rather-long-group-name-{n}")).collect();
    let leaf = Leaf { organizations: groups.clone(), ..client(&[]) };
    let identity = authority.issue(&leaf, SystemTime::now()).unwrap();
    assert_eq!(inspect(&identity.certificate).unwrap().organizations, groups);
    assert!(accepted_as_client(&authority, &identity.certificate));
}

#[test]
fn the_ca_is_made_once_and_closed_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let first = Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    let second = Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    assert_eq!(first.fingerprint(), second.fingerprint());
    assert_eq!(first.fingerprint().len(), 64);
    let mode = std::fs::metadata(directory.path().join("ca.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let identity = second.issue(&client(&[]), SystemTime::now()).unwrap();
    assert!(accepted_as_client(&first, &identity.certificate));
}

#[test]
fn a_key_without_its_certificate_is_reused_and_the_reverse_refused() {
    let directory = tempfile::tempdir().unwrap();
    Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    let key = std::fs::read(directory.path().join("ca.key")).unwrap();
    std::fs::remove_file(directory.path().join("ca.crt")).unwrap();
    Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    assert_eq!(std::fs::read(directory.path().join("ca.key")).unwrap(), key);
    std::fs::remove_file(directory.path().join("ca.key")).unwrap();
    let refused = Authority::open(directory.path(), "ca", SystemTime::now());
    assert!(matches!(refused, Err(PkiError::Half { .. })));
}

#[test]
fn a_foreign_key_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    Authority::open(other.path(), "ca", SystemTime::now()).unwrap();
    std::fs::copy(other.path().join("ca.key"), directory.path().join("ca.key")).unwrap();
    let opened = Authority::open(directory.path(), "ca", SystemTime::now());
    assert!(matches!(opened, Err(PkiError::Mismatch { .. })));
}

#[test]
fn a_request_gives_its_key_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
    let joining = key_and_request("i-would-like-to-be-admin").unwrap();
    let leaf = Leaf {
        common_name: "system:node:n1".into(),
        organizations: vec!["system:nodes".into()],
        ..client(&[])
    };
    let certificate = authority.sign_request(&joining.request, &leaf, SystemTime::now()).unwrap();
    let info = inspect(&certificate).unwrap();
    assert_eq!((info.common_name.as_str(), info.organizations.len()), ("system:node:n1", 1));
    let key = rcgen::KeyPair::from_pem(&joining.key).unwrap();
    assert_eq!(info.public_key, rcgen::PublicKeyData::subject_public_key_info(&key));
    assert!(accepted_as_client(&authority, &certificate));
    for bad in ["", "hello", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
    {
        assert!(matches!(authority.sign_request(bad, &leaf, SystemTime::now()), Err(PkiError::Request(_))));
    }
}

#[test]
fn server_names_and_the_backdated_life_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let authority = Authority::open(directory.path(), "ca", now).unwrap();
    let leaf = Leaf {
        common_name: "litek8s".into(),
        organizations: vec![],
        hostnames: vec!["kubernetes".into(), "kubernetes.default.svc".into()],
        addresses: vec!["127.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        usage: Usage::Server,
        life: 365 * DAY,
    };
    let info = inspect(&authority.issue(&leaf, now).unwrap().certificate).unwrap();
    assert_eq!(info.hostnames, leaf.hostnames);
    assert_eq!(info.addresses, leaf.addresses);
    assert!(info.not_before <= now - DAY);
    assert!(!renewal_due(&info, now));
    assert!(!renewal_due(&info, now + 240 * DAY));
    assert!(renewal_due(&info, now + 250 * DAY));
    assert!(renewal_due(&info, now - 2 * DAY), "a certificate of the future is renewed too");
}

#[test]
fn debug_never_shows_a_key() {
    let joining = key_and_request("n1").unwrap();
    assert!(!format!("{joining:?}").contains("PRIVATE KEY"));
    let identity = Identity { certificate: String::new(), key: "PRIVATE KEY".into() };
    assert!(!format!("{identity:?}").contains("PRIVATE KEY"));
}

#[test]
fn an_identity_is_kept_until_it_no_longer_fits() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let authority = Authority::open(directory.path(), "ca", now).unwrap();
    let leaf = client(&["a", "b"]);
    let open = |leaf: &Leaf, now| authority.identity(directory.path(), "alice", leaf, now).unwrap();
    assert!(open(&leaf, now).1);
    assert!(!open(&leaf, now).1);
    assert!(open(&Leaf { hostnames: vec!["h".into()], ..leaf.clone() }, now).1);
    assert!(open(&leaf, now).1);
    assert!(open(&leaf, now + 61 * DAY).1);
    let other = tempfile::tempdir().unwrap();
    let foreign = Authority::open(other.path(), "ca", now).unwrap();
    assert!(foreign.identity(directory.path(), "alice", &leaf, now).unwrap().1);
}

//! Tokens against a store of objects, and everything that makes one bad.

use bytes::Bytes;
use litek8s_store::{Command, Entry, Limits, Store};

use super::*;

const NOW: i64 = 1_800_000_000;

fn issuer() -> Issuer {
    Issuer::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap()
}

fn store(objects: &[(&str, &str, &str, &str)]) -> View {
    let mut store = Store::new(Limits::default());
    for (resource, namespace, name, uid) in objects {
        let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}});
        let key = ObjectKey::new(GroupResource::new("", resource), namespace, name);
        let command = Command::Create { key, object: Bytes::from(object.to_string()), claims: vec![] };
        store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command });
    }
    store.view()
}

fn claims(bound: Bound) -> Claims {
    let account = Reference { name: "web".into(), uid: "u1".into() };
    Claims::new(("prod", account), bound, vec![ISSUER.into(), "vault".into()], (NOW, 3600), "id-1".into())
}

fn pod(uid: &str) -> Bound {
    Bound { pod: Some(Reference { name: "web-1".into(), uid: uid.into() }), ..Bound::default() }
}

#[test]
fn a_good_token_is_its_service_account() {
    let issuer = issuer();
    let view = store(&[("serviceaccounts", "prod", "web", "u1"), ("pods", "prod", "web-1", "p1")]);
    let token = issuer.sign(&claims(pod("p1"))).unwrap();
    let user = issuer.verify(&token, &[], &view, NOW).unwrap().user;
    assert_eq!(user.name, "system:serviceaccount:prod:web");
    assert_eq!(user.uid, "u1");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:prod", "system:authenticated"]
    );
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["web-1"]);
    assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=id-1"]);
}

#[test]
fn a_token_ends_with_what_it_is_bound_to() {
    let issuer = issuer();
    let token = issuer.sign(&claims(pod("p1"))).unwrap();
    let gone = [
        store(&[("serviceaccounts", "prod", "web", "u1")]),
        store(&[("serviceaccounts", "prod", "web", "u1"), ("pods", "prod", "web-1", "p2")]),
        store(&[("serviceaccounts", "prod", "web", "u2"), ("pods", "prod", "web-1", "p1")]),
        store(&[("pods", "prod", "web-1", "p1")]),
    ];
    for view in gone {
        assert!(matches!(issuer.verify(&token, &[], &view, NOW), Err(TokenError::Unbound(_))));
    }
}

#[test]
fn a_token_outlives_the_deletion_of_its_objects_by_a_minute_whatever_holds_them() {
    let issuer = issuer();
    let token = issuer.sign(&claims(pod("p1"))).unwrap();
    let ending = |resource: &str| {
        let mut store = Store::new(Limits::default());
        for (of, name, uid) in [("serviceaccounts", "web", "u1"), ("pods", "web-1", "p1")] {
            let mut object = json!({"metadata": {"name": name, "namespace": "prod", "uid": uid}});
            if of == resource {
                let at = jiff::Timestamp::from_second(NOW).unwrap();
                object["metadata"]["deletionTimestamp"] = json!(at.to_string());
                object["metadata"]["finalizers"] = json!(["example.com/hold"]);
            }
            let key = ObjectKey::new(GroupResource::new("", of), "prod", name);
            let command = Command::Create { key, object: Bytes::from(object.to_string()), claims: vec![] };
            store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command });
        }
        store.view()
    };
    for resource in ["serviceaccounts", "pods"] {
        let view = ending(resource);
        assert!(issuer.verify(&token, &[], &view, NOW + 60).is_ok(), "{resource}");
        let late = issuer.verify(&token, &[], &view, NOW + 61);
        assert!(matches!(late, Err(TokenError::Unbound(_))), "{resource}");
    }
}

#[test]
fn times_and_audiences_are_checked() {
    let issuer = issuer();
    let view = store(&[("serviceaccounts", "prod", "web", "u1")]);
    let token = issuer.sign(&claims(Bound::default())).unwrap();
    assert!(matches!(issuer.verify(&token, &[], &view, NOW + 3_700), Err(TokenError::Expired)));
    assert!(matches!(issuer.verify(&token, &[], &view, NOW - 100), Err(TokenError::Early)));
    assert!(issuer.verify(&token, &[], &view, NOW - 30).is_ok(), "clocks differ a little");
    let asked = |audience: &str| issuer.verify(&token, &[audience.into(), "x".into()], &view, NOW);
    assert_eq!(asked("vault").unwrap().audiences, ["vault"]);
    assert!(matches!(asked("other"), Err(TokenError::Audience)));
    let mut elsewhere = claims(Bound::default());
    elsewhere.aud = vec!["vault".into()];
    let token = issuer.sign(&elsewhere).unwrap();
    assert!(matches!(issuer.verify(&token, &[], &view, NOW), Err(TokenError::Audience)));
}

#[test]
fn foreign_and_broken_tokens_are_refused() {
    let view = store(&[("serviceaccounts", "prod", "web", "u1")]);
    let token = issuer().sign(&claims(Bound::default())).unwrap();
    let issuer = issuer();
    assert!(issuer.verify(&token, &[], &view, NOW).is_err(), "another key");
    let own = issuer.sign(&claims(Bound::default())).unwrap();
    let (head, rest) = own.split_once('.').unwrap();
    let (body, _signature) = rest.split_once('.').unwrap();
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    for bad in ["", "a.b.c", &format!("{none}.{body}."), &format!("{head}.{body}."), &own[..own.len() - 2]] {
        assert!(issuer.verify(bad, &[], &view, NOW).is_err(), "{bad}");
    }
    let mut other = claims(Bound::default());
    other.iss = "https://example.org".into();
    assert!(issuer.verify(&issuer.sign(&other).unwrap(), &[], &view, NOW).is_err(), "another issuer");
}

#[test]
fn the_published_key_checks_a_token() {
    let issuer = issuer();
    let token = issuer.sign(&claims(Bound::default())).unwrap();
    let header = jsonwebtoken::decode_header(&token).unwrap();
    let key = &issuer.jwks()["keys"][0];
    assert_eq!(key["kid"].as_str(), header.kid.as_deref());
    let jwk: jsonwebtoken::jwk::Jwk = serde_json::from_value(key.clone()).unwrap();
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&["vault"]);
    validation.validate_exp = false;
    let decoding = DecodingKey::from_jwk(&jwk).unwrap();
    assert!(jsonwebtoken::decode::<Claims>(&token, &decoding, &validation).is_ok());
}

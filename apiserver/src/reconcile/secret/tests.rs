//! Tokens in Secrets.

use serde_json::{Value, json};

use super::super::kind::Kind;
use super::super::tests::World;
use super::*;

fn token(world: &mut World, account: &str) {
    let annotations = json!({NAME: account});
    world.add(Kind::Secret, "t", json!({"metadata": {"annotations": annotations}, "type": ACCOUNT}));
}

fn text(secret: &Value, key: &str) -> String {
    unbase64(secret["data"][key].as_str().unwrap()).unwrap()
}

#[test]
fn an_accounts_secret_is_filled_in_and_goes_with_it() {
    let mut world = World::new();
    world.add(Kind::ServiceAccount, "robot", json!({}));
    token(&mut world, "robot");
    world.settle();
    let secret = world.get(Kind::Secret, "t");
    assert_eq!(
        (text(&secret, "namespace").as_str(), text(&secret, "ca.crt").as_str()),
        ("default", "the CA")
    );
    assert_eq!(text(&secret, "token").split('.').count(), 3);
    assert_eq!(secret["metadata"]["annotations"][UID], "uid-robot");
    world.edit(Kind::Secret, "t", |secret| secret["data"]["ca.crt"] = json!(""));
    world.settle();
    let again = world.get(Kind::Secret, "t");
    assert_eq!((text(&again, "ca.crt").as_str(), text(&again, "token")), ("the CA", text(&secret, "token")));
    world.gone(Kind::ServiceAccount, "robot");
    world.settle();
    assert_eq!(world.find(Kind::Secret, "t"), None);
}

#[test]
fn a_secret_for_no_account_goes_at_once() {
    let mut world = World::new();
    token(&mut world, "nobody");
    world.settle();
    assert_eq!(world.find(Kind::Secret, "t"), None);
}

#[test]
fn bootstrap_tokens_go_when_they_end() {
    let mut world = World::new();
    for (name, namespace, end) in [
        ("a", "kube-system", "2024-01-01T00:01:00Z"),
        ("b", "kube-system", "never"),
        ("c", "default", "2020-01-01T00:00:00Z"),
    ] {
        let data = json!({"expiration": base64(end.as_bytes())});
        world.add(
            Kind::Secret,
            name,
            json!({"metadata": {"namespace": namespace}, "type": BOOTSTRAP.0, "data": data}),
        );
    }
    world.settle();
    assert_eq!(world.names(Kind::Secret), ["c", "a", "b"]);
    world.pass(61);
    assert_eq!(world.names(Kind::Secret), ["c", "b"]);
}

//! Bootstrap tokens: `id.secret` of a Secret in kube-system, for machines that have nothing else yet.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use litek8s_store::{GroupResource, ObjectKey, View};
use serde_json::Value;
use subtle::ConstantTimeEq;

use crate::request::{AUTHENTICATED, UserInfo};

/// The namespace of the Secrets.
const NAMESPACE: &str = "kube-system";
/// Their type.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// What the user name starts with.
const USER_PREFIX: &str = "system:bootstrap:";
/// The group of everybody with such a token; every further group has to start with it.
const GROUP: &str = "system:bootstrappers";
/// Characters of the id and of the secret.
const LENGTHS: (usize, usize) = (6, 16);

/// The id and the secret of a text that has the form of such a token.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let fits = id.len() == LENGTHS.0 && secret.len() == LENGTHS.1 && plain(id) && plain(secret);
    fits.then_some((id, secret))
}

/// Whose token this is at `now` (Unix seconds); `None` when the text has another form.
pub(crate) fn find(token: &str, view: &View, now: i64) -> Option<Result<UserInfo, String>> {
    let (id, secret) = parts(token)?;
    Some(look_up(id, secret, view, now))
}

fn look_up(id: &str, secret: &str, view: &View, now: i64) -> Result<UserInfo, String> {
    let refused = |why: &str| format!("bootstrap token {id}: {why}");
    let key = ObjectKey::new(GroupResource::new("", "secrets"), NAMESPACE, &format!("bootstrap-token-{id}"));
    let object = view.get(&key).ok_or_else(|| refused("there is none"))?;
    let stored: Value = serde_json::from_slice(&object.json).map_err(|_| refused("unreadable"))?;
    if object.meta.deletion_timestamp.is_some() || stored["type"] != TYPE {
        return Err(refused("there is none"));
    }
    let field = |name: &str| -> String {
        let bytes = STANDARD.decode(stored["data"][name].as_str().unwrap_or_default()).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    };
    let wanted = field("token-secret");
    if wanted.is_empty() || !bool::from(wanted.as_bytes().ct_eq(secret.as_bytes())) {
        return Err(refused("another secret"));
    }
    if field("token-id") != id {
        return Err(refused("another id"));
    }
    let expiration = field("expiration");
    // A time that cannot be read is over.
    if !expiration.is_empty()
        && expiration.parse::<jiff::Timestamp>().map_or(true, |end| end.as_second() <= now)
    {
        return Err(refused("expired"));
    }
    if field("usage-bootstrap-authentication") != "true" {
        return Err(refused("not for authentication"));
    }
    let mut user = UserInfo::new(format!("{USER_PREFIX}{id}"), [GROUP]);
    for group in field("auth-extra-groups").split(',').map(str::trim).filter(|group| !group.is_empty()) {
        if !is_group(group) {
            return Err(refused("a group that it may not give"));
        }
        if !user.in_group(group) {
            user.groups.push(group.to_owned());
        }
    }
    user.groups.push(AUTHENTICATED.to_owned());
    Ok(user)
}

/// `system:bootstrappers:` and letters, digits, colons and hyphens, not ending in one of the last two.
fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().last().is_some_and(plain)
        && rest.bytes().all(|b| plain(b) || matches!(b, b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use litek8s_store::{Command, Entry, Limits, Store};
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn view(kind: &str, changes: &[(&str, &str)]) -> View {
        let mut data = json!({
            "token-id": STANDARD.encode("abcdef"),
            "token-secret": STANDARD.encode("0123456789abcdef"),
            "usage-bootstrap-authentication": STANDARD.encode("true"),
        });
        for (field, value) in changes {
            data[*field] = json!(STANDARD.encode(value));
        }
        let name = "bootstrap-token-abcdef";
        let object = json!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": "u"}, "type": kind, "data": data});
        let key = ObjectKey::new(GroupResource::new("", "secrets"), NAMESPACE, name);
        let command = Command::Create { key, object: Bytes::from(object.to_string()), claims: vec![] };
        let mut store = Store::new(Limits::default());
        store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command });
        store.view()
    }

    const TOKEN: &str = "abcdef.0123456789abcdef";

    #[test]
    fn a_token_is_a_bootstrapper_with_its_groups() {
        let view = view(TYPE, &[("auth-extra-groups", "system:bootstrappers:edge,system:bootstrappers:a-b")]);
        let user = find(TOKEN, &view, NOW).unwrap().unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(
            user.groups,
            ["system:bootstrappers", "system:bootstrappers:edge", "system:bootstrappers:a-b", AUTHENTICATED]
        );
    }

    #[test]
    fn everything_that_makes_a_token_bad() {
        let bad = |kind: &str, changes: &[(&str, &str)], token: &str| {
            find(token, &view(kind, changes), NOW).unwrap().is_err()
        };
        assert!(bad(TYPE, &[], "abcdef.0123456789abcdee"), "another secret");
        assert!(bad(TYPE, &[], "abcdeg.0123456789abcdef"), "no Secret");
        assert!(bad("Opaque", &[], TOKEN), "another type");
        assert!(bad(TYPE, &[("token-id", "aaaaaa")], TOKEN), "another id");
        assert!(bad(TYPE, &[("token-secret", "")], TOKEN), "no secret");
        assert!(bad(TYPE, &[("expiration", "2020-01-01T00:00:00Z")], TOKEN), "expired");
        assert!(bad(TYPE, &[("expiration", "soon")], TOKEN), "unreadable time");
        assert!(bad(TYPE, &[("usage-bootstrap-authentication", "false")], TOKEN), "another use");
        assert!(bad(TYPE, &[("auth-extra-groups", "system:masters")], TOKEN), "a group of others");
        assert!(!bad(TYPE, &[("expiration", "2099-01-01T00:00:00Z")], TOKEN));
        assert!(find("eyJhbGciOi.x.y", &view(TYPE, &[]), NOW).is_none(), "another form");
    }
}

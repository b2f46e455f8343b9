//! Acting as somebody else: the `Impersonate-*` headers, each of them authorized first.

use http::{HeaderMap, HeaderValue};
use litek8s_machinery::status::Status;
use litek8s_store::View;

use crate::authorization::{Attributes, Authorizer};
use crate::request::{ANONYMOUS, AUTHENTICATED, Query, UNAUTHENTICATED, UserInfo};
use crate::service_account;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// Whom the request wants to act as, if `user` may; `None` when it does not ask.
///
/// # Errors
/// 403 when one of the asked-for names is not allowed, 400 when a user is missing or a name is not UTF-8.
pub(super) fn apply(
    authorizer: &Authorizer,
    view: &View,
    user: &UserInfo,
    headers: &HeaderMap,
) -> Result<Option<UserInfo>, Status> {
    let Some(wanted) = asked_for(headers)? else { return Ok(None) };
    let check = |namespace: &str, group: &str, resource: &str, subresource: &str, name: &str| {
        let attributes = Attributes {
            verb: "impersonate",
            namespace,
            group,
            resource,
            subresource,
            name,
            is_resource: true,
            ..Attributes::default()
        };
        authorizer.demand(user, &attributes, view)
    };
    match account(&wanted.name) {
        Some((namespace, name)) => check(namespace, "", "serviceaccounts", "", name)?,
        None => check("", "", "users", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        check("", "", "groups", "", group)?;
    }
    if !wanted.uid.is_empty() {
        check("", AUTHENTICATION_GROUP, "uids", "", &wanted.uid)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            check("", AUTHENTICATION_GROUP, "userextras", key, value)?;
        }
    }
    Ok(Some(completed(wanted)))
}

fn asked_for(headers: &HeaderMap) -> Result<Option<UserInfo>, Status> {
    let first = |name: &str| headers.get(name).map_or(Ok(String::new()), |value| text(name, value));
    let mut wanted = UserInfo { name: first(USER)?, uid: first(UID)?, ..UserInfo::default() };
    let mut asks = headers.contains_key(USER) || headers.contains_key(UID);
    for (name, value) in headers {
        if name.as_str() == GROUP {
            asks = true;
            wanted.groups.push(text(GROUP, value)?);
        } else if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            // Keys are percent-encoded, because a header's name holds less than a key may.
            let key =
                Query::parse(Some(&key.replace('+', "%2b"))).iter().next().map(|(key, _)| key.to_owned());
            asks = true;
            let values = wanted.extra.entry(key.unwrap_or_default()).or_default();
            values.push(text(name.as_str(), value)?);
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if !asks {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {:?} without impersonating a user",
        wanted.groups.first().unwrap_or(&wanted.uid)
    )))
}

/// The text of a header. One that cannot be read is no reason to act as the caller itself.
fn text(name: &str, value: &HeaderValue) -> Result<String, Status> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| Status::bad_request(format!("the header {name} is not UTF-8")))
}

/// The groups that nobody has to ask for.
fn completed(mut user: UserInfo) -> UserInfo {
    if user.groups.is_empty()
        && let Some((namespace, name)) = account(&user.name)
    {
        user.groups = service_account::user(namespace, name).groups;
    }
    let implied = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.in_group(AUTHENTICATED) && !user.in_group(UNAUTHENTICATED) {
        user.groups.push(implied.to_owned());
    }
    user
}

/// Namespace and name of a ServiceAccount's user name.
fn account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(service_account::USER_PREFIX)?
        .split_once(':')
        .filter(|(ns, name)| !ns.is_empty() && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn headers_name_a_user_with_groups_and_extra() {
        let asked = headers(&[
            (USER, "bob"),
            (GROUP, "dev"),
            (GROUP, "ops"),
            ("impersonate-extra-example.org%2fscope", "a"),
        ]);
        let wanted = completed(asked_for(&asked).unwrap().unwrap());
        assert_eq!(wanted.groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!(wanted.extra["example.org/scope"], ["a"]);
        assert!(asked_for(&headers(&[])).unwrap().is_none());
        assert_eq!(asked_for(&headers(&[(GROUP, "dev")])).unwrap_err().code, 400);
    }

    #[test]
    fn a_header_that_is_there_is_never_taken_for_none() {
        let asked = |name: &'static str, value: &[u8]| {
            let mut map = headers(&[]);
            map.append(name, http::HeaderValue::from_bytes(value).unwrap());
            asked_for(&map)
        };
        assert_eq!(asked(USER, "rené".as_bytes()).unwrap().unwrap().name, "rené");
        for (name, value) in [(USER, &b"ren\xe9"[..]), (GROUP, b"\xff"), (UID, b"\xff"), (USER, b"")] {
            assert_eq!(asked(name, value).unwrap_err().code, 400, "{name} {value:?}");
        }
        assert_eq!(asked("impersonate-extra-scope", b"\xff").unwrap_err().code, 400);
    }

    #[test]
    fn a_service_account_gets_its_groups() {
        let user = completed(UserInfo::new("system:serviceaccount:prod:web", Vec::<String>::new()));
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:prod", AUTHENTICATED]);
    }
}

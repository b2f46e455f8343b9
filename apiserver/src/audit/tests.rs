//! Rules against requests, and the file that lines go to.

use http::{Method, Uri};

use super::log::Writer;
use super::policy::{Level, Policy, Stage};
use crate::request::{RequestInfo, UserInfo};

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: p}
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:probe"]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Request
  resources: [{group: "", resources: ["secrets"], resourceNames: ["shown"]}]
- level: Metadata
  verbs: [get, list, watch]
  omitStages: [ResponseStarted]
- level: Request
  namespaces: [kube-system]
- level: RequestResponse
  resources: [{group: apps}, {group: "", resources: ["pods/*", "*/scale"]}]
- level: Request
  userGroups: [people]
"#;

fn level(user: &UserInfo, method: &Method, path: &'static str) -> Level {
    let info = RequestInfo::parse(method, &Uri::from_static(path)).unwrap();
    Policy::parse(POLICY).unwrap().judge(user, &info).level
}

#[test]
fn the_first_rule_that_fits_says_how_much() {
    let jane = UserInfo::new("jane", ["people"]);
    let joe = UserInfo::new("joe", ["others"]);
    let cases = [
        (&jane, Method::GET, "/healthz/ping", Level::None),
        (&jane, Method::GET, "/version", Level::None),
        (&jane, Method::GET, "/api/v1/pods", Level::Metadata),
        (&jane, Method::POST, "/api/v1/namespaces/kube-system/configmaps", Level::Request),
        (&joe, Method::POST, "/apis/apps/v1/namespaces/a/deployments", Level::RequestResponse),
        (&joe, Method::POST, "/api/v1/namespaces/a/pods/p/eviction", Level::RequestResponse),
        (&joe, Method::PUT, "/api/v1/namespaces/a/replicationcontrollers/r/scale", Level::RequestResponse),
        (&joe, Method::POST, "/api/v1/namespaces/a/pods", Level::None),
        (&jane, Method::POST, "/api/v1/namespaces/a/pods", Level::Request),
        (&UserInfo::new("system:probe", ["people"]), Method::POST, "/api/v1/namespaces/a/pods", Level::None),
    ];
    for (user, method, path, expected) in cases {
        assert_eq!(level(user, &method, path), expected, "{} {method} {path}", user.name);
    }
}

#[test]
fn a_secret_is_written_down_only_by_a_rule_that_names_secrets() {
    let jane = UserInfo::new("jane", ["people"]);
    let cases = [
        (Method::POST, "/api/v1/namespaces/a/secrets", Level::Metadata),
        (Method::POST, "/api/v1/namespaces/kube-system/secrets", Level::Metadata),
        (Method::POST, "/api/v1/namespaces/a/serviceaccounts/s/token", Level::Metadata),
        (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", Level::Metadata),
        (Method::PUT, "/api/v1/namespaces/a/secrets/shown", Level::Request),
    ];
    for (method, path, expected) in cases {
        assert_eq!(level(&jane, &method, path), expected, "{method} {path}");
    }
}

#[test]
fn stages_are_left_out_by_the_policy_and_by_the_rule() {
    let info = RequestInfo::parse(&Method::GET, &Uri::from_static("/api/v1/pods?watch=1")).unwrap();
    let verdict = Policy::parse(POLICY).unwrap().judge(&UserInfo::new("jane", ["people"]), &info);
    assert_eq!(verdict.omit_stages, [Stage::RequestReceived, Stage::ResponseStarted]);
}

#[test]
fn a_policy_that_is_none_is_refused() {
    for text in [
        "kind: Policy\napiVersion: v1\nrules: [{level: None}]",
        "kind: Policy\napiVersion: audit.k8s.io/v1",
        "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: Everything}]",
        "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: None, user: [a]}]",
        "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: None, namespaces: [a], nonResourceURLs: [/a]}]",
    ] {
        assert!(Policy::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_full_file_makes_room_and_the_oldest_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    std::fs::write(directory.path().join("audit-notes.log"), "mine").unwrap();
    let mut writer = Writer::open(path.clone(), 25, 2).unwrap();
    for number in 0..10 {
        writer.write(format!("line {number:04}\n").as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let mut names: Vec<String> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.contains(&"audit-notes.log".to_owned()), "what is not ours stays");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 0008\nline 0009\n");
    // A server that starts again goes on where it was.
    Writer::open(path.clone(), 100, 2).unwrap().write(b"line 0010\n").unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("line 0009\nline 0010\n"));
    // Nor does it lose a line when the file is taken away, or its directory.
    let mut writer = Writer::open(path.clone(), 25, 2).unwrap();
    std::fs::remove_file(&path).unwrap();
    writer.write(b"line 0011\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 0011\n");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_rotation_that_fails_costs_no_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let mut writer = Writer::open(path.clone(), 15, 1).unwrap();
    writer.write(b"line 0000\n").unwrap();
    // A backup that cannot be removed: the first one is in the way of every clean-up.
    std::fs::create_dir(directory.path().join("audit-2000-01-01T00-00-00.000000.log")).unwrap();
    for number in 1..4 {
        writer.write(format!("line {number:04}\n").as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 0003\n");
}

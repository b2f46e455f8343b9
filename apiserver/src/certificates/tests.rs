//! Requests against a CA in a temporary directory and a store of roles.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use litek8s_daemon::pki::{Authority, inspect};
use litek8s_store::{Command, Entry, GroupResource, Limits, ObjectKey, Store};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use super::decide::{Facts, Step, decide};
use super::{APPROVED, has_condition};
use crate::authorization::Authorizer;

struct Cluster {
    store: Store,
    authorizer: Authorizer,
    authority: Authority,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// A cluster in which bootstrappers may have node certificates.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::open(directory.path(), "ca", SystemTime::now()).unwrap();
        let mut store = Store::new(Limits::default());
        let rbac = "rbac.authorization.k8s.io";
        let rules = json!([{"verbs": ["create"], "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests/nodeclient"]}]);
        let objects = [
            ("clusterroles", json!({"metadata": {"name": "n", "uid": "1"}, "rules": rules})),
            (
                "clusterrolebindings",
                json!({"metadata": {"name": "n", "uid": "2"},
                    "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "n"},
                    "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "system:bootstrappers"}]}),
            ),
        ];
        for (resource, object) in objects {
            let key = ObjectKey::new(GroupResource::new(rbac, resource), "", "n");
            let command = Command::Create { key, object: Bytes::from(object.to_string()), claims: vec![] };
            store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command });
        }
        Self { store, authorizer: Authorizer::default(), authority, _directory: directory }
    }

    fn decide_at(&self, request: &Value, now: Timestamp) -> Step {
        let view = self.store.view();
        let facts = Facts { view: &view, authorizer: &self.authorizer, authority: &self.authority, now };
        decide(request, &facts)
    }

    fn decide(&self, request: &Value) -> Step {
        self.decide_at(request, Timestamp::now())
    }
}

fn pkcs10(common_name: &str, organization: &str, names: &[&str]) -> String {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.distinguished_name.push(DnType::OrganizationName, organization);
    STANDARD.encode(params.serialize_request(&key).unwrap().pem().unwrap())
}

fn request(signer: &str, user: (&str, &str), encoded: &str, usages: &[&str]) -> Value {
    json!({
        "metadata": {"name": "r", "creationTimestamp": Timestamp::now().to_string()},
        "spec": {"signerName": signer, "username": user.0, "groups": [user.1], "request": encoded, "usages": usages},
    })
}

const NODE: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const BOOTSTRAPPER: (&str, &str) = ("system:bootstrap:abcdef", "system:bootstrappers");
const CLIENT_USAGES: [&str; 2] = ["digital signature", "client auth"];

fn changed(step: Step) -> Value {
    match step {
        Step::Change(request) => request,
        other @ (Step::Remove | Step::Wait(_)) => panic!("{other:?}"),
    }
}

#[test]
fn a_bootstrapper_gets_a_nodes_certificate() {
    let cluster = Cluster::new();
    let encoded = pkcs10("system:node:n1", "system:nodes", &[]);
    let approved = changed(cluster.decide(&request(NODE, BOOTSTRAPPER, &encoded, &CLIENT_USAGES)));
    assert_eq!(approved["status"]["conditions"][0]["reason"], "AutoApproved");
    let signed = changed(cluster.decide(&approved));
    let pem = STANDARD.decode(signed["status"]["certificate"].as_str().unwrap()).unwrap();
    let info = inspect(std::str::from_utf8(&pem).unwrap()).unwrap();
    assert_eq!(
        (info.common_name.as_str(), &info.organizations[..]),
        ("system:node:n1", &["system:nodes".to_owned()][..])
    );
    assert!(matches!(cluster.decide(&signed), Step::Wait(_)));
    let later = Timestamp::now() + jiff::SignedDuration::from_mins(61);
    assert_eq!(cluster.decide_at(&signed, later), Step::Remove);
}

#[test]
fn nothing_else_is_approved_by_itself() {
    let cluster = Cluster::new();
    let node = pkcs10("system:node:n1", "system:nodes", &[]);
    let cases = [
        ("a stranger", request(NODE, ("jane", "dev"), &node, &CLIENT_USAGES)),
        (
            "another group",
            request(NODE, BOOTSTRAPPER, &pkcs10("system:node:n1", "system:masters", &[]), &CLIENT_USAGES),
        ),
        ("another name", request(NODE, BOOTSTRAPPER, &pkcs10("jane", "system:nodes", &[]), &CLIENT_USAGES)),
        (
            "no node's name",
            request(NODE, BOOTSTRAPPER, &pkcs10("system:node:", "system:nodes", &[]), &CLIENT_USAGES),
        ),
        (
            "host names",
            request(
                NODE,
                BOOTSTRAPPER,
                &pkcs10("system:node:n1", "system:nodes", &["a.example"]),
                &CLIENT_USAGES,
            ),
        ),
        (
            "server use",
            request(NODE, BOOTSTRAPPER, &node, &["digital signature", "client auth", "server auth"]),
        ),
        ("a client", request("kubernetes.io/kube-apiserver-client", BOOTSTRAPPER, &node, &CLIENT_USAGES)),
        ("somebody's signer", request("example.com/signer", BOOTSTRAPPER, &node, &CLIENT_USAGES)),
    ];
    for (what, request) in cases {
        let step = cluster.decide(&request);
        assert!(matches!(step, Step::Wait(_)), "{what}: {step:?}");
    }
}

#[test]
fn a_serving_certificate_has_the_names_that_were_asked_for() {
    let cluster = Cluster::new();
    let usages = ["digital signature", "key encipherment", "server auth"];
    let with = |encoded: &str| {
        let mut request =
            request("kubernetes.io/kubelet-serving", ("system:node:n1", "system:nodes"), encoded, &usages);
        request["status"]["conditions"] = json!([{"type": APPROVED, "status": "True"}]);
        changed(cluster.decide(&request))
    };
    let signed = with(&pkcs10("system:node:n1", "system:nodes", &["n1.example", "192.0.2.1"]));
    let pem = STANDARD.decode(signed["status"]["certificate"].as_str().unwrap()).unwrap();
    let info = inspect(std::str::from_utf8(&pem).unwrap()).unwrap();
    assert_eq!(
        (info.hostnames, info.addresses),
        (vec!["n1.example".to_owned()], vec!["192.0.2.1".parse().unwrap()])
    );
    let failed = with(&pkcs10("system:node:n1", "system:nodes", &[]));
    assert!(has_condition(&failed, "Failed") && failed["status"]["certificate"].is_null());
    assert_eq!(failed["status"]["conditions"][1]["reason"], "SignerValidationFailure");
}

#[test]
fn a_forgotten_request_goes_after_a_day() {
    let cluster = Cluster::new();
    let waiting = request("example.com/signer", ("jane", "dev"), &pkcs10("jane", "dev", &[]), &CLIENT_USAGES);
    let after =
        |hours| cluster.decide_at(&waiting, Timestamp::now() + jiff::SignedDuration::from_hours(hours));
    assert!(matches!(after(23), Step::Wait(_)));
    assert_eq!(after(25), Step::Remove);
}

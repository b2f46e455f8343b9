//! Decisions over a store of roles and bindings, and what may be written into it by whom.

use bytes::Bytes;
use litek8s_store::{Command, Entry, GroupResource as StoreResource, Limits, ObjectKey, Precondition, Store};
use serde_json::{Value, json};

use super::*;
use crate::request::{AUTHENTICATED, NODES};

struct Cluster {
    store: Store,
    authorizer: Authorizer,
}

impl Cluster {
    fn new() -> Self {
        Self { store: Store::new(Limits::default()), authorizer: Authorizer::default() }
    }

    fn apply(&mut self, command: Command) {
        self.store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command });
    }

    fn put(&mut self, group: &str, resource: &str, object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey::new(StoreResource::new(group, resource), &text("namespace"), &text("name"));
        let object = Bytes::from(object.to_string());
        let command = match self.store.view().get(&key) {
            None => Command::Create { key, object, claims: vec![] },
            Some(_) => Command::Update { key, object, precondition: Precondition::default(), claims: vec![] },
        };
        self.apply(command);
    }

    fn delete(&mut self, resource: &str, name: &str) {
        let key = ObjectKey::new(StoreResource::new(RBAC_GROUP, resource), "", name);
        self.apply(Command::Delete { key, precondition: Precondition::default() });
    }

    fn role(&mut self, name: &str, rules: Value) {
        self.put(RBAC_GROUP, "clusterroles", json!({"metadata": {"name": name}, "rules": rules}));
    }

    fn bind(&mut self, name: &str, role: &str, subject: Value) {
        let role = json!({"kind": "ClusterRole", "name": role});
        self.put(
            RBAC_GROUP,
            "clusterrolebindings",
            json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}),
        );
    }

    fn may(&self, user: &UserInfo, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let (group, resource) = resource.split_once('/').unwrap_or(("", resource));
        let (resource, subresource) = resource.split_once(':').unwrap_or((resource, ""));
        let wanted =
            Attributes { verb, namespace, group, resource, subresource, name, path: "", is_resource: true };
        self.authorizer.authorize(user, &wanted, &self.store.view()).allowed()
    }

    fn check(&self, user: &UserInfo, kind: &str, old: Option<&Value>, new: &Value) -> Result<(), Status> {
        self.authorizer.check_escalation(user, &self.store.view(), kind, old, new)
    }
}

fn alice() -> UserInfo {
    UserInfo::new("alice", ["dev", AUTHENTICATED])
}

fn read_pods() -> Value {
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}])
}

#[test]
fn nothing_is_allowed_until_it_is_granted_and_again_after_it_is_taken() {
    let mut cluster = Cluster::new();
    assert!(!cluster.may(&alice(), "get", "pods", "a", "x"));
    cluster.role("reader", read_pods());
    cluster.bind("b", "reader", json!({"kind": "Group", "name": "dev"}));
    assert!(cluster.may(&alice(), "get", "pods", "a", "x"));
    assert!(cluster.may(&alice(), "list", "pods", "", ""));
    assert!(!cluster.may(&alice(), "delete", "pods", "a", "x"));
    assert!(!cluster.may(&alice(), "get", "pods:status", "a", "x"));
    cluster.role("reader", json!([]));
    assert!(!cluster.may(&alice(), "get", "pods", "a", "x"));
    cluster.role("reader", read_pods());
    assert!(cluster.may(&alice(), "get", "pods", "a", "x"));
    cluster.bind("b", "reader", json!({"kind": "User", "name": "bob"}));
    assert!(!cluster.may(&alice(), "get", "pods", "a", "x"));
    assert!(cluster.may(&UserInfo::new("bob", [AUTHENTICATED]), "get", "pods", "a", "x"));
    cluster.delete("clusterrolebindings", "b");
    assert!(!cluster.may(&UserInfo::new("bob", [AUTHENTICATED]), "get", "pods", "a", "x"));
}

#[test]
fn a_role_binding_grants_in_its_namespace_only() {
    let mut cluster = Cluster::new();
    cluster.role("reader", read_pods());
    let binding = json!({"metadata": {"name": "b", "namespace": "a"},
        "roleRef": {"kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "web"}, {"kind": "User", "name": "alice"}]});
    cluster.put(RBAC_GROUP, "rolebindings", binding);
    assert!(cluster.may(&alice(), "get", "pods", "a", "x"));
    assert!(!cluster.may(&alice(), "get", "pods", "b", "x"));
    assert!(!cluster.may(&alice(), "list", "pods", "", ""));
    let account = crate::service_account::user("a", "web");
    assert!(cluster.may(&account, "get", "pods", "a", "x"), "the namespace of the binding is the account's");
    assert!(!cluster.may(&crate::service_account::user("b", "web"), "get", "pods", "a", "x"));
}

#[test]
fn an_index_that_fell_behind_the_history_starts_over() {
    let mut cluster = Cluster::new();
    cluster.role("reader", read_pods());
    assert!(!cluster.may(&alice(), "get", "pods", "a", "x"));
    cluster.bind("b", "reader", json!({"kind": "User", "name": "alice"}));
    for n in 0..5_000 {
        cluster.put("", "configmaps", json!({"metadata": {"name": format!("c{n}"), "namespace": "a"}}));
    }
    assert!(cluster.may(&alice(), "get", "pods", "a", "x"));
}

#[test]
fn masters_may_everything_and_a_denial_speaks_upstreams_words() {
    let cluster = Cluster::new();
    assert!(cluster.may(&UserInfo::new("root", [MASTERS]), "delete", "nodes", "", "n1"));
    let wanted = Attributes {
        verb: "list",
        resource: "pods",
        namespace: "a",
        is_resource: true,
        ..Attributes::default()
    };
    assert_eq!(
        Authorizer::forbidden(&alice(), &wanted, "").message,
        r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "a""#
    );
    let wanted = Attributes { verb: "get", path: "/metrics", ..Attributes::default() };
    assert_eq!(
        Authorizer::forbidden(&alice(), &wanted, "").message,
        r#"forbidden: User "alice" cannot get path "/metrics""#
    );
}

#[test]
fn a_node_reads_what_it_needs_and_writes_what_is_its_own() {
    let mut cluster = Cluster::new();
    let vip = |node: &str| json!({"metadata": {"name": "v", "namespace": "a"}, "spec": {"node": node}});
    cluster.put("netwrangler.dev", "vipaddresses", vip("n1"));
    let n1 = UserInfo::new("system:node:n1", [NODES, AUTHENTICATED]);
    let n2 = UserInfo::new("system:node:n2", [NODES, AUTHENTICATED]);
    #[rustfmt::skip]
    let table = [
        ("list", "netwrangler.dev/vipaddresses", "", "", true), ("watch", "netwrangler.dev/vipconfigs", "", "", true),
        ("get", "nodes", "", "n2", true), ("update", "nodes", "", "n1", true), ("patch", "nodes:status", "", "n1", true),
        ("update", "nodes", "", "n2", false), ("delete", "nodes", "", "n1", false), ("create", "nodes", "", "", true),
        ("update", "coordination.k8s.io/leases", "kube-node-lease", "n1", true),
        ("update", "coordination.k8s.io/leases", "kube-node-lease", "n2", false),
        ("update", "coordination.k8s.io/leases", "kube-system", "n1", false),
        ("patch", "coordination.k8s.io/leases", "kube-system", "netwrangler-agent.n1", true),
        ("patch", "coordination.k8s.io/leases", "kube-system", "netwrangler-agent.n2", false),
        ("patch", "netwrangler.dev/vipaddresses:status", "a", "v", true),
        ("update", "netwrangler.dev/vipaddresses", "a", "v", false),
        ("create", "events", "a", "", true), ("get", "secrets", "a", "s", false), ("list", "pods", "", "", false),
    ];
    for (verb, resource, namespace, name, allowed) in table {
        assert_eq!(cluster.may(&n1, verb, resource, namespace, name), allowed, "{verb} {resource} {name}");
    }
    assert!(!cluster.may(&n2, "patch", "netwrangler.dev/vipaddresses:status", "a", "v"));
    let pretender = UserInfo::new("system:node:n1", [AUTHENTICATED]);
    assert!(!cluster.may(&pretender, "get", "nodes", "", "n1"), "the group makes the node");
}

#[test]
fn a_node_reads_only_what_its_pods_refer_to() {
    let mut cluster = Cluster::new();
    let pod = |name: &str, node: &str, annotations: Value| {
        json!({
            "metadata": {"name": name, "namespace": "a", "annotations": annotations},
            "spec": {
                "nodeName": node, "imagePullSecrets": [{"name": format!("{name}-pull")}],
                "containers": [{
                    "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": format!("{name}-env"), "key": "k"}}}],
                    "envFrom": [{"configMapRef": {"name": format!("{name}-all")}}],
                }],
                "volumes": [
                    {"name": "v", "secret": {"secretName": format!("{name}-secret")}},
                    {"name": "p", "projected": {"sources": [{"configMap": {"name": format!("{name}-root")}}]}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": format!("{name}-claim")}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
                ],
            },
        })
    };
    cluster.put("", "pods", pod("x", "n1", json!({})));
    cluster.put("", "pods", pod("y", "n2", json!({})));
    cluster.put("", "pods", pod("z", "n1", json!({"kubernetes.io/config.mirror": "h"})));
    let n1 = UserInfo::new("system:node:n1", [NODES, AUTHENTICATED]);
    #[rustfmt::skip]
    let table = [
        ("get", "secrets", "a", "x-pull", true), ("watch", "secrets", "a", "x-env", true),
        ("list", "secrets", "a", "x-secret", true), ("get", "configmaps", "a", "x-all", true),
        ("get", "configmaps", "a", "x-root", true), ("get", "persistentvolumeclaims", "a", "x-claim", true),
        ("get", "persistentvolumeclaims", "a", "x-e", true),
        ("get", "secrets", "a", "y-pull", false), ("get", "secrets", "a", "z-secret", false),
        ("get", "secrets", "b", "x-pull", false), ("get", "configmaps", "a", "x-pull", false),
        ("list", "secrets", "a", "", false), ("update", "secrets", "a", "x-pull", false),
        ("delete", "configmaps", "a", "x-all", false),
    ];
    for (verb, resource, namespace, name, allowed) in table {
        assert_eq!(cluster.may(&n1, verb, resource, namespace, name), allowed, "{verb} {resource} {name}");
    }
}

#[test]
fn a_node_may_not_be_another_one_or_label_itself_a_relay() {
    let authorizer = Authorizer::default();
    let node = UserInfo::new("system:node:n1", [NODES]);
    let object = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    let check = |old: Option<&Value>, new: &Value| authorizer.check_node(&node, "", "nodes", old, new);
    assert!(check(None, &object("n1", json!({"a": "b"}))).is_ok());
    assert_eq!(check(None, &object("n2", json!({}))).unwrap_err().code, 403);
    let relay = object("n1", json!({"litek8s.dev/relay": "true"}));
    assert_eq!(check(None, &relay).unwrap_err().code, 403);
    assert!(check(Some(&relay), &relay).is_ok(), "what an administrator set may stay");
    assert!(check(Some(&relay), &object("n1", json!({}))).is_err());
    assert!(check(None, &object("n1", json!({"x.node-restriction.kubernetes.io/y": "1"}))).is_err());
    assert!(authorizer.check_node(&alice(), "", "nodes", None, &relay).is_ok());
}

#[test]
fn a_node_does_not_say_what_it_is_chosen_by_or_deleted_with() {
    let authorizer = Authorizer::default();
    let user = UserInfo::new("system:node:n1", [NODES]);
    let check = |old: Option<&Value>, new: &Value| authorizer.check_node(&user, "", "nodes", old, new);
    let node = |labels: Value| json!({"metadata": {"name": "n1", "labels": labels}, "spec": {}});
    #[rustfmt::skip]
    let table = [
        ("example.com/disk", true), ("kubernetes.io/hostname", true), ("topology.kubernetes.io/zone", true),
        ("kubelet.kubernetes.io/x", true), ("a.node.kubernetes.io/x", true), ("notkubernetes.io/x", true),
        ("node.kubernetes.io/exclude-from-external-load-balancers", true),
        ("node-role.kubernetes.io/control-plane", false), ("kubernetes.io/x", false), ("x.k8s.io/y", false),
        ("node-restriction.kubernetes.io/x", false), ("x.node-restriction.kubernetes.io/x", false),
    ];
    for (label, allowed) in table {
        assert_eq!(check(Some(&node(json!({}))), &node(json!({label: ""}))).is_ok(), allowed, "{label}");
    }
    let plain = node(json!({}));
    let mut tainted = plain.clone();
    tainted["spec"]["taints"] = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
    assert!(check(None, &tainted).is_ok(), "a new node may repel pods");
    assert!(check(Some(&tainted), &tainted).is_ok());
    assert_eq!(check(Some(&tainted), &plain).unwrap_err().code, 403);
    assert_eq!(check(Some(&plain), &tainted).unwrap_err().code, 403);
    let mut owned = plain.clone();
    owned["metadata"]["ownerReferences"] = json!([{"kind": "ConfigMap", "name": "none", "uid": "u"}]);
    assert_eq!(check(Some(&plain), &owned).unwrap_err().code, 403);
    assert_eq!(check(None, &owned).unwrap_err().code, 403);
    owned["metadata"]["ownerReferences"] = json!([]);
    assert!(check(Some(&plain), &owned).is_ok());
}

#[test]
fn nobody_grants_what_they_do_not_have() {
    let mut cluster = Cluster::new();
    cluster.role("reader", read_pods());
    cluster.bind("b", "reader", json!({"kind": "User", "name": "alice"}));
    let role = |rules: Value| json!({"metadata": {"name": "new"}, "rules": rules});
    let more = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    assert!(cluster.check(&alice(), "ClusterRole", None, &role(read_pods())).is_ok());
    let refused = cluster.check(&alice(), "ClusterRole", None, &role(more.clone())).unwrap_err();
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        "clusterroles.rbac.authorization.k8s.io \"new\" is forbidden: user \"alice\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
    );
    assert!(
        cluster.check(&UserInfo::new("root", [MASTERS]), "ClusterRole", None, &role(more.clone())).is_ok()
    );
    cluster.role(
        "escalator",
        json!([{"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "verbs": ["escalate"]}]),
    );
    cluster.bind("c", "escalator", json!({"kind": "User", "name": "alice"}));
    assert!(cluster.check(&alice(), "ClusterRole", None, &role(more)).is_ok());
}

#[test]
fn an_update_that_only_helps_deletion_passes_and_a_label_does_not() {
    let cluster = Cluster::new();
    let role = |metadata: Value| json!({"metadata": metadata, "rules": read_pods()});
    let old = role(json!({"name": "r", "finalizers": ["x"]}));
    assert!(cluster.check(&alice(), "ClusterRole", Some(&old), &role(json!({"name": "r"}))).is_ok());
    let labelled = role(json!({"name": "r", "labels": {"aggregate": "true"}}));
    assert!(cluster.check(&alice(), "ClusterRole", Some(&old), &labelled).is_err());
}

#[test]
fn a_binding_needs_its_role_and_the_right_to_it() {
    let mut cluster = Cluster::new();
    cluster.role("reader", read_pods());
    cluster.role("keeper", json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]));
    cluster.bind("b", "reader", json!({"kind": "User", "name": "alice"}));
    let binding = |role: &str| json!({"metadata": {"name": "new"}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": []});
    let check = |cluster: &Cluster, old: Option<&Value>, new: &Value| {
        cluster.check(&alice(), "ClusterRoleBinding", old, new).map_err(|status| status.code)
    };
    assert_eq!(check(&cluster, None, &binding("reader")), Ok(()));
    assert_eq!(check(&cluster, None, &binding("keeper")), Err(403));
    assert_eq!(check(&cluster, None, &binding("absent")), Err(404));
    assert_eq!(check(&cluster, Some(&binding("reader")), &binding("keeper")), Err(422));
    let bind = json!([{"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "verbs": ["bind"],
        "resourceNames": ["keeper"]}]);
    cluster.role("binder", bind);
    cluster.bind("c", "binder", json!({"kind": "User", "name": "alice"}));
    assert_eq!(check(&cluster, None, &binding("keeper")), Ok(()));
}

#[test]
fn only_who_may_everything_lets_a_role_gather() {
    let mut cluster = Cluster::new();
    let gathering = json!({"metadata": {"name": "g"}, "aggregationRule": {"clusterRoleSelectors": []}});
    assert_eq!(cluster.check(&alice(), "ClusterRole", None, &gathering).unwrap_err().code, 403);
    cluster.role("all", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
    cluster.bind("a", "all", json!({"kind": "User", "name": "alice"}));
    assert!(cluster.check(&alice(), "ClusterRole", None, &gathering).is_ok());
}

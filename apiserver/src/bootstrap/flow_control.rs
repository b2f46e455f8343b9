//! The PriorityLevelConfigurations and FlowSchemas that kube-apiserver makes: the two that it must have, and those that it
//! suggests.

use serde_json::{Value, json};

use super::{Merge, Wanted};

/// `true` on a suggested object whose spec is to follow this table.
pub(super) const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Name, shares, percentage that others may borrow, and the queues with the size of a hand; what finds no seat is refused
/// at once where there are none.
type Level = (&'static str, u32, u32, Option<(u32, u32)>);

static LEVELS: [Level; 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];
/// Requests that wait in a queue.
const QUEUE_LENGTH: u32 = 50;
/// What kube-apiserver cannot be without.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

const USER: &str = "ByUser";
const NAMESPACE: &str = "ByNamespace";
const EVERYBODY: [Subject; 2] = [("Group", "system:unauthenticated"), ("Group", "system:authenticated")];
const NODES: [Subject; 1] = [("Group", "system:nodes")];

/// What a FlowSchema is about.
enum About {
    Everything,
    /// Verbs, group, resources, and whether they are the cluster's.
    Resources(&'static [(&'static [&'static str], &'static str, &'static [&'static str], bool)]),
    Probes,
}

/// Kind and name.
type Subject = (&'static str, &'static str);

/// Name, level, precedence, what tells flows apart, subjects, and what about.
type FlowSchema = (&'static str, &'static str, u32, &'static str, &'static [Subject], About);

static SCHEMAS: [FlowSchema; 11] = [
    ("exempt", "exempt", 1, "", &[("Group", "system:masters")], About::Everything),
    ("probes", "exempt", 2, "", &EVERYBODY, About::Probes),
    (
        "system-leader-election",
        "leader-election",
        100,
        USER,
        &[
            ("User", "system:kube-controller-manager"),
            ("User", "system:kube-scheduler"),
            ("ServiceAccount", "*"),
        ],
        About::Resources(&[(&["get", "create", "update"], "coordination.k8s.io", &["leases"], false)]),
    ),
    (
        "system-node-high",
        "node-high",
        400,
        USER,
        &NODES,
        About::Resources(&[
            (&["*"], "", &["nodes", "nodes/status"], true),
            (&["*"], "coordination.k8s.io", &["leases"], false),
        ]),
    ),
    ("system-nodes", "system", 500, USER, &NODES, About::Everything),
    (
        "kube-controller-manager",
        "workload-high",
        800,
        NAMESPACE,
        &[("User", "system:kube-controller-manager")],
        About::Everything,
    ),
    (
        "kube-scheduler",
        "workload-high",
        800,
        NAMESPACE,
        &[("User", "system:kube-scheduler")],
        About::Everything,
    ),
    (
        "kube-system-service-accounts",
        "workload-high",
        900,
        NAMESPACE,
        &[("ServiceAccount", "*")],
        About::Everything,
    ),
    (
        "service-accounts",
        "workload-low",
        9000,
        USER,
        &[("Group", "system:serviceaccounts")],
        About::Everything,
    ),
    ("global-default", "global-default", 9900, USER, &EVERYBODY, About::Everything),
    ("catch-all", "catch-all", 10_000, USER, &EVERYBODY, About::Everything),
];

/// All of them.
pub(super) fn all() -> impl Iterator<Item = Wanted> {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let levels = LEVELS.iter().map(|(name, shares, lendable, queues)| {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand)) => json!({"type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH}}),
        };
        let limited =
            json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
        wanted("prioritylevelconfigurations", name, json!({"type": "Limited", "limited": limited}))
    });
    let schemas = SCHEMAS.iter().map(|(name, level, precedence, by, subjects, about)| {
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": [rule(subjects, about)],
        });
        if !by.is_empty() {
            spec["distinguisherMethod"] = json!({"type": by});
        }
        wanted("flowschemas", name, spec)
    });
    std::iter::once(wanted("prioritylevelconfigurations", "exempt", exempt)).chain(levels).chain(schemas)
}

fn rule(subjects: &[Subject], about: &About) -> Value {
    let subjects: Vec<Value> = subjects.iter().map(|(kind, name)| subject(kind, name)).collect();
    let resources = |verbs: &[&str], group: &str, resources: &[&str], cluster: bool| {
        let mut rule =
            json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
        if cluster {
            rule["clusterScope"] = json!(true);
        }
        rule
    };
    let mut rule = json!({"subjects": subjects});
    match about {
        About::Everything => {
            rule["resourceRules"] = json!([resources(&["*"], "*", &["*"], true)]);
            rule["nonResourceRules"] = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        }
        About::Resources(rules) => {
            let rules =
                rules.iter().map(|(verbs, group, names, cluster)| resources(verbs, group, names, *cluster));
            rule["resourceRules"] = rules.collect();
        }
        About::Probes => {
            rule["nonResourceRules"] =
                json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]);
        }
    }
    rule
}

fn subject(kind: &str, name: &str) -> Value {
    match kind {
        "User" => json!({"kind": kind, "user": {"name": name}}),
        "Group" => json!({"kind": kind, "group": {"name": name}}),
        _ => json!({"kind": kind, "serviceAccount": {"namespace": "kube-system", "name": name}}),
    }
}

fn wanted(plural: &'static str, name: &str, spec: Value) -> Wanted {
    let merge = if MANDATORY.contains(&name) { Merge::Replace(&["spec"]) } else { Merge::Follow };
    let metadata = json!({"name": name, "annotations": {AUTO_UPDATE: "true"}});
    let object = json!({"metadata": metadata, "spec": spec});
    Wanted { group: "flowcontrol.apiserver.k8s.io", version: "v1", plural, object, merge }
}

//! The roles and bindings every cluster has, as one table; the next role is a row.

use serde_json::{Map, Value, json};

use super::{Merge, Wanted};

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL: &str = "create delete deletecollection get list patch update watch";
/// What a node's own agent also has by the node authorizer; here for reviews by people.
const NODE_WRITE: &str = "create patch update";

/// One rule: verbs, groups (`core` for the core group) and resources, or verbs and paths; words apart.
enum Rule {
    On(&'static str, &'static str, &'static str),
    At(&'static str, &'static str),
}
use Rule::{At, On};

/// A ClusterRole: its name, its label and what it gathers, its rules, and the groups or users it is bound to.
struct Role {
    name: &'static str,
    label: Option<&'static str>,
    gathers: Option<&'static str>,
    rules: &'static [Rule],
    groups: &'static [&'static str],
    users: &'static [&'static str],
}

const PLAIN: Role = Role { name: "", label: None, gathers: None, rules: &[], groups: &[], users: &[] };
const WORKLOADS: &str =
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale";
const WORKLOADS_READ: &str = "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status";
const PUBLIC: &str = "/healthz /livez /readyz /version /version/";
const DISCOVERY: &str =
    "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/";
const KEYS: &str =
    "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/";
const MONITORED: &str = "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*";

const ROLES: &[Role] = &[
    Role {
        name: "cluster-admin",
        rules: &[On("*", "*", "*"), At("*", "*")],
        groups: &["system:masters"],
        ..PLAIN
    },
    Role { name: "admin", gathers: Some("aggregate-to-admin"), ..PLAIN },
    Role { name: "edit", label: Some("aggregate-to-admin"), gathers: Some("aggregate-to-edit"), ..PLAIN },
    Role { name: "view", label: Some("aggregate-to-edit"), gathers: Some("aggregate-to-view"), ..PLAIN },
    Role {
        name: "system:aggregate-to-admin",
        label: Some("aggregate-to-admin"),
        rules: &[
            On("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            On(ALL, "rbac.authorization.k8s.io", "rolebindings roles"),
        ],
        ..PLAIN
    },
    Role {
        name: "system:aggregate-to-edit",
        label: Some("aggregate-to-edit"),
        rules: &[
            On(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
            On("impersonate", "core", "serviceaccounts"),
            On(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
            On("create", "core", "pods/eviction serviceaccounts/token"),
            On(
                WRITE,
                "core",
                "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
            ),
            On(WRITE, "apps", WORKLOADS),
            On(WRITE, "autoscaling", "horizontalpodautoscalers"),
            On(WRITE, "batch", "cronjobs jobs"),
            On(WRITE, "policy", "poddisruptionbudgets"),
            On(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
            On(ALL, "coordination.k8s.io", "leases"),
        ],
        ..PLAIN
    },
    Role {
        name: "system:aggregate-to-view",
        label: Some("aggregate-to-view"),
        rules: &[
            On(
                READ,
                "core",
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
            ),
            On(
                READ,
                "core",
                "bindings events limitranges namespaces namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status",
            ),
            On(READ, "discovery.k8s.io", "endpointslices"),
            On(READ, "apps", WORKLOADS_READ),
            On(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            On(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
            On(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            On(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
            On(READ, "netwrangler.dev", "vipaddresses vipaddresses/status"),
        ],
        ..PLAIN
    },
    Role {
        name: "system:discovery",
        rules: &[At("get", DISCOVERY)],
        groups: &["system:authenticated"],
        ..PLAIN
    },
    Role {
        name: "system:public-info-viewer",
        rules: &[At("get", PUBLIC)],
        groups: &["system:authenticated", "system:unauthenticated"],
        ..PLAIN
    },
    Role {
        name: "system:basic-user",
        rules: &[
            On("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            On("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
        groups: &["system:authenticated"],
        ..PLAIN
    },
    Role {
        name: "system:service-account-issuer-discovery",
        rules: &[At("get", KEYS)],
        groups: &["system:serviceaccounts"],
        ..PLAIN
    },
    Role {
        name: "system:monitoring",
        rules: &[At("get", MONITORED)],
        groups: &["system:monitoring"],
        ..PLAIN
    },
    Role {
        name: "system:auth-delegator",
        rules: &[
            On("create", "authentication.k8s.io", "tokenreviews"),
            On("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
        ..PLAIN
    },
    Role {
        name: "system:node",
        rules: &[
            On(READ, "core", "nodes"),
            On(NODE_WRITE, "core", "nodes nodes/status events"),
            On("create delete get patch update", "coordination.k8s.io", "leases"),
            On(READ, "netwrangler.dev", "*"),
            On("patch update", "netwrangler.dev", "vipaddresses/status"),
        ],
        ..PLAIN
    },
    Role {
        name: "system:node-bootstrapper",
        rules: &[On("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
        groups: &["system:bootstrappers", "system:nodes"],
        ..PLAIN
    },
    Role {
        name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        rules: &[On("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
        groups: &["system:bootstrappers"],
        ..PLAIN
    },
    Role {
        name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        rules: &[On("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
        groups: &["system:nodes"],
        ..PLAIN
    },
    Role {
        name: "system:litek8s:controllers",
        rules: &[
            On(ALL, "netwrangler.dev", "*"),
            On(READ, "core", "configmaps endpoints namespaces nodes pods services"),
            On("patch update", "core", "nodes services services/finalizers services/status"),
            On(NODE_WRITE, "core events.k8s.io", "events"),
            On(READ, "discovery.k8s.io", "endpointslices"),
            On(READ, "networking.k8s.io", "networkpolicies"),
            On("create get list patch update watch", "apiextensions.k8s.io", "customresourcedefinitions"),
            On("create get list patch update watch", "coordination.k8s.io", "leases"),
        ],
        users: &[crate::authentication::CONTROLLERS],
        ..PLAIN
    },
];

/// Every role, and a binding of the same name for those that are bound.
pub(super) fn all() -> Vec<Wanted> {
    ROLES.iter().flat_map(|role| std::iter::once(cluster_role(role)).chain(binding(role))).collect()
}

fn cluster_role(role: &Role) -> Wanted {
    let mut metadata = metadata(role.name);
    if let Some(label) = role.label {
        metadata["labels"][format!("rbac.authorization.k8s.io/{label}")] = json!("true");
    }
    let mut object = json!({"metadata": metadata});
    let merge = match role.gathers {
        Some(label) => {
            let selector = json!({"matchLabels": {(format!("rbac.authorization.k8s.io/{label}")): "true"}});
            object["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
            object["rules"] = json!([]);
            Merge::Keep
        }
        None => {
            object["rules"] = role.rules.iter().map(rule).collect();
            Merge::AddTo("rules")
        }
    };
    Wanted { group: "rbac.authorization.k8s.io", version: "v1", plural: "clusterroles", object, merge }
}

fn binding(role: &Role) -> Option<Wanted> {
    let subject = |kind: &'static str| move |name: &&str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let subjects: Vec<Value> =
        role.groups.iter().map(subject("Group")).chain(role.users.iter().map(subject("User"))).collect();
    if subjects.is_empty() {
        return None;
    }
    let object = json!({
        "metadata": metadata(role.name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role.name},
        "subjects": subjects,
    });
    let merge = Merge::AddTo("subjects");
    Some(Wanted {
        group: "rbac.authorization.k8s.io",
        version: "v1",
        plural: "clusterrolebindings",
        object,
        merge,
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn rule(rule: &Rule) -> Value {
    let words = |text: &'static str| -> Vec<&'static str> {
        text.split(' ').map(|word| if word == "core" { "" } else { word }).collect()
    };
    let mut out = Map::new();
    match rule {
        On(verbs, groups, resources) => {
            out.insert("apiGroups".to_owned(), json!(words(groups)));
            out.insert("resources".to_owned(), json!(words(resources)));
            out.insert("verbs".to_owned(), json!(words(verbs)));
        }
        At(verbs, paths) => {
            out.insert("nonResourceURLs".to_owned(), json!(words(paths)));
            out.insert("verbs".to_owned(), json!(words(verbs)));
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_rules_whole() {
        let all = all();
        let mut names: Vec<(&str, String)> =
            all.iter().map(|w| (w.plural, w.object["metadata"]["name"].to_string())).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let core = rule(&On("get", "core apps", "pods"));
        assert_eq!(core, json!({"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get"]}));
    }
}

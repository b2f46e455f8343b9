//! What aggregated servers read to know whom to believe: the cluster's CA, and this server's as a proxy.

use serde_json::{Value, json};

use super::{Merge, Wanted};
use crate::aggregation::{FRONT_PROXY, REMOTE_EXTRA, REMOTE_GROUP, REMOTE_UID, REMOTE_USER};
use crate::api::Api;

const NAME: &str = "extension-apiserver-authentication";
const READER: &str = "extension-apiserver-authentication-reader";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The ConfigMap, and the Role that lets its subjects read it.
pub(super) fn extension_authentication(api: &Api) -> Vec<Wanted> {
    let list = |names: &[&str]| json!(names).to_string();
    let data = json!({
        "client-ca-file": &*api.ca,
        "requestheader-allowed-names": list(&[FRONT_PROXY]),
        "requestheader-client-ca-file": api.aggregation.front_proxy().ca(),
        "requestheader-extra-headers-prefix": list(&[REMOTE_EXTRA]),
        "requestheader-group-headers": list(&[REMOTE_GROUP]),
        "requestheader-uid-headers": list(&[REMOTE_UID]),
        "requestheader-username-headers": list(&[REMOTE_USER]),
    });
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get", "list", "watch"]});
    let user = |name: &str| json!({"apiGroup": RBAC, "kind": "User", "name": name});
    let binding = json!({
        "metadata": metadata(&format!("system::{READER}")),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": READER},
        "subjects": [user("system:kube-controller-manager"), user("system:kube-scheduler")],
    });
    let wanted = |group, plural, object, merge| Wanted { group, version: "v1", plural, object, merge };
    vec![
        wanted(
            "",
            "configmaps",
            json!({"metadata": {"name": NAME, "namespace": "kube-system"}, "data": data}),
            Merge::Replace(&["data"]),
        ),
        wanted(RBAC, "roles", json!({"metadata": metadata(READER), "rules": [rule]}), Merge::AddTo("rules")),
        wanted(RBAC, "rolebindings", binding, Merge::AddTo("subjects")),
    ]
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": "kube-system",
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

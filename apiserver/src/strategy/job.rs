//! Jobs: a selector by their uid, unless the user selects, so that no Job takes another one's pods.

use litek8s_machinery::field::FieldError;
use litek8s_machinery::selector::LabelSelector;
use serde_json::{Map, Value, json};

use super::{Strategy, WriteContext};
use crate::endpoints::metadata;
use crate::response::Failure;

/// The label by which a Job knows its pods.
const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
/// As both were called before.
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";

/// The behaviour of Jobs.
pub(super) struct Job;

impl Strategy for Job {
    fn orphans_by_default(&self) -> bool {
        true
    }

    fn prepare_create(&self, _: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        if object["spec"]["manualSelector"] != true {
            select_own(object);
        }
        let labels = object["spec"]["template"]["metadata"]["labels"].clone();
        let own = metadata::object(metadata::object(object, "metadata"), "labels");
        if own.as_object().is_none_or(serde_json::Map::is_empty) {
            *own = labels;
        }
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if let Some(old) = old {
            return changed(object, old);
        }
        let spec = &object["spec"];
        if spec["manualSelector"] == true {
            return own_selector(spec).into_iter().collect();
        }
        let uid = metadata::text(object, "uid");
        let labels = &spec["template"]["metadata"]["labels"];
        let mut errors = Vec::new();
        if labels[UID] != uid || labels[OLD_UID] != uid {
            let at = "spec.template.metadata.labels";
            errors.push(FieldError::invalid(at, labels.clone(), format!("must be '{uid}'")));
        }
        if spec["selector"] != json!({"matchLabels": {UID: uid}}) {
            let detail = "`selector` not auto-generated";
            errors.push(FieldError::invalid("spec.selector", spec["selector"].clone(), detail));
        }
        errors
    }
}

/// Has the Job select the pods of its uid, which its template labels so.
fn select_own(object: &mut Value) {
    let (uid, name) = (metadata::text(object, "uid").to_owned(), metadata::text(object, "name").to_owned());
    let spec = metadata::object(object, "spec");
    let selected = metadata::object(metadata::object(spec, "selector"), "matchLabels");
    if selected[UID].is_null() {
        selected[UID] = json!(uid);
    }
    let meta = metadata::object(metadata::object(spec, "template"), "metadata");
    let labels = metadata::object(meta, "labels");
    for (label, value) in [(UID, &uid), (OLD_UID, &uid), (NAME, &name), (OLD_NAME, &name)] {
        if labels[label].is_null() {
            labels[label] = json!(value);
        }
    }
}

/// What is wrong with a selector that the user chose.
fn own_selector(spec: &Value) -> Option<FieldError> {
    if spec["selector"].is_null() {
        return Some(FieldError::required("spec.selector", ""));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let entries = labels.as_object().into_iter().flatten();
    let given = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    let selects = LabelSelector::from_json(&spec["selector"]).is_ok_and(|selector| selector.matches(&given));
    let detail = "`selector` does not match template `labels`";
    (!selects).then(|| FieldError::invalid("spec.template.metadata.labels", labels.clone(), detail))
}

/// What an update changes although it is fixed once there are pods of it.
fn changed(object: &Value, old: &Value) -> Vec<FieldError> {
    const IMMUTABLE: &str = "field is immutable";
    let (spec, before) = (&object["spec"], &old["spec"]);
    let mut errors = Vec::new();
    let completions = &spec["completions"];
    if completions != &before["completions"] {
        let why = match spec["completionMode"] == "Indexed" {
            false => Some(IMMUTABLE),
            true if completions == &spec["parallelism"] => None,
            true => Some("can only be modified in tandem with spec.parallelism"),
        };
        errors.extend(why.map(|why| FieldError::invalid("spec.completions", completions.clone(), why)));
    }
    let template = &spec["template"];
    let mut kept = before["template"].clone();
    if before["suspend"] == true && old["status"]["startTime"].is_null() {
        place_like(&mut kept, template);
    }
    if &kept != template {
        errors.push(FieldError::invalid("spec.template", template.clone(), IMMUTABLE));
    }
    errors
}

/// Takes over what says where pods go: whoever queues Jobs decides that before the first start (KEP-2926).
fn place_like(template: &mut Value, new: &Value) {
    const FREE: [(&str, &str); 5] = [
        ("metadata", "annotations"),
        ("metadata", "labels"),
        ("spec", "nodeSelector"),
        ("spec", "tolerations"),
        ("spec", "schedulingGates"),
    ];
    for (part, field) in FREE {
        put(&mut template[part], field, new[part].get(field));
    }
    if template["metadata"].is_null() {
        put(template, "metadata", None);
    }
    let (now, spec) = (&new["spec"]["affinity"], &mut template["spec"]);
    put(&mut spec["affinity"], "nodeAffinity", now.get("nodeAffinity"));
    if now.is_null() && spec["affinity"].as_object().is_none_or(Map::is_empty) {
        put(spec, "affinity", None);
    } else if now.is_object() && spec["affinity"].is_null() {
        spec["affinity"] = json!({});
    }
}

fn put(object: &mut Value, field: &str, value: Option<&Value>) {
    if let Some(value) = value {
        object[field] = value.clone();
    } else if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::tests::Server;

    const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
    const MERGE: &str = "application/merge-patch+json";

    fn job(name: &str, spec: &Value) -> Value {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let mut job = json!({"metadata": {"name": name}, "spec": {"template": {"spec": pod}}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            job["spec"][field.as_str()] = value.clone();
        }
        job
    }

    #[tokio::test]
    async fn what_a_job_runs_stays_and_how_much_of_it_may_change() {
        let server = Server::start().await;
        server.post(JOBS, job("plain", &json!({"completions": 2, "backoffLimit": 1}))).await;
        server.post(JOBS, job("indexed", &json!({"completions": 2, "completionMode": "Indexed"}))).await;
        let patch = async |name: &str, spec: Value| {
            server.patch(&format!("{JOBS}/{name}"), MERGE, json!({"spec": spec})).await
        };
        for (name, spec, field, why) in [
            ("plain", json!({"completions": 3}), "completions", "field is immutable"),
            ("plain", json!({"managedBy": "example.com/x"}), "managedBy", "field is immutable"),
            ("plain", json!({"backoffLimitPerIndex": 1}), "backoffLimitPerIndex", "field is immutable"),
            ("plain", json!({"template": {"spec": {"hostname": "h"}}}), "template", "field is immutable"),
            ("plain", json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}), "template", "immutable"),
            ("indexed", json!({"completions": 5}), "completions", "in tandem with spec.parallelism"),
        ] {
            let refused = patch(name, spec.clone()).await;
            assert_eq!(refused.code, 422, "{spec}: {}", refused.text);
            let message = refused.body["message"].as_str().unwrap();
            assert!(message.contains(&format!("spec.{field}: ")) && message.contains(why), "{message}");
        }
        for (name, spec) in [
            (
                "plain",
                json!({"parallelism": 4, "backoffLimit": 9, "suspend": true, "activeDeadlineSeconds": 60}),
            ),
            ("indexed", json!({"completions": 5, "parallelism": 5})),
        ] {
            let changed = patch(name, spec.clone()).await;
            assert_eq!(changed.code, 200, "{spec}: {}", changed.text);
        }
    }

    #[tokio::test]
    async fn a_job_that_waits_may_be_told_where_to_run() {
        let server = Server::start().await;
        server.post(JOBS, job("queued", &json!({"suspend": true}))).await;
        let path = format!("{JOBS}/queued");
        let terms =
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]});
        let node = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        let placed = json!({"nodeSelector": {"disk": "fast"}, "affinity": {"nodeAffinity": node}});
        let placed = json!({"spec": {"template": {"spec": placed, "metadata": {"labels": {"queue": "a"}}}}});
        let told = server.patch(&path, MERGE, placed).await;
        assert_eq!(told.code, 200, "{}", told.text);
        let image = json!({"spec": {"template": {"spec": {"hostname": "h"}}}});
        assert_eq!(server.patch(&path, MERGE, image).await.code, 422);
        let cleared = json!({"spec": {"template": {"spec": {"affinity": null, "nodeSelector": null}}}});
        assert_eq!(server.patch(&path, MERGE, cleared.clone()).await.code, 200);
        let started = json!({"status": {"startTime": "2024-01-01T00:00:00Z"}});
        assert_eq!(server.patch(&format!("{path}/status"), MERGE, started).await.code, 200);
        let late = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "slow"}}}}});
        assert_eq!(server.patch(&path, MERGE, late).await.code, 422);
    }
}

//! Jobs: a selector by their uid, unless the user selects, so that no Job takes another one's pods.

use litek8s_machinery::field::FieldError;
use litek8s_machinery::selector::LabelSelector;
use serde_json::{Value, json};

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
        if object["spec"]["manualSelector"] == true {
            return Ok(());
        }
        let (uid, name) =
            (metadata::text(object, "uid").to_owned(), metadata::text(object, "name").to_owned());
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
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if old.is_some() {
            return Vec::new();
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

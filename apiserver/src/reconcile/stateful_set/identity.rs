//! Who a pod of a StatefulSet is: its name, its number, its labels.

use serde_json::{Value, json};

use super::super::action::Action;
use super::super::kind::Kind;
use super::super::{read, template};
use super::member::Member;
use super::{REVISION, Set, storage};
use crate::endpoints::metadata;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The set's name and the number in a pod's name.
pub(super) fn split(pod: &str) -> Option<(&str, i64)> {
    let (set, digits) = pod.rsplit_once('-')?;
    let number = digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse::<i32>().ok())??;
    Some((set, i64::from(number)))
}

/// Whether a pod has a name of this set.
pub(super) fn is_of(set: &str, pod: &str) -> bool {
    split(pod).is_some_and(|(parent, _)| parent == set)
}

/// The pod of a number, as the set's strategy wants it now.
pub(super) fn pod(set: &Set<'_>, ordinal: i64) -> Value {
    let waits = set.is_rolling() && ordinal < set.start() + set.partition();
    let revision = if waits { set.current } else { set.update };
    let name = format!("{}-{ordinal}", set.object.key.name);
    let mut pod = template::pod(&revision.template(), Kind::StatefulSet, set.object);
    pod["metadata"]["name"] = json!(name);
    let labels = metadata::object(&mut pod["metadata"], "labels");
    labels[POD_NAME] = json!(name);
    labels[POD_INDEX] = json!(ordinal.to_string());
    labels[REVISION] = json!(revision.name());
    let spec = metadata::object(&mut pod, "spec");
    spec["hostname"] = json!(name);
    let service = read::text(&set.spec()["serviceName"]);
    if !service.is_empty() {
        spec["subdomain"] = json!(service);
    }
    storage::mount(set, spec, ordinal);
    pod
}

/// Gives an adopted pod back the labels that say who it is.
pub(super) fn restore(member: &Member<'_>) -> Option<Action> {
    let labels = &member.pod.object.meta.labels;
    if labels.get(POD_NAME).is_some_and(|name| name == member.name()) {
        return None;
    }
    let mut changed = read::value(member.pod.object)?;
    let labels = metadata::object(&mut changed["metadata"], "labels");
    labels[POD_NAME] = json!(member.name());
    labels[POD_INDEX] = json!(member.ordinal.to_string());
    Some(Action::update(Kind::Pod, changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_in_a_number() {
        assert_eq!(split("web-0"), Some(("web", 0)));
        assert_eq!(split("my-web-12"), Some(("my-web", 12)));
        for name in ["web", "web-", "web-a", "web-1a", "web-99999999999"] {
            assert_eq!(split(name), None, "{name}");
        }
    }
}

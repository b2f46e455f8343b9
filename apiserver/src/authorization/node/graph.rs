//! What the pods of a node refer to: the Secrets, ConfigMaps and PersistentVolumeClaims that it may read on their behalf.

use litek8s_store::{GroupResource, View};
use serde_json::Value;

use super::super::Attributes;

/// The annotation of pods that a node made by itself: they are no reason to read anything.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a pod on the node refers to the object that is asked for.
pub(super) fn is_referred_to(node: &str, wanted: &Attributes<'_>, view: &View) -> bool {
    if wanted.name.is_empty() || wanted.namespace.is_empty() {
        return false;
    }
    let pods = view.list(&GroupResource::new("", "pods"), Some(wanted.namespace));
    // Most pods do not even hold the name: those are not parsed.
    let holding =
        pods.filter(|pod| holds(&pod.json, wanted.name) || holds(wanted.name.as_bytes(), &pod.key.name));
    let mut values = holding.filter_map(|pod| serde_json::from_slice::<Value>(&pod.json).ok());
    values.any(|pod| {
        let here = pod["spec"]["nodeName"] == node && pod["metadata"]["annotations"][MIRROR].is_null();
        here && match wanted.resource {
            "secrets" => secrets(&pod["spec"]).any(|name| name == wanted.name),
            "configmaps" => config_maps(&pod["spec"]).any(|name| name == wanted.name),
            "persistentvolumeclaims" => claims(&pod).any(|name| name == wanted.name),
            _ => false,
        }
    })
}

fn holds(text: &[u8], name: &str) -> bool {
    let name = name.as_bytes();
    let Some(first) = name.first() else { return false };
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(name) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The text at a pointer.
fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|field| list(&spec[field]))
}

/// What the environments of all containers take from one kind of object.
fn environment<'a>(spec: &'a Value, key: &'static str, from: &'static str) -> impl Iterator<Item = &'a str> {
    containers(spec).flat_map(move |container| {
        let one = list(&container["env"]).filter_map(move |env| env["valueFrom"][key]["name"].as_str());
        one.chain(list(&container["envFrom"]).filter_map(move |all| all[from]["name"].as_str()))
    })
}

fn secrets(spec: &Value) -> impl Iterator<Item = &str> {
    const POINTERS: [&str; 11] = [
        "/secret/secretName",
        "/azureFile/secretName",
        "/cephfs/secretRef/name",
        "/cinder/secretRef/name",
        "/flexVolume/secretRef/name",
        "/rbd/secretRef/name",
        "/scaleIO/secretRef/name",
        "/iscsi/secretRef/name",
        "/storageos/secretRef/name",
        "/csi/nodePublishSecretRef/name",
        "/csi/secretRef/name",
    ];
    let volumes = list(&spec["volumes"]).flat_map(|volume| {
        let plain = POINTERS.into_iter().filter_map(|pointer| at(volume, pointer));
        plain.chain(projected(volume, "secret"))
    });
    let pulled = list(&spec["imagePullSecrets"]).filter_map(|secret| secret["name"].as_str());
    volumes.chain(pulled).chain(environment(spec, "secretKeyRef", "secretRef"))
}

fn config_maps(spec: &Value) -> impl Iterator<Item = &str> {
    let volumes = list(&spec["volumes"])
        .flat_map(|volume| at(volume, "/configMap/name").into_iter().chain(projected(volume, "configMap")));
    volumes.chain(environment(spec, "configMapKeyRef", "configMapRef"))
}

fn projected<'a>(volume: &'a Value, source: &'static str) -> impl Iterator<Item = &'a str> {
    list(&volume["projected"]["sources"]).filter_map(move |one| one[source]["name"].as_str())
}

/// The claims, those made for the pod itself by its name among them.
fn claims(pod: &Value) -> impl Iterator<Item = String> {
    let own = pod["metadata"]["name"].as_str().unwrap_or_default();
    list(&pod["spec"]["volumes"]).filter_map(move |volume| {
        let named = at(volume, "/persistentVolumeClaim/claimName").map(str::to_owned);
        let made = || Some(format!("{own}-{}", volume["name"].as_str()?));
        if volume["ephemeral"].is_object() { made() } else { named }
    })
}

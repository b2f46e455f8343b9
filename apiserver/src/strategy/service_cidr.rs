//! ServiceCIDRs: further ranges that Services get their addresses from, in force as soon as they are written.

use ipnet::IpNet;
use litek8s_machinery::field::FieldError;
use litek8s_store::{GroupResource, View};
use serde_json::{Value, json};

use super::{Strategy, WriteContext};
use crate::endpoints::metadata;
use crate::response::Failure;

/// What keeps a range while Services need it.
pub(crate) const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// The behaviour of ServiceCIDRs.
pub(super) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        object["status"] = ready(&metadata::time(cx.now));
        let mut finalizers: Vec<String> =
            metadata::finalizers(object).into_iter().filter(|f| *f != FINALIZER).map(str::to_owned).collect();
        finalizers.push(FINALIZER.to_owned());
        metadata::set(object, "finalizers", Some(Value::from(finalizers)));
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let ranges = |object: &Value| object["spec"]["cidrs"].as_array().cloned().unwrap_or_default();
        let (now, before) = (ranges(object), old.map(ranges).unwrap_or_default());
        // The second family may come later; nothing else changes.
        let grows = before.len() == 1 && now.len() == 2;
        if !before.is_empty() && now.len() != before.len() && !grows {
            return vec![FieldError::invalid("spec.cidrs", Value::Array(now), "field is immutable")];
        }
        let pairs = before.iter().zip(&now).enumerate().filter(|(_, (old, new))| old != new);
        pairs
            .map(|(at, (_, new))| {
                FieldError::invalid(format!("spec.cidrs[{at}]"), new.clone(), "field is immutable")
            })
            .collect()
    }
}

/// The status of a range that is in force.
pub(crate) fn ready(since: &str) -> Value {
    json!({"conditions": [{
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": since,
    }]})
}

/// All ranges that addresses are given out of: those of the command line first.
pub(crate) fn ranges(configured: &[IpNet], view: &View) -> Vec<IpNet> {
    let mut all = configured.to_vec();
    for object in view.list(&GroupResource::new("networking.k8s.io", "servicecidrs"), None) {
        if object.meta.is_terminating() {
            continue;
        }
        let value: Value = serde_json::from_slice(&object.json).unwrap_or_default();
        for cidr in value["spec"]["cidrs"].as_array().into_iter().flatten() {
            let range = cidr.as_str().and_then(|text| text.parse().ok());
            all.extend(range.filter(|range| !all.contains(range)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::tests::Server;

    const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
    const SERVICES: &str = "/api/v1/namespaces/default/services";

    #[tokio::test]
    async fn a_service_may_have_an_address_of_a_range_that_was_added() {
        let server = Server::start().await;
        let service = json!({"metadata": {"name": "a"},
            "spec": {"clusterIP": "10.99.0.5", "ports": [{"port": 80}]}});
        let outside = server.post(SERVICES, service.clone()).await;
        assert!(outside.text.contains("is not in the valid range"), "{}", outside.text);
        let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.99.0.0/24"]}});
        let made = server.post(CIDRS, range).await;
        assert_eq!(made.body["status"]["conditions"][0]["type"], "Ready", "{}", made.text);
        let inside = server.post(SERVICES, service).await;
        assert_eq!((inside.code, &inside.body["spec"]["clusterIP"]), (201, &json!("10.99.0.5")));
        let plain = json!({"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}]}});
        let first = server.post(SERVICES, plain).await.body["spec"]["clusterIP"].clone();
        assert!(first.as_str().unwrap().starts_with("10.43."), "{first}");
    }

    #[tokio::test]
    async fn a_range_is_valid_and_stays_as_it_is() {
        let server = Server::start().await;
        let range = |cidrs: Value| json!({"metadata": {"name": "r"}, "spec": {"cidrs": cidrs}});
        for (cidrs, wanted) in [
            (json!([]), "Required value"),
            (json!(["10.0.0.0"]), "must be a valid CIDR value"),
            (json!(["10.0.0.0/24", "10.1.0.0/24"]), "may specify no more than one IP for each IP family"),
        ] {
            let refused = server.post(CIDRS, range(cidrs)).await;
            assert!(refused.code == 422 && refused.text.contains(wanted), "{}", refused.text);
        }
        assert_eq!(server.post(CIDRS, range(json!(["10.0.0.0/24"]))).await.code, 201);
        let patch = |cidrs: Value| json!({"spec": {"cidrs": cidrs}});
        let (path, merge) = (format!("{CIDRS}/r"), "application/merge-patch+json");
        let other = server.patch(&path, merge, patch(json!(["10.1.0.0/24"]))).await;
        assert!(other.code == 422 && other.text.contains("field is immutable"), "{}", other.text);
        let dual = server.patch(&path, merge, patch(json!(["10.0.0.0/24", "fd00::/112"]))).await;
        assert_eq!(dual.code, 200, "{}", dual.text);
    }
}

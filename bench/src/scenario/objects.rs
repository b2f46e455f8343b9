//! The objects that scenarios make, and looks at those that come of them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::client::Connection;
use crate::scenario::api::JSON;

/// The suite's kinds.
pub(super) const SUITE: &str = "/apis/netwrangler.dev/v1";
/// The Services.
pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const MERGE: &str = "application/merge-patch+json";

/// VIPs of a full node: all that a mask of seven bits can tell apart.
pub(super) const FULL: usize = 127;
/// The port the responders answer on.
pub(super) const PORT: u16 = 8080;
/// After this a run is called hung.
pub(super) const HANG: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Makes an object.
pub(super) async fn create(connection: &mut Connection, path: &str, object: &Value) -> anyhow::Result<()> {
    connection.call(Method::POST, path, JSON, Bytes::from(object.to_string())).await.map(drop)
}

/// Changes an object.
pub(super) async fn merge(connection: &mut Connection, path: &str, patch: &Value) -> anyhow::Result<()> {
    connection.call(Method::PATCH, path, MERGE, Bytes::from(patch.to_string())).await.map(drop)
}

/// The VipConfig of seven bits.
pub(super) fn config() -> Value {
    json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipConfig", "metadata": {"name": "default"},
        "spec": {"firewallMark": 1, "firewallMarkMask": 127, "routeTable": 20001, "routingPriority": 20001,
            "maxAddressCount": FULL, "clusterCIDRs": ["10.42.0.0/16", "10.43.0.0/16"]}})
}

/// A VipNetwork whose clients may come from everywhere.
pub(super) fn network(name: &str, gateway: &str, cidr: &str) -> Value {
    json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": {"name": name},
        "spec": {"interface": "eth1", "gatewayIP": gateway, "networkCIDR": cidr, "sourceCIDRs": ["0.0.0.0/0"]}})
}

/// The configuration and the public network of a dev cluster.
pub(super) async fn configure(connection: &mut Connection) -> anyhow::Result<()> {
    create(connection, &format!("{SUITE}/vipconfigs"), &config()).await?;
    let public = network("public", "203.0.113.254", "203.0.113.0/24");
    create(connection, &format!("{SUITE}/vipnetworks"), &public).await
}

/// A Service of these addresses with ready endpoints, each as node and address.
pub(super) async fn publish(
    connection: &mut Connection,
    name: &str,
    addresses: &[String],
    endpoints: &[(String, String)],
) -> anyhow::Result<()> {
    let endpoint = |(node, address): &(String, String)| json!({"addresses": [address], "nodeName": node, "conditions": {"ready": true}});
    let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"port": PORT}], "endpoints": endpoints});
    create(connection, SLICES, &slice).await?;
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {"netwrangler.dev/ingress": "enabled"}},
        "spec": {"externalIPs": addresses, "ports": [{"port": PORT}]}});
    create(connection, SERVICES, &service).await
}

/// The endpoints of the first nodes of a dev cluster, one each.
pub(super) fn on_nodes(count: u8) -> Vec<(String, String)> {
    (1..=count).map(|number| (format!("node-{number}"), format!("192.0.2.{number}"))).collect()
}

/// Deletes a Service and its endpoints.
pub(super) async fn withdraw(connection: &mut Connection, name: &str) -> anyhow::Result<()> {
    connection.call(Method::DELETE, &format!("{SERVICES}/{name}"), "", Bytes::new()).await?;
    // The slice may have gone with its Service.
    connection.answer(Method::DELETE, &format!("{SLICES}/{name}"), "", Bytes::new()).await?;
    Ok(())
}

/// All VipAddresses.
pub(super) async fn addresses(connection: &mut Connection) -> anyhow::Result<Vec<Value>> {
    let list: Value = serde_json::from_slice(&connection.get(&format!("{SUITE}/vipaddresses")).await?)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Waits until there is no VipAddress.
pub(super) async fn gone(connection: &mut Connection) -> anyhow::Result<()> {
    until("no VipAddress to be left", async || Ok(addresses(connection).await?.is_empty())).await
}

/// Whether a condition of an object is true.
pub(super) fn is_true(object: &Value, condition: &str) -> bool {
    object["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|entry| entry["type"] == condition && entry["status"] == "True")
    })
}

/// Looks until a condition holds.
pub(super) async fn until(
    what: &str,
    mut holds: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !holds().await? {
        anyhow::ensure!(begin.elapsed() < HANG, "waited {HANG:?} for {what}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

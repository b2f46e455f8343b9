//! Every wrong field is refused where it is written, or named in a condition; never a silence.

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Cluster, eventually};
use serde_json::{Value, json};

use super::manifests::{config, endpoints, list, network, service};

/// A manifest with one field of its spec replaced.
fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["spec"][field] = value;
    object
}

#[tokio::test]
async fn a_wrong_field_is_refused_at_apply_and_named() -> Result<()> {
    let cluster = Cluster::up("badfields", 0).await?;
    for (object, field, value) in [
        (config(), "firewallMarkMask", json!(0)),
        (config(), "firewallMark", json!(0)),
        (config(), "firewallMark", json!(128)),
        (config(), "routeTable", json!(0)),
        (config(), "routingPriority", json!(32766)),
        (config(), "routingPriority", json!(0)),
        (config(), "maxAddressCount", json!(-1)),
        (config(), "clusterCIDRs", json!(["10.42.0.1/16"])),
        (config(), "clusterCIDRs", json!(["ten"])),
        (network(), "networkCIDR", json!("203.0.113.7/24")),
        (network(), "networkCIDR", json!("203.0.113.0/33")),
        (network(), "gatewayIP", json!("010.0.0.1")),
        (network(), "gatewayIP", json!("203.0.113")),
        (network(), "interface", json!("")),
        (network(), "interface", json!("a-name-too-long-for-linux")),
        (network(), "sourceCIDRs", json!(["10.0.0.0/99"])),
    ] {
        let refusal = cluster.kubectl.refused(&with(object, field, value.clone()).to_string())?;
        ensure!(refusal.contains(field), "{field}={value} is refused without a word about it: {refusal}");
    }
    let mut misnamed = config();
    misnamed["metadata"]["name"] = "another".into();
    let refusal = cluster.kubectl.refused(&misnamed.to_string())?;
    ensure!(refusal.contains("default"), "{refusal}");
    let strange = with(network(), "gatewayIp", json!("203.0.113.254"));
    let refusal = cluster.kubectl.refused(&strange.to_string())?;
    ensure!(refusal.contains(r#"unknown field "spec.gatewayIp""#), "{refusal}");
    let leading_zero = service("web", &["010.0.0.1"]);
    let refusal = cluster.kubectl.refused(&leading_zero.to_string())?;
    ensure!(refusal.contains("externalIPs"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn an_address_that_cannot_be_placed_says_why_and_the_others_are_placed() -> Result<()> {
    let cluster = Cluster::up("badplaces", 1).await?;
    let kubectl = &cluster.kubectl;
    let addresses = ["203.0.113.10", "203.0.113.254", "203.0.113.255", "198.18.0.1", "192.0.2.1"];
    let slice = endpoints("web", &[("node-1", "192.0.2.1")]);
    kubectl.apply(&list(&[config(), network(), service("web", &addresses), slice]))?;
    eventually("the good address to be placed", || cluster.holder("203.0.113.10"))?;
    let placed = cluster.vips()?;
    ensure!(placed.len() == 1, "{placed:?}");
    for bad in &addresses[1..] {
        reason(&cluster, "web", bad)?;
    }

    // A second Service with the same address waits until the first lets go.
    let slice = endpoints("late", &[("node-1", "192.0.2.1")]);
    kubectl.apply(&list(&[service("late", &["203.0.113.10"]), slice]))?;
    reason(&cluster, "late", "203.0.113.10")?;
    let holders = kubectl.json(&["get", "vipaddresses", "-A"])?["items"].clone();
    ensure!(holders[0]["spec"]["service"]["name"] == "web", "{holders}");
    kubectl.ok(&["delete", "service", "web"])?;
    eventually("the second Service to have it", || {
        let items = kubectl.json(&["get", "vipaddresses", "-A"])?["items"].clone();
        if items[0]["spec"]["service"]["name"] == "late" { Ok(()) } else { bail!("{items}") }
    })
}

/// Waits until the Service's condition or one of its events names the address.
fn reason(cluster: &Cluster, service: &str, address: &str) -> Result<()> {
    eventually(&format!("a reason why {address} is not placed"), || {
        let object = cluster.kubectl.json(&["get", "service", service])?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|c| c["type"] == "netwrangler.dev/VipsReady");
        let said = ready.is_some_and(|condition| {
            condition["status"] == "False"
                && condition["message"].as_str().is_some_and(|message| message.contains(address))
        });
        let filter = format!("involvedObject.name={service}");
        let events = cluster.kubectl.ok(&["get", "events", "--field-selector", &filter])?;
        if said || events.contains(address) { Ok(()) } else { bail!("{conditions:?}\n{events}") }
    })
}

#[tokio::test]
async fn overlapping_networks_leave_one_in_force() -> Result<()> {
    let cluster = Cluster::up("badoverlap", 0).await?;
    let mut wide = network();
    wide["metadata"]["name"] = "wide".into();
    wide["spec"]["networkCIDR"] = "203.0.112.0/20".into();
    cluster.kubectl.apply(&list(&[config(), network(), wide]))?;
    let ready = |name: &str, wanted: &str| {
        eventually(&format!("{name} Ready={wanted}"), || {
            let object = cluster.kubectl.json(&["get", "vipnetwork", name])?;
            let conditions = object["status"]["conditions"].as_array().context("no conditions")?.clone();
            let found = conditions.iter().find(|c| c["type"] == "Ready").context("no Ready")?.clone();
            if found["status"] == wanted { Ok(found) } else { bail!("{found}") }
        })
    };
    ready("public", "True")?;
    let refused = ready("wide", "False")?;
    ensure!(refused["message"].as_str().is_some_and(|message| message.contains("public")), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_missing_interface_is_said_of_the_network_and_the_service() -> Result<()> {
    let cluster = Cluster::up("badiface", 1).await?;
    let slice = endpoints("web", &[("node-1", "192.0.2.1")]);
    let nowhere = with(network(), "interface", json!("eth7"));
    cluster.kubectl.apply(&list(&[config(), nowhere, service("web", &["203.0.113.10"]), slice]))?;
    eventually("the network to be degraded", || {
        let object = cluster.kubectl.json(&["get", "vipnetwork", "public"])?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == "Degraded").context("no condition")?.clone();
        let said = found["message"].as_str().is_some_and(|text| text.contains("there is no interface eth7"));
        if said && found["status"] == "True" { Ok(()) } else { bail!("{found}") }
    })
    .with_context(|| cluster.logs())?;
    // Whether the address was placed before the agent said so or not.
    let (text, _) = super::questions::vip(&cluster, &["explain", "web"])?;
    ensure!(text.contains("there is no interface eth7"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_refused_change_of_the_config_leaves_the_last_one_in_force() -> Result<()> {
    let cluster = Cluster::up("badconfig", 1).await?;
    let slice = endpoints("web", &[("node-1", "192.0.2.1")]);
    cluster.kubectl.apply(&list(&[config(), network(), service("web", &["203.0.113.10"]), slice]))?;
    eventually("the address to be placed", || cluster.holder("203.0.113.10"))?;
    let before = cluster.kubectl.json(&["get", "vipaddresses", "-A"])?["items"][0]["metadata"]["uid"].clone();
    cluster.kubectl.refused(&with(config(), "firewallMarkMask", json!(0)).to_string())?;
    // Something later that the controller acts on shows that it has seen everything before it.
    cluster.kubectl.apply(&service("web", &["203.0.113.10", "203.0.113.11"]).to_string())?;
    eventually("the later address to be placed", || cluster.holder("203.0.113.11"))?;
    let items = cluster.kubectl.json(&["get", "vipaddresses", "-A"])?["items"].clone();
    let kept = items.as_array().is_some_and(|all| all.iter().any(|item| item["metadata"]["uid"] == before));
    ensure!(kept, "the first VipAddress was replaced: {items}");
    Ok(())
}

//! Egress that is required: a pod leaves with its Service's VIP or is refused, whatever is missing at the moment.

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Cluster, Counters, eventually};
use litek8s_lab::{Member, Role};

use super::manifests::{config, egress_service, endpoints, list, network};

const VIP: &str = "203.0.113.10";
const WHO: &str = "http://198.51.100.1:8080/client";

#[tokio::test]
async fn a_pod_leaves_with_its_vip_or_is_refused() -> Result<()> {
    let mut cluster = Cluster::up("required", 2).await?;
    let _outside = cluster.responder(&Member::Outside, 8080)?;
    let node = Member::Node(2);
    let inside = cluster.lab.add_pod(&node, "in").await?.to_string();
    let pod = Member::Pod("in".to_owned());
    let mut service = egress_service("web", &[VIP]);
    service["metadata"]["labels"]["netwrangler.dev/egress"] = "required".into();
    let slice = endpoints("web", &[("node-2", &inside)]);
    let refused = |cluster: &Cluster, when: &str| {
        eventually(when, || match cluster.ask(&pod, WHO, None) {
            Ok(seen) => bail!("seen as {seen}"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(text.contains("Connection refused"), "{text}");
                Ok(())
            }
        })
        .with_context(|| cluster.logs())
    };
    let seen = |cluster: &Cluster| {
        eventually("the VIP to be seen outside", || match cluster.ask(&pod, WHO, None)?.as_str() {
            VIP => Ok(()),
            other => bail!("seen as {other}"),
        })
        .with_context(|| cluster.logs())
    };

    // No VipNetwork, so no VIP.
    cluster.kubectl.apply(&list(&[config(), service.clone(), slice]))?;
    refused(&cluster, "the pod to be refused before it has a VIP")?;
    let listed = cluster.kubectl.ok(&["get", "vipguards"])?;
    ensure!(listed.contains("node-2"), "{listed}");
    let leaks = Counters::new(
        &cluster,
        &node,
        "postrouting",
        &[("leaked", &format!("oifname != {{ cni0, lo }} ct original ip saddr {inside} ip saddr != {VIP}"))],
    )?;

    cluster.kubectl.apply(&network().to_string())?;
    seen(&cluster)?;
    cluster.kubectl.ok(&["delete", "vipnetwork", "public"])?;
    refused(&cluster, "the pod to be refused after its VIP went")?;

    // Neither an agent nor an API is needed for that.
    cluster.lab.kill(Role::Apiserver, &Member::Server)?;
    cluster.lab.kill(Role::Agent, &node)?;
    refused(&cluster, "the pod to be refused without an agent")?;
    cluster.lab.revive().await?;
    refused(&cluster, "the pod to be refused by a new agent")?;
    let before = leaks.read(&cluster, "leaked")?;
    ensure!(before == 0, "{before} packets left with another source");

    // What is not required any more is open again.
    cluster.kubectl.ok(&["label", "service", "web", "netwrangler.dev/egress=enabled", "--overwrite"])?;
    eventually("the pod to get out again", || {
        // Nobody outside knows the way back to it.
        let _ = cluster.ask(&pod, WHO, None);
        ensure!(leaks.read(&cluster, "leaked")? > 0, "still refused");
        Ok(())
    })
    .with_context(|| cluster.logs())?;
    ensure!(!cluster.kubectl.ok(&["get", "vipguards"])?.contains("node-2"));
    Ok(())
}

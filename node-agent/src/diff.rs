//! `litek8s vip diff`: what an agent would change on this machine now. Changes nothing.

use std::fmt::Debug;
use std::net::IpAddr;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use litek8s_kernel::{Kernel, Netns};
use litek8s_plan::{Observed, compile};
use serde::de::DeserializeOwned;

use crate::connection::Source;
use crate::index::{Change, Index, addresses_of};
use crate::ledger::Ledger;
use crate::options::DiffOptions;
use crate::owner::find_pods;

/// Prints what differs between the objects and this machine's kernel, one change a line as `ip` and `nft` would make it.
///
/// # Errors
/// When the API or the kernel cannot be read, this machine is not that node, or something differs.
pub async fn diff(options: DiffOptions) -> anyhow::Result<()> {
    let (client, servers) = Source::of_agent(&options)?.client().await?;
    let kernel = Kernel::open(Netns::current()?).context("the kernel cannot be used (root is needed)")?;
    let mut observed = kernel.observe().await.context("read the kernel")?;
    Ledger::open(&options.state_dir).sort_out(&mut observed);
    let mut index = read(&client, &options.node, &observed).await?;
    index.api_servers(servers);
    let (mut facts, unusable) = index.facts();
    facts.see(&observed);
    let conflicts = index.conflicts();
    facts.vips.retain(|vip| !conflicts.contains_key(&vip.name));
    find_pods(&kernel, &mut facts, &observed).await?;
    let plan = compile(&facts);
    for (vip, (reason, message)) in &unusable {
        println!("# {vip}: {reason}: {message}");
    }
    for (vip, message) in &conflicts {
        println!("# {vip}: AddressConflict: {message}");
    }
    for (vip, problems) in &plan.problems {
        for problem in problems {
            println!("# {vip}: {}: {problem}", problem.reason());
        }
    }
    let ops = litek8s_plan::diff(&plan.desired, &observed);
    for op in &ops {
        println!("{op}");
    }
    match ops.len() {
        0 => {
            println!("# {} VIPs; the kernel holds what it should", plan.desired.addresses.len());
            Ok(())
        }
        1 => bail!("a change is due: see whether the agent runs, and its log"),
        count => bail!("{count} changes are due: see whether the agent runs, and its log"),
    }
}

/// The node's objects, once it is sure that this machine is the node.
async fn read(client: &Client, name: &str, observed: &Observed) -> anyhow::Result<Index> {
    let nodes = all::<Node>(client).await?;
    let Some(node) = nodes.iter().find(|node| node.name_any() == name) else {
        bail!("there is no Node {name}")
    };
    let own = addresses_of(node);
    let here = |address: &IpAddr| {
        let mut all = observed.interfaces.values().flat_map(|interface| &interface.foreign);
        all.any(|network| network.addr() == *address)
    };
    let found: Vec<IpAddr> = own.iter().copied().filter(here).collect();
    if found.is_empty() {
        ensure!(!own.is_empty(), "Node {name} has no InternalIP");
        let own: Vec<String> = own.iter().map(ToString::to_string).collect();
        bail!(
            "this machine is not Node {name}: it has no interface with {}; run this there",
            own.join(" or ")
        )
    }
    let mut index = Index::new(name, &found);
    index.node(Change::Reset(nodes));
    index.address(Change::Reset(all(client).await?));
    index.network(Change::Reset(all(client).await?));
    index.config(Change::Reset(all(client).await?));
    index.gateway(Change::Reset(all(client).await?));
    index.route(Change::Reset(all(client).await?));
    index.guard(Change::Reset(all(client).await?));
    Ok(index)
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let list = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    Ok(list.with_context(|| format!("list {}", K::plural(&())))?.items)
}

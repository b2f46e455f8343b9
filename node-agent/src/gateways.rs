//! VipGateways and their VipRoutes as the plan knows them, and what is said of them. Pure.

use std::collections::BTreeMap;

use ipnet::IpNet;
use kube::ResourceExt;
use litek8s_crds::{GatewayOnNode, VipGateway, VipRoute};
use litek8s_plan::{Gateway, GatewayPod, Op, Plan, Route};

/// How many pods that cannot be reached are named, and how much is said of each: what is said goes into an annotation.
const MOST_NAMED: usize = 4;
const MOST_SAID: usize = 240;

/// The gateways, and why those that are not among them cannot be read.
pub(crate) fn read<'a>(
    gateways: impl Iterator<Item = &'a VipGateway>,
    routes: &BTreeMap<String, VipRoute>,
    node: &str,
) -> (Vec<Gateway>, BTreeMap<String, String>) {
    let (mut read, mut unreadable) = (Vec::new(), BTreeMap::new());
    for gateway in gateways {
        match one(gateway, routes, node) {
            Ok(gateway) => read.push(gateway),
            Err(why) => {
                unreadable.insert(gateway.name_any(), why);
            }
        }
    }
    (read, unreadable)
}

fn one(gateway: &VipGateway, routes: &BTreeMap<String, VipRoute>, node: &str) -> Result<Gateway, String> {
    let spec = &gateway.spec;
    let destination: IpNet = spec
        .destination_cidr
        .parse()
        .map_err(|_| format!("destinationCIDR {} is no network", spec.destination_cidr))?;
    let number = |field: &str, value: i64| {
        u32::try_from(value).map_err(|_| format!("{field} {value} is not between 1 and {}", u32::MAX))
    };
    let table = number("routeTable", spec.route_table)?;
    let name = gateway.name_any();
    let leads = |route: &&VipRoute| {
        let wanted = &route.spec;
        let there =
            wanted.destination_cidr.parse().is_ok_and(|found: IpNet| found.trunc() == destination.trunc());
        wanted.gateway == name && wanted.route_table == table && there
    };
    let mut pods: Vec<GatewayPod> = routes
        .values()
        .filter(leads)
        .filter_map(|route| {
            let spec = &route.spec;
            Some(GatewayPod {
                name: format!("{}/{}", spec.pod.namespace, spec.pod.name),
                address: spec.pod_ip.parse().ok()?,
                local: spec.node == node,
            })
        })
        .collect();
    // A VipRoute that is made anew has another name while the old one is there.
    pods.sort_by_key(|pod| pod.address);
    pods.dedup_by_key(|pod| pod.address);
    let priority = number("routingPriority", spec.routing_priority)?;
    Ok(Gateway { name, destination, table, priority, pods })
}

/// The annotation's text: what became of every gateway.
pub(crate) fn said(gateways: &[Gateway], plan: &Plan, unreadable: &BTreeMap<String, String>) -> String {
    let mut said: BTreeMap<&str, GatewayOnNode> = BTreeMap::new();
    for gateway in gateways {
        let Some(standing) = plan.gateways.get(&gateway.name) else { continue };
        let refused = standing.refused.as_ref().map(|refusal| short(&refusal.to_string()));
        let entry = GatewayOnNode {
            applied: refused.is_none().then(|| gateway.destination.trunc().to_string()),
            refused,
            unusable: standing.unusable.iter().take(MOST_NAMED).map(|why| short(why)).collect(),
        };
        said.insert(&gateway.name, entry);
    }
    for (name, why) in unreadable {
        said.insert(name, GatewayOnNode { refused: Some(short(why)), ..GatewayOnNode::default() });
    }
    serde_json::to_string(&said).unwrap_or_default()
}

fn short(text: &str) -> String {
    text.chars().take(MOST_SAID).collect()
}

/// The gateway an op is for, and whether only for its way over the pods: without that it is closed, not gone.
pub(crate) fn of_op<'a>(op: &Op, gateways: &'a [Gateway]) -> Option<(&'a str, bool)> {
    let leads = |gateway: &Gateway, destination: IpNet| gateway.destination.trunc() == destination;
    let (found, pods) = match op {
        Op::AddRoute(key, route) | Op::ReplaceRoute(key, route) | Op::DeleteRoute(key, route) => {
            let by_key = |gateway: &&Gateway| gateway.table == key.table && leads(gateway, key.destination);
            (gateways.iter().find(by_key), *route != Route::Unreachable)
        }
        Op::AddRule(rule) | Op::DeleteRule(rule) => {
            let to = rule.to?;
            let by_rule = |gateway: &&Gateway| {
                leads(gateway, to) && (gateway.table == rule.table || rule.from.is_some())
            };
            (gateways.iter().find(by_rule), false)
        }
        Op::AddAllowedIp(key, _) | Op::RemoveAllowedIp(key, _) => {
            // Of several with one destination, the one that packets are led to.
            let all = gateways.iter().filter(|gateway| leads(gateway, key.network));
            (all.min_by_key(|gateway| gateway.priority), true)
        }
        Op::PromoteSecondaries(_)
        | Op::RenewAddress(..)
        | Op::Nft(_)
        | Op::Forget(_)
        | Op::AddAddress(..)
        | Op::DeleteAddress(_)
        | Op::Announce { .. } => return None,
    };
    found.map(|gateway| (gateway.name.as_str(), pods))
}

#[cfg(test)]
mod tests;

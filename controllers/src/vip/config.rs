//! From a VipConfig to the rules in force. An invalid one is refused with a reason; the last accepted one stays.

use std::collections::BTreeSet;

use litek8s_crds::VipConfigSpec;

use super::cidr;
use super::facts::{ConfigFact, Facts};
use super::marks::{LAST_PRIORITY, Slots};

/// A VipConfig in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Marks, tables and priorities.
    pub(crate) slots: Slots,
    /// How many VIPs of one Service a node takes.
    pub(crate) limit: u64,
    /// How long a move must be wanted, in seconds.
    pub(crate) stabilization: i64,
    /// How many moves in any minute.
    pub(crate) moves_per_minute: Option<u64>,
    /// How long VIPs without any endpoint stay, in seconds.
    pub(crate) withdraw_delay: i64,
    /// Why the limit is below what was asked for: reason and words.
    pub(crate) degraded: Option<(&'static str, String)>,
}

/// Why a VipConfig is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigProblem {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What is in force and what is to be said of the VipConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigJudgement {
    /// The rules in force.
    pub(crate) rules: Option<Rules>,
    /// Why the specification is not accepted.
    pub(crate) problem: Option<ConfigProblem>,
}

/// Judges the VipConfig.
pub(crate) fn judge(facts: &Facts) -> ConfigJudgement {
    let Some(ConfigFact { spec, status, .. }) = &facts.config else {
        return ConfigJudgement { rules: None, problem: None };
    };
    match rules(spec, &facts.gateway_tables) {
        Ok(rules) => ConfigJudgement { rules: Some(rules), problem: None },
        Err(problem) => {
            let last = status.accepted.as_ref();
            ConfigJudgement {
                rules: last.and_then(|spec| rules(spec, &facts.gateway_tables).ok()),
                problem: Some(problem),
            }
        }
    }
}

fn rules(spec: &VipConfigSpec, gateway_tables: &BTreeSet<u32>) -> Result<Rules, ConfigProblem> {
    let refuse = |reason, message| Err(ConfigProblem { reason, message });
    let number = |name: &str, value: i64, reason| {
        u32::try_from(value).ok().filter(|&value| value > 0).ok_or_else(|| ConfigProblem {
            reason,
            message: format!("{name} is {value}, not within 1 to 4294967295"),
        })
    };
    let mask = number("firewallMarkMask", spec.firewall_mark_mask, "InvalidFirewallMark")?;
    let mark = number("firewallMark", spec.firewall_mark, "InvalidFirewallMark")?;
    let table = number("routeTable", spec.route_table, "InvalidRouteTable")?;
    let priority = number("routingPriority", spec.routing_priority, "InvalidRoutingPriority")?;
    let most = number("maxAddressCount", spec.max_address_count, "InvalidMaxAddressCount")?;
    if priority > LAST_PRIORITY {
        return refuse(
            "InvalidRoutingPriority",
            format!("routingPriority is {priority}, not before the main table's rule (32766)"),
        );
    }
    if let Some(wrong) = spec.cluster_cidrs.iter().find(|text| cidr::network(text).is_none()) {
        return refuse("InvalidClusterCIDR", format!("clusterCIDRs: {wrong} is not a network"));
    }
    let Some(slots) = Slots::new(mark, mask, table, priority, gateway_tables) else {
        return refuse(
            "InvalidFirewallMark",
            format!("firewallMark {mark:#x} does not lie within firewallMarkMask {mask:#x}"),
        );
    };
    let wanted = u64::from(most).min(slots.marks());
    let limit = wanted.min(slots.capacity());
    let degraded = if slots.priorities() < wanted {
        Some((
            "PriorityRange",
            format!(
                "routingPriority {priority} leaves {} priorities before the main table's rule, not {wanted}",
                slots.priorities()
            ),
        ))
    } else if slots.tables() < wanted {
        Some(("TableRange", format!("routeTable {table} leaves {} tables, not {wanted}", slots.tables())))
    } else {
        None
    };
    Ok(Rules {
        slots,
        limit,
        stabilization: spec.rebalance.stabilization_seconds.max(0),
        moves_per_minute: spec.rebalance.max_moves_per_minute.and_then(|most| u64::try_from(most).ok()),
        withdraw_delay: spec.withdraw_delay_seconds.max(0),
        degraded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(mark: i64, mask: i64, priority: i64, most: i64) -> VipConfigSpec {
        VipConfigSpec {
            firewall_mark: mark,
            firewall_mark_mask: mask,
            route_table: 20_001,
            routing_priority: priority,
            max_address_count: most,
            cluster_cidrs: vec!["10.42.0.0/16".into()],
            rebalance: Default::default(),
            withdraw_delay_seconds: 30,
        }
    }

    fn limit(spec: &VipConfigSpec) -> Result<u64, &'static str> {
        rules(spec, &BTreeSet::new()).map(|rules| rules.limit).map_err(|problem| problem.reason)
    }

    #[test]
    fn the_limit_is_the_least_of_what_is_asked_and_what_there_is() {
        assert_eq!(limit(&spec(1, 0x7f, 20_001, 127)), Ok(127));
        assert_eq!(limit(&spec(0x10, 0xf0, 20_001, 127)), Ok(15));
        assert_eq!(limit(&spec(1, 0x8001, 20_001, 127)), Ok(3));
        assert_eq!(limit(&spec(1, 0x7f, 20_001, 3)), Ok(3));
        assert_eq!(limit(&spec(0x8000_0000, 0x8000_0000, 20_001, 127)), Ok(1));
        assert_eq!(limit(&spec(1, 0xffff_ffff, 20_001, 4_294_967_295)), Ok(12_765));
        let short = rules(&spec(1, 0x7f, 32_760, 127), &BTreeSet::new()).unwrap();
        assert_eq!((short.limit, short.degraded.unwrap().0), (6, "PriorityRange"));
    }

    #[test]
    fn what_cannot_be_used_has_a_reason() {
        for (wrong, reason) in [
            (spec(0x01, 0xf0, 20_001, 127), "InvalidFirewallMark"),
            (spec(0x00, 0x7f, 20_001, 127), "InvalidFirewallMark"),
            (spec(0x01, 0x00, 20_001, 127), "InvalidFirewallMark"),
            (spec(1, 0x1_0000_0000, 20_001, 127), "InvalidFirewallMark"),
            (spec(1, 0x7f, 32_766, 127), "InvalidRoutingPriority"),
            (spec(1, 0x7f, 20_001, 0), "InvalidMaxAddressCount"),
        ] {
            assert_eq!(limit(&wrong), Err(reason));
        }
        let networks = VipConfigSpec { cluster_cidrs: vec!["10.42.0.0".into()], ..spec(1, 0x7f, 1, 1) };
        assert_eq!(limit(&networks), Err("InvalidClusterCIDR"));
    }
}

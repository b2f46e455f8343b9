//! Reports as status objects.

use jiff::Timestamp;
use litek8s_crds::{VipGatewayStatus, names};

use super::verdict::GatewayReport;
use crate::vip::condition;

/// The status of a VipGateway.
pub(crate) fn gateway(report: &GatewayReport, before: &VipGatewayStatus, now: Timestamp) -> VipGatewayStatus {
    let generation = Some(report.generation);
    let condition = |kind, verdict| condition(kind, verdict, generation, &before.conditions, now);
    let (applied, all) = report.nodes;
    VipGatewayStatus {
        observed_generation: generation,
        conditions: vec![
            condition(names::CONDITION_ACCEPTED, &report.accepted),
            condition(names::CONDITION_READY, &report.ready),
            condition(names::CONDITION_DEGRADED, &report.degraded),
        ],
        pods: report.pods,
        nodes: Some(format!("{applied}/{all}")),
    }
}

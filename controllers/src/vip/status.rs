//! Reports as status objects. A condition that stays keeps the time it began, so that what did not change is not written.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use litek8s_crds::{VipConfigStatus, VipNetworkStatus, names};
use serde_json::{Value, json};

use super::report::{ConfigReport, NetworkReport, ServiceReport, Verdict};

/// A condition; one that stays keeps the time it began.
pub(crate) fn condition(
    kind: &str,
    verdict: &Verdict,
    generation: Option<i64>,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let status = if verdict.good { "True" } else { "False" };
    let old = before.iter().find(|old| old.type_ == kind && old.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.clone(),
        message: verdict.message.clone(),
        observed_generation: generation,
        last_transition_time: old.map_or(Time(now), |old| old.last_transition_time.clone()),
    }
}

/// The status of the VipConfig.
pub(crate) fn config(report: &ConfigReport, before: &VipConfigStatus, now: Timestamp) -> VipConfigStatus {
    let generation = Some(report.generation);
    let condition = |kind, verdict| condition(kind, verdict, generation, &before.conditions, now);
    VipConfigStatus {
        observed_generation: generation,
        conditions: vec![
            condition(names::CONDITION_ACCEPTED, &report.verdict),
            condition(names::CONDITION_READY, &report.ready),
            condition(names::CONDITION_DEGRADED, &report.degraded),
        ],
        accepted: report.accepted.clone(),
    }
}

/// The status of a VipNetwork.
pub(crate) fn network(report: &NetworkReport, before: &VipNetworkStatus, now: Timestamp) -> VipNetworkStatus {
    let generation = Some(report.generation);
    let condition = |kind, verdict| condition(kind, verdict, generation, &before.conditions, now);
    VipNetworkStatus {
        observed_generation: generation,
        conditions: vec![
            condition(names::CONDITION_ACCEPTED, &report.accepted),
            condition(names::CONDITION_READY, &report.ready),
            condition(names::CONDITION_DEGRADED, &report.degraded),
        ],
        used_addresses: report.used,
        warnings: report.warnings.clone(),
    }
}

/// The part of a Service's status that is ours, when it is not there yet.
pub(crate) fn service(
    report: &ServiceReport,
    service: &Service,
    load_balancer: bool,
    now: Timestamp,
) -> Option<Value> {
    let before = service.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let generation = service.metadata.generation;
    let wanted = condition(names::CONDITION_VIPS_READY, &report.verdict, generation, before, now);
    let addresses: Vec<String> = report.placed.iter().map(ToString::to_string).collect();
    let said = before.contains(&wanted);
    if said && (!load_balancer || addresses == ingress(service)) {
        return None;
    }
    let mut status = json!({ "conditions": [wanted] });
    if load_balancer {
        let ingress: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip, "ipMode": "VIP" })).collect();
        status["loadBalancer"] = json!({ "ingress": ingress });
    }
    Some(status)
}

/// Whether a Service that asks for nothing still says something of ours.
pub(crate) fn left_over(service: &Service) -> bool {
    let conditions = service.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == names::CONDITION_VIPS_READY)
}

fn ingress(service: &Service) -> Vec<String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    ingress.into_iter().flatten().filter_map(|ingress| ingress.ip.clone()).collect()
}

#[cfg(test)]
mod tests {
    use litek8s_crds::VipService;

    use super::super::fixture::at;
    use super::*;

    fn report(good: bool, placed: &[&str]) -> ServiceReport {
        ServiceReport {
            key: VipService { namespace: "shop".into(), name: "web".into() },
            uid: "u".into(),
            verdict: Verdict::new(good, "Reason", "words"),
            placed: placed.iter().map(|ip| ip.parse().unwrap()).collect(),
            addresses: Vec::new(),
        }
    }

    fn with(status: &Value) -> Service {
        serde_json::from_value(json!({ "metadata": { "name": "web" }, "status": status })).unwrap()
    }

    #[test]
    fn what_did_not_change_is_not_written() {
        let first = service(&report(true, &["203.0.113.10"]), &Service::default(), true, at(1)).unwrap();
        assert_eq!(first["loadBalancer"]["ingress"][0]["ip"], "203.0.113.10");
        let written = with(&first);
        assert!(left_over(&written) && !left_over(&Service::default()));
        assert_eq!(service(&report(true, &["203.0.113.10"]), &written, true, at(9)), None);
        assert!(service(&report(true, &[]), &written, true, at(9)).is_some());
        assert!(service(&report(false, &["203.0.113.10"]), &written, true, at(9)).is_some());
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let (good, bad) = (Verdict::new(true, "A", ""), Verdict::new(false, "B", ""));
        let first = condition("Ready", &good, Some(1), &[], at(1));
        let again =
            condition("Ready", &Verdict::new(true, "C", ""), Some(2), std::slice::from_ref(&first), at(9));
        assert_eq!(again.last_transition_time, first.last_transition_time);
        assert_eq!(condition("Ready", &bad, Some(2), &[first], at(9)).last_transition_time, Time(at(9)));
    }
}

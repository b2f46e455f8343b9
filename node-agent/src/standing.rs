//! What a VipAddress's status says: how it stands on this node. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use litek8s_crds::names;
use litek8s_plan::{Plan, Problem};

use crate::vips::Unusable;

/// The reason of every conflict.
const CONFLICT: &str = "AddressConflict";

/// How one VIP stands on this node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    /// Why it is not (wholly) in place.
    pub(crate) unprogrammed: Option<(String, String)>,
    /// Works, but not as it should.
    pub(crate) degraded: Option<(String, String)>,
    /// Whether its place was announced.
    pub(crate) announced: bool,
}

impl Standing {
    /// How `vip` stands, given the plan that was applied.
    pub(crate) fn of(vip: &str, plan: &Plan, unusable: Option<&Unusable>, announced: bool) -> Self {
        let mut standing = Self { announced, ..Self::default() };
        if let Some((reason, message)) = unusable {
            standing.unprogrammed = Some(((*reason).to_owned(), message.clone()));
            standing.announced = false;
            return standing;
        }
        for problem in plan.problems.get(vip).into_iter().flatten() {
            let told = Some((problem.reason().to_owned(), problem.to_string()));
            let place = match problem {
                Problem::ClaimedElsewhere(..) | Problem::RpFilterStrict(_) => &mut standing.degraded,
                Problem::MarkOutsideMask(..)
                | Problem::ReservedTable(_)
                | Problem::PriorityOutOfRange(_)
                | Problem::GatewayOutsideNetwork(_)
                | Problem::NoGateway
                | Problem::Duplicate(..)
                | Problem::AddressConflict(_)
                | Problem::Probing
                | Problem::HeldElsewhere(..)
                | Problem::Failed(_)
                | Problem::InterfaceMissing(_)
                | Problem::InterfaceDown(_) => &mut standing.unprogrammed,
            };
            if place.is_none() {
                *place = told;
            }
        }
        if let Some(warnings) = plan.warnings.get(vip)
            && standing.degraded.is_none()
        {
            standing.degraded = Some(("SourceIgnored".to_owned(), warnings.join("; ")));
        }
        standing.announced &= standing.unprogrammed.is_none();
        standing
    }

    /// Somebody else has the address, or says so.
    pub(crate) fn conflict(&self) -> Option<&(String, String)> {
        [&self.unprogrammed, &self.degraded].into_iter().flatten().find(|(reason, _)| reason == CONFLICT)
    }

    /// The conditions; a condition that stays keeps the time it began.
    pub(crate) fn conditions(
        &self,
        generation: Option<i64>,
        before: &[Condition],
        now: &Time,
    ) -> Vec<Condition> {
        let good = |reason: &str| (true, reason.to_owned(), String::new());
        let bad = |(reason, message): &(String, String)| (false, reason.clone(), message.clone());
        let programmed = self.unprogrammed.as_ref().map_or_else(|| good("Programmed"), bad);
        let announced = match (self.announced, &self.unprogrammed) {
            (true, _) => good("Announced"),
            (false, Some(why)) => bad(why),
            (false, None) => (false, "Announcing".to_owned(), String::new()),
        };
        let ready = if programmed.0 { announced.clone() } else { programmed.clone() };
        let ready = if ready.0 { good("Ready") } else { ready };
        let conflict = match self.conflict() {
            Some((reason, message)) => (true, reason.clone(), message.clone()),
            None => (false, "NoConflict".to_owned(), String::new()),
        };
        let mut list = vec![
            (names::CONDITION_READY, ready),
            (names::CONDITION_PROGRAMMED, programmed),
            (names::CONDITION_ANNOUNCED, announced),
            (names::CONDITION_ADDRESS_CONFLICT, conflict),
        ];
        if let Some((reason, message)) = &self.degraded {
            list.push((names::CONDITION_DEGRADED, (true, reason.clone(), message.clone())));
        }
        list.into_iter()
            .map(|(kind, (holds, reason, message))| {
                let status = if holds { "True" } else { "False" };
                let old = before.iter().find(|old| old.type_ == kind && old.status == status);
                Condition {
                    type_: kind.to_owned(),
                    status: status.to_owned(),
                    reason,
                    message,
                    observed_generation: generation,
                    last_transition_time: old
                        .map_or_else(|| now.clone(), |old| old.last_transition_time.clone()),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status<'a>(conditions: &'a [Condition], kind: &str) -> (&'a str, &'a str) {
        let found = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        (&found.status, &found.reason)
    }

    fn at(second: i64) -> Time {
        Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn a_vip_is_ready_when_it_is_programmed_and_announced() {
        let placed = Standing { announced: true, ..Standing::default() };
        let conditions = placed.conditions(Some(1), &[], &at(1));
        assert_eq!(status(&conditions, "Ready"), ("True", "Ready"));
        assert_eq!(status(&conditions, "AddressConflict"), ("False", "NoConflict"));
        assert!(conditions.iter().all(|condition| condition.observed_generation == Some(1)));
        let quiet = Standing::default().conditions(Some(1), &[], &at(1));
        assert_eq!(status(&quiet, "Ready"), ("False", "Announcing"));
        assert_eq!(status(&quiet, "Programmed"), ("True", "Programmed"));
    }

    #[test]
    fn a_conflict_says_so_in_every_condition_it_touches() {
        let mut plan = Plan::default();
        plan.problems.insert("d/v".into(), vec![Problem::AddressConflict("eth1".into())]);
        let conditions = Standing::of("d/v", &plan, None, true).conditions(None, &[], &at(1));
        assert_eq!(status(&conditions, "AddressConflict"), ("True", "AddressConflict"));
        for kind in ["Ready", "Programmed", "Announced"] {
            assert_eq!(status(&conditions, kind), ("False", "AddressConflict"));
        }
    }

    #[test]
    fn a_claim_on_a_vip_that_is_in_place_is_told_and_the_vip_stays_ready() {
        let mut plan = Plan::default();
        let claim = Problem::ClaimedElsewhere([2, 0, 0, 0, 0, 9], "eth1".into());
        plan.problems.insert("d/v".into(), vec![claim]);
        let conditions = Standing::of("d/v", &plan, None, true).conditions(None, &[], &at(1));
        assert_eq!(status(&conditions, "AddressConflict"), ("True", "AddressConflict"));
        assert_eq!(status(&conditions, "Degraded"), ("True", "AddressConflict"));
        assert_eq!(status(&conditions, "Ready"), ("True", "Ready"));
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let placed = Standing { announced: true, ..Standing::default() };
        let first = placed.conditions(Some(1), &[], &at(1));
        assert_eq!(placed.conditions(Some(1), &first, &at(9)), first);
        let gone = Standing { unprogrammed: Some(("InterfaceDown".into(), String::new())), ..placed };
        let later = gone.conditions(Some(1), &first, &at(9));
        let time = |kind: &str| later.iter().find(|c| c.type_ == kind).unwrap().last_transition_time.clone();
        assert_eq!((time("Ready"), time("AddressConflict")), (at(9), at(1)));
    }

    #[test]
    fn a_strict_reverse_path_filter_degrades_and_does_not_unprogram() {
        let mut plan = Plan::default();
        plan.problems.insert("d/v".into(), vec![Problem::RpFilterStrict("eth1".into())]);
        let conditions = Standing::of("d/v", &plan, None, true).conditions(None, &[], &at(1));
        assert_eq!(status(&conditions, "Degraded"), ("True", "RpFilterStrict"));
        assert_eq!(status(&conditions, "Ready"), ("True", "Ready"));
    }
}

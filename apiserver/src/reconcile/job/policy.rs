//! What a Job's policies say about a pod that failed, and about indexes that succeeded.

use serde_json::Value;

use super::super::pod::{Container, Pod};
use super::super::read::{list, text};
use super::Job;
use super::indexes::Indexes;

/// What a failed pod means.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The whole Job fails, for this reason.
    pub(super) fails_job: Option<String>,
    /// The pod's index fails.
    pub(super) fails_index: bool,
    /// It counts towards the limit of failures.
    pub(super) counts: bool,
}

/// What the first rule that matches says; without one, the failure counts.
pub(super) fn judge(job: &Job<'_>, pod: &Pod<'_>) -> Verdict {
    let mut verdict = Verdict { fails_job: None, fails_index: false, counts: true };
    for (at, rule) in list(&job.spec()["podFailurePolicy"]["rules"]).iter().enumerate() {
        let Some(matched) = matched(rule, pod) else { continue };
        match text(&rule["action"]) {
            "Ignore" => verdict.counts = false,
            "FailIndex" => verdict.fails_index = true,
            "FailJob" => {
                let name = format!("{}/{}", pod.object.key.namespace, pod.object.key.name);
                let why = match matched {
                    Matched::Exit(container, code) => {
                        format!("Container {container} for pod {name} failed with exit code {code}")
                    }
                    Matched::Condition(ty) => format!("Pod {name} has condition {ty}"),
                };
                verdict.fails_job = Some(format!("{why} matching FailJob rule at index {at}"));
            }
            _ => {}
        }
        return verdict;
    }
    verdict
}

enum Matched<'p> {
    Exit(&'p str, i64),
    Condition(&'p str),
}

fn matched<'p>(rule: &Value, pod: &'p Pod<'_>) -> Option<Matched<'p>> {
    let codes = &rule["onExitCodes"];
    if !codes.is_null() {
        let mut containers = pod.containers().chain(pod.init_containers());
        return containers.find_map(|container| exited(codes, container));
    }
    let patterns = list(&rule["onPodConditions"]);
    let known = |ty: &str, status: &str| patterns.iter().any(|p| p["type"] == ty && p["status"] == status);
    let mut conditions = pod.status.conditions.iter().flatten();
    conditions.find(|c| known(&c.ty, &c.status)).map(|condition| Matched::Condition(&condition.ty))
}

fn exited<'p>(codes: &Value, container: &'p Container) -> Option<Matched<'p>> {
    let code = container.exit_code().filter(|code| *code != 0)?;
    let name = text(&codes["containerName"]);
    if !name.is_empty() && name != container.name {
        return None;
    }
    let listed = list(&codes["values"]).iter().any(|value| value.as_i64() == Some(code));
    let matches = match text(&codes["operator"]) {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    matches.then_some(Matched::Exit(&container.name, code))
}

/// Why the indexes that succeeded are enough, if a rule says so.
pub(super) fn suffices(job: &Job<'_>, succeeded: &Indexes) -> Option<String> {
    let completions = job.completions()?;
    if succeeded.total() == 0 {
        return None;
    }
    let met = |rule: &Value| {
        let count = rule["succeededCount"].as_i64();
        let Some(wanted) = rule["succeededIndexes"].as_str() else {
            return count.is_some_and(|count| succeeded.total() >= count);
        };
        let wanted = Indexes::parse(wanted, completions);
        let common = wanted.common(succeeded);
        wanted.total() > 0 && (common == wanted.total() || count.is_some_and(|count| common >= count))
    };
    let at = list(&job.spec()["successPolicy"]["rules"]).iter().position(met)?;
    Some(format!("Matched rules at index {at}"))
}

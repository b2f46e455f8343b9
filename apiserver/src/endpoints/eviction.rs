//! `pods/eviction`: a delete that asks the pod's PodDisruptionBudget first, as `kubectl drain` wants it.
//!
//! The budget is charged before the pod goes, in a write of its own that another eviction at the same time cannot make
//! too: no number of evictions takes more pods than the budget allows.

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::selector::LabelSelector;
use litek8s_machinery::status::{Reason, Status};
use litek8s_store::{Object, View};
use serde_json::{Value, json};

use super::delete::{self, check_preconditions, delete_object};
use super::delete_options::{DeleteOptions, Preconditions};
use super::options::{FieldValidation, WriteOptions};
use super::pod_subresources::{admit, read};
use super::update::{Proposal, change};
use super::write::{ATTEMPTS, Writing, Written};
use super::{Call, answer, metadata, reads};
use crate::admission::Operation;
use crate::registry::Served;
use crate::request::{AUTHENTICATED, RequestContext, UserInfo};
use crate::response::{Failure, Response};

/// What a client that is refused by a budget finds among the causes.
const CAUSE: &str = "DisruptionBudget";
/// The most evictions that a budget waits for at a time.
const MOST_DISRUPTED: usize = 2000;
/// The condition of a pod that is evicted.
const TARGET: &str = "DisruptionTarget";

/// Deletes a pod if its budget allows it.
pub(crate) async fn evict(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let query = WriteOptions::parse(&call.ctx.info.query, "CreateOptions", false)?;
    let mut eviction = read(call, body)?;
    let dry_run = query.dry_run;
    admit(&Writing::new(call, query), Operation::Create, None, &mut eviction).await?;
    let named = metadata::text(&eviction, "name");
    if !named.is_empty() && named != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = match eviction.get("deleteOptions").filter(|o| o.is_object()) {
        Some(given) => {
            serde_json::from_value(given.clone()).map_err(|e| Status::bad_request(e.to_string()))?
        }
        None => DeleteOptions::default(),
    };
    if dry_run {
        options.dry_run = vec!["All".to_owned()];
    }
    for attempt in 0.. {
        match attempt_eviction(call, &options).await {
            // A pod that changes while it is looked at is looked at again, unless the client named its version.
            Err(status)
                if status.reason == Reason::Conflict && version(&options).is_none() && attempt < ATTEMPTS => {
            }
            Err(status) => return Err(status),
            Ok(()) => break,
        }
    }
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(answer::plain(call, StatusCode::CREATED, &done))
}

async fn attempt_eviction(call: &Call<'_>, options: &DeleteOptions) -> Result<(), Failure> {
    let view = reads::newest(&call.api.replica).await?;
    let key = call.served.object_key(call.namespace(), call.name());
    let object = view.get(&key).ok_or_else(|| call.not_found())?;
    let pod = call.served.value(object)?;
    let mut at_this_version = options.clone();
    let given = at_this_version.preconditions.get_or_insert_with(Preconditions::default);
    given.resource_version.get_or_insert(object.revision.to_string());
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let ends = matches!(phase, "Succeeded" | "Failed") || object.meta.is_terminating();
    if ends {
        return remove(call, options).await;
    }
    if phase == "Pending" {
        return remove(call, &at_this_version).await;
    }
    let budgets = budgets(&view, object);
    let [budget] = budgets.as_slice() else {
        if budgets.is_empty() {
            return remove(call, options).await;
        }
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::new(500, Reason::Unknown, message));
    };
    let name = metadata::text(budget, "name");
    if !is_ready(&pod) && lets_unhealthy_go(budget) {
        // What became ready meanwhile is charged: the client asks again.
        let raced = |status: &Failure| status.reason == Reason::Conflict && version(options).is_none();
        return remove(call, &at_this_version)
            .await
            .map_err(|status| if raced(&status) { still_processed(name) } else { status });
    }
    charge(call, name, options.is_dry_run()).await?;
    remove(call, options).await
}

fn version(options: &DeleteOptions) -> Option<&String> {
    options.preconditions.as_ref().and_then(|given| given.resource_version.as_ref())
}

/// The budgets that select a pod.
fn budgets(view: &View, pod: &Object) -> Vec<Value> {
    let resource = litek8s_store::GroupResource::new("policy", "poddisruptionbudgets");
    let all = view.list(&resource, Some(&pod.key.namespace));
    let all = all.filter_map(|budget| serde_json::from_slice::<Value>(&budget.json).ok());
    let selects = |budget: &Value| {
        let selector = LabelSelector::from_json(&budget["spec"]["selector"]);
        selector.is_ok_and(|selector| selector.matches(&pod.meta.labels))
    };
    all.filter(selects).collect()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn number(budget: &Value, field: &str) -> i64 {
    budget["status"][field].as_i64().unwrap_or(0)
}

/// Whether a pod that is not ready costs nothing: always, or while enough others are.
fn lets_unhealthy_go(budget: &Value) -> bool {
    let desired = number(budget, "desiredHealthy");
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (number(budget, "currentHealthy") >= desired && desired > 0)
}

/// Takes one disruption from the budget.
async fn charge(call: &Call<'_>, budget: &str, dry_run: bool) -> Result<(), Failure> {
    let budgets = call.api.registry.get("policy", "v1", "poddisruptionbudgets");
    let budgets = budgets.ok_or_else(Status::unknown_resource)?;
    let ctx = within(call, &budgets, budget);
    let inner = Call { ctx: &ctx, served: budgets, ..*call };
    let writing = Writing::new(&inner, options(dry_run));
    let charged = change(&writing, false, |current| {
        let current = current.ok_or_else(|| inner.not_found())?;
        Ok(Proposal { object: decremented(current, call.name(), writing.now)?, owned: false })
    });
    charged.await.map(drop)
}

/// The budget with one more pod on its way out, or why it allows none.
fn decremented(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Failure> {
    let name = metadata::text(budget, "name");
    let generation = metadata::field(budget, "generation").and_then(Value::as_i64).unwrap_or(0);
    if number(budget, "observedGeneration") < generation {
        return Err(still_processed(name));
    }
    let forbidden =
        |why: &str| Err(Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why));
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if budget["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(refused(0, why_not(budget, name)));
    }
    let mut charged = budget.clone();
    let status = metadata::object(&mut charged, "status");
    status["disruptionsAllowed"] = json!(allowed - 1);
    metadata::object(status, "disruptedPods")[pod] = json!(metadata::time(now));
    if allowed == 1 {
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            if condition["type"] == "DisruptionAllowed" && condition["status"] != "False" {
                condition["status"] = json!("False");
                condition["reason"] = json!("InsufficientPods");
                condition["lastTransitionTime"] = json!(metadata::time(now));
            }
        }
    }
    Ok(charged)
}

fn why_not(budget: &Value, name: &str) -> String {
    let conditions = budget["status"]["conditions"].as_array().into_iter().flatten();
    let told = conditions.into_iter().find(|condition| {
        condition["type"] == "DisruptionAllowed"
            && condition["status"] == "False"
            && condition["message"].as_str().is_some_and(|message| !message.is_empty())
    });
    let text = |field: &str| told.and_then(|told| told[field].as_str()).unwrap_or_default();
    let (current, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    if told.is_some() && text("reason") == "SyncFailed" {
        let why = text("message");
        return format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        );
    }
    if current <= desired {
        return format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        );
    }
    let mut message = format!("The disruption budget {name} does not allow evicting pods currently");
    if told.is_some() {
        message.push_str(&format!(" ({}): {}", text("reason"), text("message")));
    }
    message
}

fn still_processed(budget: &str) -> Failure {
    refused(10, format!("The disruption budget {budget} is still being processed by the server."))
}

fn refused(seconds: u32, cause: String) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Status::too_many_requests(message, seconds).with_cause(CAUSE, cause, "")
}

/// Says on the pod why it goes, and deletes it.
async fn remove(call: &Call<'_>, options: &DeleteOptions) -> Result<(), Failure> {
    let mut options = options.clone();
    if !options.is_dry_run() {
        let ctx = within(call, &call.served, call.name());
        let inner = Call { ctx: &ctx, served: call.served.clone(), ..*call };
        let writing = Writing::new(&inner, self::options(false));
        let written = change(&writing, false, |current| {
            let mut pod = current.cloned().ok_or_else(|| call.not_found())?;
            let revision = metadata::text(&pod, "resourceVersion").to_owned();
            check_preconditions(call, &options, metadata::text(&pod, "uid"), &revision)?;
            target(&mut pod, writing.now);
            Ok(Proposal { object: pod, owned: false })
        });
        if let (Written::Stored { object, .. }, Some(given)) = (written.await?, &mut options.preconditions)
            && let Some(version) = &mut given.resource_version
        {
            *version = object.revision.to_string();
        }
    }
    delete_object(&delete::writing(call, &options), call.name(), call.namespace(), &options).await.map(drop)
}

fn target(pod: &mut Value, now: Timestamp) {
    let status = metadata::object(pod, "status");
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let known = conditions.iter().position(|condition| condition["type"] == TARGET);
    let before = known.map(|at| conditions.remove(at));
    let since = before.filter(|before| before["status"] == "True").map(|b| b["lastTransitionTime"].clone());
    conditions.push(json!({
        "type": TARGET, "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": since.unwrap_or_else(|| json!(metadata::time(now))),
    }));
}

/// The request as the server's own write of a status: who may evict need not be one who may do that.
fn within(call: &Call<'_>, served: &Served, name: &str) -> RequestContext {
    let mut ctx = call.ctx.clone();
    ctx.user = UserInfo::new("system:apiserver", ["system:masters", AUTHENTICATED]);
    ctx.info.verb = "update".to_owned();
    ctx.info.api_group = served.resource.group.to_string();
    ctx.info.api_version = served.resource.version.to_string();
    ctx.info.resource = served.resource.plural.to_string();
    ctx.info.subresource = "status".to_owned();
    ctx.info.name = name.to_owned();
    ctx
}

fn options(dry_run: bool) -> WriteOptions {
    WriteOptions {
        dry_run,
        field_manager: "kube-apiserver".to_owned(),
        field_validation: FieldValidation::Ignore,
        force: None,
    }
}

//! Does what a decision says: new VipRoutes, then deletions, then statuses and Events. One that fails stops no other one,
//! but nothing is deleted while something that replaces it could not be made.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use litek8s_crds::{VipGateway, VipRoute, names};
use serde_json::json;

use super::gather::Objects;
use super::status;
use super::verdict::{Action, Decision};
use crate::vip::{Recorder, brief};

/// How many requests are under way at once.
const CONCURRENCY: usize = 16;

/// The API, and in whose name to write.
pub(crate) struct Executor {
    client: Client,
    recorder: Recorder,
    pub(crate) manager: String,
}

impl Executor {
    pub(crate) fn new(client: Client, recorder: Recorder, manager: String) -> Self {
        Self { client, recorder, manager }
    }

    /// Does everything; how much failed.
    pub(crate) async fn execute(&self, decision: &Decision, objects: &Objects, now: Timestamp) -> usize {
        let (made, deleted): (Vec<&Action>, Vec<&Action>) =
            decision.actions.iter().partition(|action| matches!(action, Action::Create(_)));
        let mut failed = self.all(made).await;
        if failed == 0 {
            failed += self.all(deleted).await;
        }
        failed += self.statuses(decision, objects, now).await;
        for note in &decision.notes {
            self.recorder.tell(note, now);
        }
        failed
    }

    async fn all(&self, actions: Vec<&Action>) -> usize {
        // Boxed, so that the compiler sees the whole as `Send`.
        let writes: Vec<BoxFuture<'_, bool>> =
            actions.into_iter().map(|action| self.act(action).boxed()).collect();
        let done: Vec<bool> = stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        done.iter().filter(|done| !**done).count()
    }

    async fn act(&self, action: &Action) -> bool {
        let api: Api<VipRoute> = Api::all(self.client.clone());
        let result = match action {
            Action::Create(route) => {
                let parameters =
                    PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
                match api.create(&parameters, route).await {
                    // The cache was behind.
                    Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                    other => other.map(drop),
                }
            }
            Action::Delete { name, uid, .. } => {
                let this = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
                match api.delete(name, &DeleteParams::default().preconditions(this)).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
                    other => other.map(drop),
                }
            }
        };
        match &result {
            Ok(()) => tracing::info!("{action}"),
            Err(error) => tracing::warn!(error = brief(error), "{action}"),
        }
        result.is_ok()
    }

    async fn statuses(&self, decision: &Decision, objects: &Objects, now: Timestamp) -> usize {
        let mut failed = 0;
        for report in &decision.reports {
            let Some(gateway) = objects.gateways.iter().find(|found| found.name_any() == report.name) else {
                continue;
            };
            let before = gateway.status.clone().unwrap_or_default();
            let wanted = status::gateway(report, &before, now);
            if wanted == before {
                continue;
            }
            let object = json!({
                "apiVersion": format!("{}/v1", names::GROUP), "kind": "VipGateway",
                "metadata": {"name": report.name, "uid": gateway.uid()}, "status": wanted,
            });
            let api: Api<VipGateway> = Api::all(self.client.clone());
            let parameters = PatchParams::apply(&self.manager).force();
            match api.patch_status(&report.name, &parameters, &Patch::Apply(&object)).await {
                Ok(_) => {}
                // It went, or another of its name came; the caches will say.
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
                Err(error) => {
                    tracing::warn!(
                        error = brief(&error),
                        "the status of VipGateway {} was not written",
                        report.name
                    );
                    failed += 1;
                }
            }
        }
        failed
    }
}

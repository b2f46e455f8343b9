//! The custom resource definitions: applied first, and waited for.

use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};

use crate::definitions::lack;
use crate::options::Settings;

/// How long a definition may take until it is served.
const PATIENCE: Duration = Duration::from_secs(60);

/// Applies the definitions by server-side apply, or finds them there, and returns when all are served.
pub(crate) async fn definitions(client: &Client, settings: &Settings) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let parameters = PatchParams::apply(&settings.manager).force();
    for definition in litek8s_crds::definitions() {
        let name = definition.name_any();
        if settings.definitions {
            match api.patch(&name, &parameters, &Patch::Apply(&definition)).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_forbidden() => {
                    tracing::warn!(
                        definition = name,
                        "not allowed to apply the definition, using what is there"
                    );
                }
                Err(error) => return Err(error).with_context(|| format!("applying {name}")),
            }
        }
        let served = await_condition(api.clone(), &name, conditions::is_crd_established());
        let served = match tokio::time::timeout(PATIENCE, served).await {
            Ok(result) => result.with_context(|| format!("waiting for {name}"))?,
            Err(_) => bail!("{name} was not served within {} s: apply crds/manifests", PATIENCE.as_secs()),
        };
        if let Some(lack) = served.and_then(|served| lack(&served, &definition)) {
            tracing::warn!(
                definition = name,
                lack,
                "the definition is of another release: apply crds/manifests"
            );
        }
    }
    Ok(())
}

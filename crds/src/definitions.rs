//! All CustomResourceDefinitions, in the order they are applied.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::names;
use crate::{VipAddress, VipConfig, VipGateway, VipGuard, VipNetwork, VipRoute};

/// Every definition of this crate.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        VipConfig::crd(),
        VipNetwork::crd(),
        VipGateway::crd(),
        VipRoute::crd(),
        VipAddress::crd(),
        VipGuard::crd(),
    ];
    for definition in &mut all {
        definition.metadata.labels =
            Some([(names::LABEL_PART_OF.to_owned(), names::DEFAULT_MANAGER.to_owned())].into());
    }
    all
}

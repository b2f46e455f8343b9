//! Where a stream goes: the pod, its node and the container, chosen and refused in kube-apiserver's words.

use std::sync::Arc;

use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use serde_json::Value;

use crate::api::Api;
use crate::endpoints::newest;
use crate::request::RequestContext;
use crate::response::Failure;

/// The lists of containers, in the order they are named in.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A pod that is there.
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    spec: Value,
}

/// The pod in the URL.
pub(super) async fn find(api: &Arc<Api>, ctx: &RequestContext) -> Result<Pod, Failure> {
    let (namespace, name) = (ctx.info.namespace.clone(), ctx.info.name.clone());
    let pods = api.registry.get("", "v1", "pods").ok_or_else(Status::unknown_resource)?;
    let view = newest(&api.replica).await?;
    let object = view
        .get(&pods.object_key(&namespace, &name))
        .ok_or_else(|| Status::not_found(&GroupResource::new("", "pods"), &name))?;
    let spec = pods.value(object)?["spec"].take();
    Ok(Pod { namespace, name, spec })
}

impl Pod {
    /// The node it is on; empty when it is on none.
    pub(super) fn node(&self) -> &str {
        self.spec["nodeName"].as_str().unwrap_or_default()
    }

    /// The node, for streams that make no sense without one.
    pub(super) fn host(&self) -> Result<&str, Failure> {
        let node = self.node();
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {} does not have a host assigned", self.name)));
        }
        Ok(node)
    }

    /// The container asked for, or the only one.
    pub(super) fn container<'a>(&'a self, asked: &'a str) -> Result<&'a str, Failure> {
        let all = || LISTS.iter().flat_map(|list| names(&self.spec[list]));
        if !asked.is_empty() {
            return all().find(|name| *name == asked).ok_or_else(|| {
                Status::bad_request(format!("container {asked} is not valid for pod {}", self.name))
            });
        }
        let mut own = names(&self.spec["containers"]);
        if let (Some(only), None) = (own.next(), own.next()) {
            return Ok(only);
        }
        let choice = all().collect::<Vec<_>>().join(" ");
        let pod = &self.name;
        Err(Status::bad_request(if choice.is_empty() {
            format!("a container name must be specified for pod {pod}")
        } else {
            format!("a container name must be specified for pod {pod}, choose one of: [{choice}]")
        }))
    }
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(|container| container["name"].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value) -> Pod {
        Pod { namespace: "default".into(), name: "p".into(), spec }
    }

    #[test]
    fn the_only_container_needs_no_name() {
        let one = pod(json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}));
        assert_eq!(one.container("").unwrap(), "a");
        assert_eq!(one.container("i").unwrap(), "i");
        let wrong = one.container("x").unwrap_err();
        assert_eq!((wrong.code, &*wrong.message), (400, "container x is not valid for pod p"));
        let several =
            pod(json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}));
        assert_eq!(
            several.container("").unwrap_err().message,
            "a container name must be specified for pod p, choose one of: [i a b]"
        );
    }
}

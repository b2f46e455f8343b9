"""The public Python client against one cluster (KUBECONFIG): what its users do, and what they expect back."""

import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "python"
PATIENCE = 30  # seconds for any one condition


def refused(code, call, *arguments):
    try:
        call(*arguments)
    except ApiException as error:
        assert error.status == code, f"{error.status}, expected {code}: {error.body}"
    else:
        raise AssertionError(f"expected {code}")


def objects(core):
    created = core.create_namespaced_config_map(
        NAMESPACE, {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}}
    )
    created.data["k"] = "w"
    replaced = core.replace_namespaced_config_map("a", NAMESPACE, created)
    assert replaced.data == {"k": "w"}
    # `created` still carries the version that is gone.
    created.data["k"] = "lost"
    refused(409, core.replace_namespaced_config_map, "a", NAMESPACE, created)
    core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"z": "1"}})
    (found,) = core.list_namespaced_config_map(NAMESPACE, label_selector="x=y").items
    assert found.data == {"k": "w", "z": "1"}, found.data
    refused(404, core.read_namespaced_config_map, "b", NAMESPACE)
    refused(422, core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "No"}})


def watches(core):
    listed = core.list_namespaced_config_map(NAMESPACE)
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "watched"}})
    core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"k": "v"}})
    core.delete_namespaced_config_map("watched", NAMESPACE)
    seen = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        field_selector="metadata.name=watched",
        resource_version=listed.metadata.resource_version,
        timeout_seconds=PATIENCE,
    )
    for event in stream:
        seen.append(event["type"])
        if event["type"] == "DELETED":
            break
    assert seen == ["ADDED", "MODIFIED", "DELETED"], seen


def workloads(apps):
    labels = {"app": "d"}
    container = client.V1Container(name="c", image="i")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    deployment = client.V1Deployment(metadata=client.V1ObjectMeta(name="d"), spec=spec)
    created = apps.create_namespaced_deployment(NAMESPACE, deployment)
    assert created.spec.strategy.rolling_update.max_surge == "25%"
    apps.patch_namespaced_deployment_scale("d", NAMESPACE, {"spec": {"replicas": 3}})
    assert apps.read_namespaced_deployment_scale("d", NAMESPACE).spec.replicas == 3


def discovered(dyn):
    vips = dyn.resources.get(api_version="netwrangler.dev/v1", kind="VipAddress")
    assert vips.namespaced and vips.get().items == []
    maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied", "namespace": NAMESPACE},
        "data": {"q": "r"},
    }
    applied = maps.server_side_apply(body, field_manager="python")
    (entry,) = applied.metadata.managedFields
    assert (entry.manager, entry.operation) == ("python", "Apply")


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    assert client.VersionApi().get_code().git_version.startswith("v1.")
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    objects(core)
    watches(core)
    workloads(client.AppsV1Api())
    discovered(dynamic.DynamicClient(client.ApiClient()))
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert client.AuthorizationV1Api().create_self_subject_access_review(review).status.allowed
    page = core.list_namespace(limit=2)
    rest = core.list_namespace(limit=100, _continue=page.metadata._continue)
    assert len(page.items) == 2 and len(rest.items) == page.metadata.remaining_item_count
    core.delete_namespace(NAMESPACE)
    end = time.monotonic() + PATIENCE
    while any(item.metadata.name == NAMESPACE for item in core.list_namespace().items):
        assert time.monotonic() < end, "the namespace is still there"
        time.sleep(0.05)


main()

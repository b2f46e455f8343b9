// The public JavaScript client against one cluster (KUBECONFIG): what its users do, and what they expect back.

import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import * as k8s from "@kubernetes/client-node";

const NAMESPACE = "node";
const PATIENCE = 30_000; // milliseconds for any one condition

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);

async function refused(code, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, code, error.body);
    assert.equal(JSON.parse(error.body).kind, "Status");
    return true;
  });
}

/** What `promise` gives, if it does so within PATIENCE. */
async function soon(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not happen`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function objects() {
  const body = { metadata: { name: "a", labels: { x: "y" } }, data: { k: "v" } };
  const created = await core.createNamespacedConfigMap({ namespace: NAMESPACE, body });
  assert.ok(created.metadata.creationTimestamp instanceof Date);
  const next = { ...created, data: { k: "w" } };
  const replaced = await core.replaceNamespacedConfigMap({ name: "a", namespace: NAMESPACE, body: next });
  assert.deepEqual(replaced.data, { k: "w" });
  // `next` still carries the version that is gone.
  await refused(409, () => core.replaceNamespacedConfigMap({ name: "a", namespace: NAMESPACE, body: next }));
  await refused(404, () => core.readNamespacedConfigMap({ name: "b", namespace: NAMESPACE }));
  await refused(422, () =>
    core.createNamespacedConfigMap({ namespace: NAMESPACE, body: { metadata: { name: "No" } } }),
  );
  const found = await core.listNamespacedConfigMap({ namespace: NAMESPACE, labelSelector: "x=y" });
  assert.deepEqual(found.items.map((item) => item.data), [{ k: "w" }]);
}

async function patches() {
  const patch = (body, strategy) =>
    core.patchNamespacedConfigMap(
      { name: "a", namespace: NAMESPACE, body, fieldManager: "node" },
      k8s.setHeaderOptions("Content-Type", strategy),
    );
  const json = await patch([{ op: "add", path: "/data/j", value: "1" }], k8s.PatchStrategy.JsonPatch);
  assert.equal(json.data.j, "1");
  const merge = await patch({ data: { j: null, m: "2" } }, k8s.PatchStrategy.MergePatch);
  assert.deepEqual(merge.data, { k: "w", m: "2" });
  const strategic = await patch({ data: { s: "3" } }, k8s.PatchStrategy.StrategicMergePatch);
  assert.equal(strategic.data.s, "3");
  const applied = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" }, data: { z: "4" } };
  const owned = await patch(applied, k8s.PatchStrategy.ServerSideApply);
  const managers = owned.metadata.managedFields.map((entry) => `${entry.manager} ${entry.operation}`);
  assert.ok(managers.includes("node Apply"), managers.join(", "));
  await refused(422, () => patch([{ op: "test", path: "/data/k", value: "no" }], k8s.PatchStrategy.JsonPatch));
}

async function watches() {
  const listed = await core.listNamespacedConfigMap({ namespace: NAMESPACE });
  const watch = new k8s.Watch(config);
  const path = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
  const query = { resourceVersion: listed.metadata.resourceVersion, fieldSelector: "metadata.name=watched" };
  const seen = [];
  let end;
  const ended = new Promise((resolve, reject) => {
    end = (error) => (error ? reject(error) : resolve());
  });
  const controller = await watch.watch(
    path,
    query,
    (phase) => {
      seen.push(phase);
      if (phase === "DELETED") end();
    },
    (error) => end(error),
  );
  await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: { metadata: { name: "watched" } } });
  await core.patchNamespacedConfigMap(
    { name: "watched", namespace: NAMESPACE, body: { data: { k: "v" } } },
    k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.MergePatch),
  );
  await core.deleteNamespacedConfigMap({ name: "watched", namespace: NAMESPACE });
  await soon("the end of the watched object", ended);
  controller.abort();
  assert.deepEqual(seen, ["ADDED", "MODIFIED", "DELETED"]);
}

async function informs() {
  const list = () => core.listNamespacedConfigMap({ namespace: NAMESPACE });
  const informer = k8s.makeInformer(config, `/api/v1/namespaces/${NAMESPACE}/configmaps`, list);
  let expected;
  const next = (verb, name) => {
    const met = new Promise((resolve) => {
      expected = { verb, name, resolve };
    });
    return soon(`${verb} ${name}`, met);
  };
  for (const verb of ["add", "update", "delete"]) {
    informer.on(verb, ({ metadata: { name } }) => {
      if (expected.verb === verb && expected.name === name) expected.resolve();
    });
  }
  const before = next("add", "a");
  await informer.start();
  await before;
  const after = next("add", "informed");
  await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: { metadata: { name: "informed" } } });
  await after;
  const gone = next("delete", "informed");
  await core.deleteNamespacedConfigMap({ name: "informed", namespace: NAMESPACE });
  await gone;
  assert.deepEqual(informer.list(NAMESPACE).map((item) => item.metadata.name).filter((name) => name === "a"), ["a"]);
  await informer.stop();
}

async function workloads() {
  const apps = config.makeApiClient(k8s.AppsV1Api);
  const labels = { app: "d" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
  const body = { metadata: { name: "d" }, spec: { replicas: 1, selector: { matchLabels: labels }, template } };
  const created = await apps.createNamespacedDeployment({ namespace: NAMESPACE, body });
  assert.equal(created.spec.strategy.rollingUpdate.maxSurge, "25%");
  const scale = await apps.readNamespacedDeploymentScale({ name: "d", namespace: NAMESPACE });
  scale.spec.replicas = 3;
  // Controllers write the status meanwhile.
  delete scale.metadata.resourceVersion;
  await apps.replaceNamespacedDeploymentScale({ name: "d", namespace: NAMESPACE, body: scale });
  const scaled = await apps.readNamespacedDeployment({ name: "d", namespace: NAMESPACE });
  assert.equal(scaled.spec.replicas, 3);
}

/** Objects of any kind, found by discovery: how manifests are applied from JavaScript. */
async function manifests() {
  const client = k8s.KubernetesObjectApi.makeApiClient(config);
  const role = {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: { name: "r", namespace: NAMESPACE },
    rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }],
  };
  await client.create(role);
  const read = await client.read(role);
  assert.deepEqual({ ...read.rules[0] }, role.rules[0]);
  await client.delete(role);
  await refused(404, () => client.read(role));
}

/** A Pod that is on no node: the handshake of a WebSocket is answered with why there can be no stream. */
async function streams() {
  const body = { metadata: { name: "p" }, spec: { containers: [{ name: "c", image: "i" }] } };
  await core.createNamespacedPod({ namespace: NAMESPACE, body });
  const exec = new k8s.Exec(config);
  await assert.rejects(soon("the end of exec", exec.exec(NAMESPACE, "p", "c", ["true"], null, null, null, false)));
  // Its log is empty, and no failure.
  const written = new PassThrough();
  await soon("the log", new k8s.Log(config).log(NAMESPACE, "p", "c", written, {}));
  assert.equal(written.read(), null);
}

async function main() {
  const version = await config.makeApiClient(k8s.VersionApi).getCode();
  assert.match(version.gitVersion, /^v1\./);
  await core.createNamespace({ body: { metadata: { name: NAMESPACE } } });
  await objects();
  await patches();
  await watches();
  await informs();
  await workloads();
  await manifests();
  await streams();
  const review = { spec: { resourceAttributes: { verb: "get", resource: "pods" } } };
  const authorization = config.makeApiClient(k8s.AuthorizationV1Api);
  assert.ok((await authorization.createSelfSubjectAccessReview({ body: review })).status.allowed);
  const page = await core.listNamespace({ limit: 2 });
  const rest = await core.listNamespace({ _continue: page.metadata._continue });
  assert.equal(rest.items.length, page.metadata.remainingItemCount);
  await core.deleteNamespace({ name: NAMESPACE });
}

await main();

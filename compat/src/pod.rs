//! A container of a Deployment or DaemonSet, run on a machine of a lab as its kubelet would run it: with exactly the
//! arguments, environment, user, capabilities, volumes and ServiceAccount token that the API's objects say.
//!
//! It has the machine's network, whether the template asks for that or not: a lab has no pod network of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use litek8s_lab::Member;
use serde_json::{Value, json};

use crate::{Background, Cluster, eventually};

/// Where the API server is for pods of a lab: there is nobody who serves the address of its Service.
const API: (&str, &str) = ("192.0.2.250", "6443");
/// Where a kubelet puts the token; the parent of the directory is all ours.
const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";
/// The binary's place in the image.
const ENTRYPOINT: &str = "/run/litek8s";

/// In a mount namespace of its own: a writable `/run` with what the pod mounts, everything else read-only as a container
/// without privileges has it. Then the user, the bounding set and `no_new_privs`, and the program itself.
const CONTAINER: &str = r#"
set -e
account=$1 program=$2 mounts=$3
shift 3
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
touch /run/litek8s
mount --bind "$account" /run/secrets/kubernetes.io/serviceaccount
mount --bind "$program" /run/litek8s
while [ -n "$mounts" ]; do
    first=${mounts%%;*}
    mounts=${mounts#*;}
    mkdir -p "${first#*=}"
    mount --bind "${first%%=*}" "${first#*=}"
done
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -o remount,bind,ro /run
mount -o remount,bind,ro /
exec "$@"
"#;

/// A running container.
#[derive(Debug)]
pub struct Pod {
    /// Its name in the API.
    pub name: String,
    process: Background,
    log: PathBuf,
    /// The files it mounts.
    _files: tempfile::TempDir,
}

impl Pod {
    /// Creates a Pod of the workload's template for a machine, bound to it, and runs its one container there.
    ///
    /// `node_files` stands for the machine's own file system: a `hostPath` is a directory in it and outlives the pod.
    ///
    /// # Errors
    /// When the API refuses the Pod, or something in the template cannot be done here.
    pub fn start(cluster: &Cluster, workload: &Value, machine: &Member, node_files: &Path) -> Result<Self> {
        let namespace = text(&workload["metadata"]["namespace"])?;
        let pod = create(cluster, workload, namespace, machine)?;
        let name = text(&pod["metadata"]["name"])?.to_owned();
        let files = tempfile::tempdir()?;
        let account = account_files(cluster, &pod, files.path())?;
        let mounts = mounts(&pod, node_files)?;
        let log = files.path().join("log");
        let output = fs::File::create(&log)?;

        let container = &pod["spec"]["containers"][0];
        let mut command = cluster.lab.command(machine, "unshare")?;
        command.args(["--mount", "--propagation", "private", "sh", "-c", CONTAINER, "sh"]);
        command.arg(account).arg(cluster.program()).arg(mounts);
        command.arg("setpriv").args(privileges(&pod)?).arg(ENTRYPOINT);
        let environment = environment(&pod)?;
        for argument in container["args"].as_array().into_iter().flatten() {
            command.arg(expand(text(argument)?, &environment));
        }
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(environment);
        command.env("KUBERNETES_SERVICE_HOST", API.0).env("KUBERNETES_SERVICE_PORT", API.1);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(Self { name, process: Background::start(command)?, log, _files: files })
    }

    /// Waits until the readiness probe of its template succeeds.
    ///
    /// # Errors
    /// With the end of its log when it does not.
    pub fn ready(&self, cluster: &Cluster, workload: &Value, machine: &Member) -> Result<()> {
        let probe = &workload["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"];
        let url = self.url(cluster, workload, machine, text(&probe["path"])?)?;
        eventually("a pod to be ready", || cluster.ask(machine, &url, None))
            .with_context(|| format!("{} is not ready:\n{}", self.name, self.log()))
            .map(drop)
    }

    /// What it tells Prometheus.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn metrics(&self, cluster: &Cluster, workload: &Value, machine: &Member) -> Result<String> {
        cluster.ask(machine, &self.url(cluster, workload, machine, "/metrics")?, None)
    }

    fn url(&self, cluster: &Cluster, workload: &Value, machine: &Member, path: &str) -> Result<String> {
        let ports = &workload["spec"]["template"]["spec"]["containers"][0]["ports"];
        let port = ports[0]["containerPort"].as_u64().context("no port")?;
        Ok(format!("http://{}:{port}{path}", address_of(cluster, machine)?))
    }

    /// What it wrote.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it as a kubelet does, and deletes the Pod. Gives what it wrote.
    ///
    /// # Errors
    /// When it does not end well.
    pub fn stop(self, cluster: &Cluster, namespace: &str) -> Result<String> {
        let log = self.log.clone();
        self.process.terminate().with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        cluster.kubectl.ok(&["-n", namespace, "delete", "pod", &self.name, "--force", "--grace-period=0"])?;
        Ok(fs::read_to_string(&log)?)
    }

    /// Kills it; its Pod stays.
    pub fn kill(self) {
        drop(self.process);
    }
}

/// The Pod in the API. Without the template's labels: a controller that counts pods must not count this one.
fn create(cluster: &Cluster, workload: &Value, namespace: &str, machine: &Member) -> Result<Value> {
    let mut spec = workload["spec"]["template"]["spec"].clone();
    spec["nodeName"] = json!(machine.to_string());
    let prefix = format!("{}-", text(&workload["metadata"]["name"])?);
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": prefix, "namespace": namespace}, "spec": spec});
    let made = cluster.kubectl.run(&["create", "-f", "-", "-o", "json"], &pod.to_string())?;
    let made: Value = serde_json::from_str(&made.success(&["create", "pod"])?)?;
    let address = address_of(cluster, machine)?;
    let status = json!({"status": {"phase": "Running", "hostIP": address, "podIP": address}});
    let name = text(&made["metadata"]["name"])?;
    cluster.kubectl.json(&[
        "-n",
        namespace,
        "patch",
        "pod",
        name,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ])
}

/// The node's InternalIP.
fn address_of(cluster: &Cluster, machine: &Member) -> Result<String> {
    let node = cluster.kubectl.json(&["get", "node", &machine.to_string()])?;
    Ok(text(&node["status"]["addresses"][0]["address"])?.to_owned())
}

/// The files of the volume that the API server has put into the Pod.
fn account_files(cluster: &Cluster, pod: &Value, directory: &Path) -> Result<PathBuf> {
    let mounted = pod["spec"]["containers"][0]["volumeMounts"].as_array().into_iter().flatten();
    let path = ACCOUNT.replacen("/run", "/var/run", 1);
    ensure!(
        mounted.into_iter().any(|mount| mount["mountPath"] == path.as_str()),
        "no token is mounted: {pod}"
    );
    let (namespace, name) = (text(&pod["metadata"]["namespace"])?, text(&pod["metadata"]["name"])?);
    let account = text(&pod["spec"]["serviceAccountName"])?;
    let kubectl = &cluster.kubectl;
    let token = kubectl.ok(&[
        "-n",
        namespace,
        "create",
        "token",
        account,
        "--bound-object-kind=Pod",
        &format!("--bound-object-name={name}"),
    ])?;
    let ca = kubectl.json(&["-n", namespace, "get", "configmap", "kube-root-ca.crt"])?;
    let folder = directory.join("account");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let contents =
        [("token", token.trim()), ("ca.crt", text(&ca["data"]["ca.crt"])?), ("namespace", namespace)];
    for (file, content) in contents {
        fs::write(folder.join(file), content)?;
        fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o644))?;
    }
    Ok(folder)
}

/// `source=target;` for each hostPath.
fn mounts(pod: &Value, node_files: &Path) -> Result<String> {
    let mut list = String::new();
    let volumes = pod["spec"]["volumes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for mount in pod["spec"]["containers"][0]["volumeMounts"].as_array().into_iter().flatten() {
        let volume =
            volumes.iter().find(|volume| volume["name"] == mount["name"]).context("no such volume")?;
        let Some(path) = volume["hostPath"]["path"].as_str() else {
            ensure!(volume["projected"].is_object(), "a volume that cannot be had here: {volume}");
            continue;
        };
        let source = node_files.join(path.trim_start_matches('/'));
        fs::create_dir_all(&source)?;
        list.push_str(&format!("{}={};", source.display(), text(&mount["mountPath"])?));
    }
    Ok(list)
}

/// The security context as arguments of setpriv(1). What a runtime grants without one is not imitated: it is an error.
fn privileges(pod: &Value) -> Result<Vec<String>> {
    let (outer, inner) = (&pod["spec"]["securityContext"], &pod["spec"]["containers"][0]["securityContext"]);
    let number = |field: &str| inner[field].as_u64().or_else(|| outer[field].as_u64());
    let user = number("runAsUser").context("no runAsUser")?;
    let group = number("runAsGroup").context("no runAsGroup")?;
    ensure!(user != 0 || outer["runAsNonRoot"] != true, "runAsNonRoot as user 0");
    ensure!(inner["capabilities"]["drop"] == json!(["ALL"]), "not all capabilities are dropped");
    ensure!(inner["allowPrivilegeEscalation"] == false, "privileges may grow");
    ensure!(inner["readOnlyRootFilesystem"] == true, "the root file system may be written");
    let mut bounding = "-all".to_owned();
    for capability in inner["capabilities"]["add"].as_array().into_iter().flatten() {
        bounding.push_str(&format!(",+{}", text(capability)?.to_lowercase()));
    }
    Ok(vec![
        "--reuid".into(),
        user.to_string(),
        "--regid".into(),
        group.to_string(),
        "--clear-groups".into(),
        "--inh-caps=-all".into(),
        format!("--bounding-set={bounding}"),
        "--no-new-privs".into(),
    ])
}

fn environment(pod: &Value) -> Result<Vec<(String, String)>> {
    let variables = pod["spec"]["containers"][0]["env"].as_array().into_iter().flatten();
    variables
        .map(|variable| {
            let name = text(&variable["name"])?.to_owned();
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some(path) => path.split('.').fold(pod, |value, field| &value[field]),
                None => &variable["value"],
            };
            Ok((name, text(value)?.to_owned()))
        })
        .collect()
}

/// `$(NAME)` as Kubernetes expands it.
fn expand(argument: &str, environment: &[(String, String)]) -> String {
    environment
        .iter()
        .fold(argument.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

fn text(value: &Value) -> Result<&str> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => bail!("not a text: {value}"),
    }
}

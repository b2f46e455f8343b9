//! kubectl's reading commands: get in its forms, describe, explain, wait, auth can-i, api-resources.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Cluster, PATIENCE, eventually};

use super::manifests::{config, config_map, list, network, service};

#[tokio::test]
async fn get_prints_every_format() -> Result<()> {
    let cluster = Cluster::up("kget", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.apply(&list(&[
        config_map("one", "1"),
        config_map("two", "2"),
        service("web", &["203.0.113.10"]),
    ]))?;

    let table = kubectl.ok(&["get", "configmaps"])?;
    ensure!(table.starts_with("NAME"), "{table}");
    ensure!(table.contains("DATA") && table.contains("AGE") && table.contains("one"), "{table}");
    let wide = kubectl.ok(&["get", "services", "-o", "wide"])?;
    ensure!(
        wide.contains("EXTERNAL-IP") && wide.contains("SELECTOR") && wide.contains("203.0.113.10"),
        "{wide}"
    );
    let yaml = kubectl.ok(&["get", "cm", "one", "-o", "yaml"])?;
    ensure!(yaml.contains("kind: ConfigMap") && yaml.contains("key: \"1\""), "{yaml}");
    let json = kubectl.json(&["get", "configmap", "one"])?;
    ensure!(json["data"]["key"] == "1", "{json}");
    let names = kubectl.ok(&["get", "configmaps", "one", "two", "-o", "name"])?;
    ensure!(names == "configmap/one\nconfigmap/two\n", "{names}");
    let path = kubectl.ok(&["get", "cm", "two", "-o", "jsonpath={.data.key}"])?;
    ensure!(path == "2", "{path}");
    let columns =
        kubectl.ok(&["get", "cm", "two", "-o", "custom-columns=N:.metadata.name", "--no-headers"])?;
    ensure!(columns.trim() == "two", "{columns}");
    let selected = kubectl.ok(&["get", "cm", "--field-selector", "metadata.name=two", "-o", "name"])?;
    ensure!(selected == "configmap/two\n", "{selected}");
    let several = kubectl.ok(&["get", "cm,svc", "-A", "--show-labels"])?;
    ensure!(several.contains("netwrangler.dev/ingress=enabled"), "{several}");
    let missing = kubectl.run(&["get", "cm", "three"], "")?;
    ensure!(missing.stderr.contains(r#"configmaps "three" not found"#), "{missing:?}");
    let unknown = kubectl.run(&["get", "gadgets"], "")?;
    ensure!(unknown.stderr.contains(r#"the server doesn't have a resource type "gadgets""#), "{unknown:?}");
    Ok(())
}

#[tokio::test]
async fn a_list_in_chunks_is_the_whole_list() -> Result<()> {
    let cluster = Cluster::up("kchunk", 0).await?;
    let maps: Vec<_> = (0..25).map(|number| config_map(&format!("map-{number:02}"), "x")).collect();
    cluster.kubectl.apply(&list(&maps))?;
    let whole = cluster.kubectl.ok(&["get", "cm", "-o", "name", "--chunk-size=0"])?;
    let chunks = cluster.kubectl.ok(&["get", "cm", "-o", "name", "--chunk-size=7"])?;
    ensure!(whole == chunks, "{chunks}");
    ensure!(whole.lines().filter(|line| line.contains("map-")).count() == 25, "{whole}");
    Ok(())
}

#[tokio::test]
async fn a_watch_shows_what_happens_after_it_began() -> Result<()> {
    let cluster = Cluster::up("kwatch", 0).await?;
    cluster.kubectl.apply(&config_map("seen", "1").to_string())?;
    let arguments = ["get", "cm", "-w", "-o", "jsonpath={.metadata.name}={.data.key}{\"\\n\"}"];
    let mut watching =
        cluster.kubectl.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let stdout = watching.stdout.take().context("no output")?;
    let (lines, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let expect = |wanted: &str| loop {
        let line = seen.recv_timeout(PATIENCE).with_context(|| format!("waiting for {wanted}"))?;
        if line == wanted {
            return anyhow::Ok(());
        }
    };
    let shown = || {
        expect("seen=1")?;
        cluster.kubectl.apply(&config_map("seen", "2").to_string())?;
        expect("seen=2")?;
        cluster.kubectl.apply(&config_map("late", "3").to_string())?;
        expect("late=3")
    };
    let outcome = shown();
    watching.kill()?;
    watching.wait()?;
    outcome
}

#[tokio::test]
async fn describe_shows_an_object_and_its_events() -> Result<()> {
    let cluster = Cluster::up("kdescribe", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.apply(&list(&[
        config(),
        network(),
        config_map("one", "1"),
        service("web", &["203.0.113.10"]),
    ]))?;
    let map = kubectl.ok(&["describe", "configmap", "one"])?;
    ensure!(map.contains("Name:") && map.contains("key:"), "{map}");
    let web = kubectl.ok(&["describe", "service", "web"])?;
    ensure!(web.contains("203.0.113.10") && web.contains("Events:"), "{web}");
    let vip_network = kubectl.ok(&["describe", "vipnetwork", "public"])?;
    ensure!(vip_network.contains("203.0.113.254"), "{vip_network}");
    Ok(())
}

#[tokio::test]
async fn explain_knows_fields_of_built_in_and_custom_kinds() -> Result<()> {
    let cluster = Cluster::up("kexplain", 0).await?;
    for (path, wanted) in [
        ("service.spec.externalIPs", "[]string"),
        ("endpointslice.endpoints", "[]Endpoint"),
        ("configmap.data", "map[string]string"),
        ("vipconfig.spec.firewallMarkMask", "integer"),
        ("vipnetwork.spec.sourceCIDRs", "[]string"),
        ("vipaddress.status", "Object"),
    ] {
        let text = cluster.kubectl.ok(&["explain", path])?;
        ensure!(text.contains(wanted) && text.contains("DESCRIPTION"), "{path}:\n{text}");
    }
    let tree = cluster.kubectl.ok(&["explain", "vipnetwork", "--recursive"])?;
    ensure!(tree.contains("gatewayIP") && tree.contains("networkCIDR"), "{tree}");
    let wrong = cluster.kubectl.run(&["explain", "service.spec.nonsense"], "")?;
    ensure!(wrong.code != 0 && wrong.stderr.contains("does not exist"), "{wrong:?}");
    Ok(())
}

#[tokio::test]
async fn wait_ends_when_the_condition_holds() -> Result<()> {
    let cluster = Cluster::up("kwait", 0).await?;
    let kubectl = &cluster.kubectl;
    let established = "--for=condition=Established";
    kubectl.ok(&["wait", established, "crd/vipaddresses.netwrangler.dev", "--timeout=30s"])?;
    kubectl.apply(&config_map("one", "1").to_string())?;
    kubectl.ok(&["wait", "--for=jsonpath={.data.key}=1", "cm/one", "--timeout=10s"])?;

    let waiting = |condition: &'static str, name: &'static str| {
        let mut command = kubectl.command(&["wait", condition, name, "--timeout=30s"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let changed = waiting("--for=jsonpath={.data.key}=2", "cm/one")?;
    kubectl.apply(&config_map("one", "2").to_string())?;
    let output = changed.wait_with_output()?;
    ensure!(output.status.success(), "{output:?}");
    let deleted = waiting("--for=delete", "cm/one")?;
    kubectl.ok(&["delete", "cm", "one", "--wait=false"])?;
    let output = deleted.wait_with_output()?;
    ensure!(output.status.success(), "{output:?}");
    let late = waiting("--for=create", "cm/late")?;
    kubectl.apply(&config_map("late", "1").to_string())?;
    let output = late.wait_with_output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn auth_can_i_answers_for_others_too() -> Result<()> {
    let cluster = Cluster::up("kauth", 0).await?;
    let kubectl = &cluster.kubectl;
    ensure!(kubectl.ok(&["auth", "can-i", "*", "*"])?.trim() == "yes");
    kubectl.ok(&["create", "serviceaccount", "reader"])?;
    kubectl.ok(&["create", "role", "read", "--verb=get,list,watch", "--resource=configmaps"])?;
    kubectl.ok(&["create", "rolebinding", "read", "--role=read", "--serviceaccount=default:reader"])?;
    let reader = "--as=system:serviceaccount:default:reader";
    eventually("the binding to count", || {
        let answer = kubectl.run(&["auth", "can-i", "get", "configmaps", reader], "")?;
        if answer.stdout.trim() == "yes" { Ok(()) } else { bail!("{answer:?}") }
    })?;
    let refused = kubectl.run(&["auth", "can-i", "delete", "configmaps", reader], "")?;
    ensure!(refused.code == 1 && refused.stdout.trim() == "no", "{refused:?}");
    let rules = kubectl.ok(&["auth", "can-i", "--list", reader])?;
    ensure!(rules.contains("configmaps"), "{rules}");
    let me = kubectl.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?;
    ensure!(!me.is_empty());
    let denied = kubectl.run(&["get", "secrets", reader], "")?;
    ensure!(denied.stderr.contains("secrets is forbidden"), "{denied:?}");
    Ok(())
}

#[tokio::test]
async fn api_resources_lists_built_in_and_custom_kinds() -> Result<()> {
    let cluster = Cluster::up("kresources", 0).await?;
    let kubectl = &cluster.kubectl;
    let resources = kubectl.ok(&["api-resources"])?;
    for name in [
        "configmaps",
        "secrets",
        "services",
        "nodes",
        "pods",
        "events",
        "leases",
        "endpointslices",
        "networkpolicies",
        "deployments",
        "daemonsets",
        "replicasets",
        "customresourcedefinitions",
        "apiservices",
        "roles",
        "clusterrolebindings",
        "vipconfigs",
        "vipnetworks",
        "vipgateways",
        "viproutes",
        "vipguards",
        "vipaddresses",
    ] {
        let found = resources.lines().any(|line| line.split_whitespace().next() == Some(name));
        ensure!(found, "{name} is missing:\n{resources}");
    }
    let ours =
        kubectl.ok(&["api-resources", "--api-group=netwrangler.dev", "--namespaced=false", "-o", "name"])?;
    ensure!(!ours.contains("vipaddresses") && ours.contains("vipconfigs.netwrangler.dev"), "{ours}");
    let versions = kubectl.ok(&["api-versions"])?;
    for version in
        ["v1", "apps/v1", "discovery.k8s.io/v1", "rbac.authorization.k8s.io/v1", "netwrangler.dev/v1"]
    {
        ensure!(versions.lines().any(|line| line == version), "{version} is missing:\n{versions}");
    }
    let version = kubectl.json(&["version"])?;
    ensure!(version["serverVersion"]["gitVersion"].as_str().is_some_and(|v| v.starts_with('v')), "{version}");
    Ok(())
}

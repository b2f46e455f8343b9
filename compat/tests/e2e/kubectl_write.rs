//! kubectl's writing commands: apply in both kinds, edit, label, annotate, patch, diff, delete.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, bail, ensure};
use litek8s_compat::{Cluster, eventually};
use serde_json::json;

use super::manifests::{config, config_map, list, service};

#[tokio::test]
async fn apply_creates_configures_and_leaves_alone() -> Result<()> {
    let cluster = Cluster::up("kapply", 0).await?;
    let kubectl = &cluster.kubectl;
    let one = config_map("one", "1").to_string();
    ensure!(kubectl.apply(&one)? == "configmap/one created\n");
    ensure!(kubectl.apply(&one)? == "configmap/one unchanged\n");
    ensure!(kubectl.apply(&config_map("one", "2").to_string())? == "configmap/one configured\n");
    let vips = config().to_string();
    ensure!(kubectl.apply(&vips)? == "vipconfig.netwrangler.dev/default created\n");
    ensure!(kubectl.apply(&vips)? == "vipconfig.netwrangler.dev/default unchanged\n");

    // A key that is gone from the manifest goes from the object; what others wrote stays.
    kubectl.ok(&["patch", "cm", "one", "--type=merge", "-p", r#"{"data":{"other":"kept"}}"#])?;
    let renamed =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"new": "3"}});
    kubectl.apply(&renamed.to_string())?;
    let data = kubectl.json(&["get", "cm", "one"])?["data"].clone();
    ensure!(data == json!({"new": "3", "other": "kept"}), "{data}");

    // List-map keys: one port of two changes, the other stays.
    kubectl.apply(&service("web", &["203.0.113.10"]).to_string())?;
    let mut two = service("web", &["203.0.113.10", "203.0.113.11"]);
    two["spec"]["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 443}]);
    kubectl.apply(&two.to_string())?;
    let spec = kubectl.json(&["get", "svc", "web"])?["spec"].clone();
    ensure!(
        spec["ports"].as_array().map(Vec::len) == Some(2) && spec["externalIPs"][1] == "203.0.113.11",
        "{spec}"
    );
    let unknown = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "dada": {}});
    let refusal = kubectl.refused(&unknown.to_string())?;
    ensure!(refusal.contains(r#"unknown field "dada""#), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn a_list_is_applied_item_by_item() -> Result<()> {
    let cluster = Cluster::up("klist", 0).await?;
    let items = [config_map("one", "1"), config_map("two", "2")];
    let printed =
        cluster.kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
    ensure!(printed == "configmap/one created\nconfigmap/two created\n", "{printed}");
    Ok(())
}

#[tokio::test]
async fn server_side_apply_names_the_manager_it_conflicts_with() -> Result<()> {
    let cluster = Cluster::up("kssa", 0).await?;
    let kubectl = &cluster.kubectl;
    let apply = |value: &str, manager: &str, force: bool| {
        let manager = format!("--field-manager={manager}");
        let mut arguments = vec!["apply", "--server-side", &manager, "-f", "-"];
        arguments.extend(force.then_some("--force-conflicts"));
        kubectl.run(&arguments, &config_map("shared", value).to_string())
    };
    ensure!(apply("1", "first", false)?.stdout == "configmap/shared serverside-applied\n");
    let conflict = apply("2", "second", false)?;
    ensure!(
        conflict.code != 0 && conflict.stderr.contains(r#"conflict with "first": .data.key"#),
        "{conflict:?}"
    );
    ensure!(apply("2", "second", true)?.code == 0);
    let managers = kubectl.ok(&["get", "cm", "shared", "--show-managed-fields", "-o", "yaml"])?;
    ensure!(managers.contains("manager: second") && managers.contains("operation: Apply"), "{managers}");
    Ok(())
}

#[tokio::test]
async fn edit_saves_what_the_editor_left() -> Result<()> {
    let cluster = Cluster::up("kedit", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.apply(&list(&[config_map("one", "before"), config()]))?;
    let directory = tempfile::tempdir()?;
    let editor = directory.path().join("editor");
    let edit = |script: &str, what: &[&str]| {
        std::fs::write(&editor, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755))?;
        let arguments: Vec<&str> = ["edit"].into_iter().chain(what.iter().copied()).collect();
        anyhow::Ok(kubectl.command(&arguments).env("KUBE_EDITOR", &editor).output()?)
    };
    let edited = edit(r#"sed -i 's/before/after/' "$1""#, &["cm", "one"])?;
    ensure!(edited.status.success(), "{edited:?}");
    ensure!(kubectl.json(&["get", "cm", "one"])?["data"]["key"] == "after");
    let custom =
        edit(r#"sed -i 's/maxAddressCount: 127/maxAddressCount: 9/' "$1""#, &["vipconfig", "default"])?;
    ensure!(custom.status.success(), "{custom:?}");
    ensure!(kubectl.json(&["get", "vipconfig", "default"])?["spec"]["maxAddressCount"] == 9);
    let untouched = edit("exit 0", &["cm", "one"])?;
    ensure!(String::from_utf8_lossy(&untouched.stderr).contains("no changes made"), "{untouched:?}");
    Ok(())
}

#[tokio::test]
async fn labels_and_annotations_come_change_and_go() -> Result<()> {
    let cluster = Cluster::up("klabel", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.apply(&list(&[config_map("one", "1"), config_map("two", "2")]))?;
    kubectl.ok(&["label", "cm", "one", "tier=front"])?;
    let refused = kubectl.run(&["label", "cm", "one", "tier=back"], "")?;
    ensure!(refused.code != 0 && refused.stderr.contains("--overwrite"), "{refused:?}");
    kubectl.ok(&["label", "cm", "one", "tier=back", "--overwrite"])?;
    for (selector, wanted) in [("tier=back", "configmap/one\n"), ("tier in (back,x)", "configmap/one\n")] {
        ensure!(kubectl.ok(&["get", "cm", "-l", selector, "-o", "name"])? == wanted, "{selector}");
    }
    let others = kubectl.ok(&["get", "cm", "-l", "!tier", "-o", "name"])?;
    ensure!(others.contains("configmap/two") && !others.contains("configmap/one"), "{others}");
    kubectl.ok(&["label", "cm", "one", "tier-"])?;
    ensure!(kubectl.ok(&["get", "cm", "-l", "tier", "-o", "name"])?.is_empty());
    kubectl.ok(&["annotate", "cm", "one", "note=hello there"])?;
    ensure!(kubectl.json(&["get", "cm", "one"])?["metadata"]["annotations"]["note"] == "hello there");
    kubectl.ok(&["annotate", "cm", "one", "note-"])?;
    ensure!(kubectl.json(&["get", "cm", "one"])?["metadata"]["annotations"]["note"].is_null());
    Ok(())
}

#[tokio::test]
async fn patch_works_in_its_three_kinds() -> Result<()> {
    let cluster = Cluster::up("kpatch", 0).await?;
    let kubectl = &cluster.kubectl;
    let mut web = service("web", &["203.0.113.10"]);
    web["spec"]["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 443}]);
    kubectl.apply(&list(&[web, config()]))?;
    let patch = |kind: &str, object: &str, text: &str| {
        let (resource, name) = object.split_once('/').unwrap_or((object, ""));
        kubectl.run(&["patch", resource, name, &format!("--type={kind}"), "-p", text], "")
    };
    // Strategic: ports merge by their key.
    let strategic = patch("strategic", "svc/web", r#"{"spec":{"ports":[{"port":443,"targetPort":8443}]}}"#)?;
    ensure!(strategic.code == 0, "{strategic:?}");
    let ports = kubectl.json(&["get", "svc", "web"])?["spec"]["ports"].clone();
    ensure!(ports.as_array().map(Vec::len) == Some(2) && ports[1]["targetPort"] == 8443, "{ports}");
    // Merge: a list is replaced, null removes.
    let merge =
        patch("merge", "svc/web", r#"{"spec":{"externalIPs":["203.0.113.12"]},"metadata":{"labels":null}}"#)?;
    ensure!(merge.code == 0, "{merge:?}");
    let object = kubectl.json(&["get", "svc", "web"])?;
    ensure!(object["spec"]["externalIPs"] == json!(["203.0.113.12"]), "{object}");
    ensure!(object["metadata"]["labels"].is_null(), "{object}");
    // JSON: a test that fails changes nothing.
    let json_patch = r#"[{"op":"test","path":"/spec/ports/0/port","value":80},{"op":"replace","path":"/spec/ports/0/port","value":81}]"#;
    ensure!(patch("json", "svc/web", json_patch)?.code == 0);
    let again = patch("json", "svc/web", json_patch)?;
    ensure!(again.code != 0, "{again:?}");
    ensure!(kubectl.json(&["get", "svc", "web"])?["spec"]["ports"][0]["port"] == 81);
    // Custom kinds take merge and JSON; strategic is for built-in ones.
    ensure!(patch("merge", "vipconfig/default", r#"{"spec":{"maxAddressCount":5}}"#)?.code == 0);
    let unsupported = patch("strategic", "vipconfig/default", r#"{"spec":{"maxAddressCount":6}}"#)?;
    ensure!(unsupported.code != 0, "{unsupported:?}");
    ensure!(kubectl.json(&["get", "vipconfig", "default"])?["spec"]["maxAddressCount"] == 5);
    Ok(())
}

#[tokio::test]
async fn diff_shows_a_change_and_makes_none() -> Result<()> {
    let cluster = Cluster::up("kdiff", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.apply(&list(&[config_map("one", "before"), config()]))?;
    let same = kubectl.run(&["diff", "-f", "-"], &config_map("one", "before").to_string())?;
    ensure!(same.code == 0 && same.stdout.is_empty(), "{same:?}");
    let differs = kubectl.run(&["diff", "-f", "-"], &config_map("one", "after").to_string())?;
    ensure!(differs.code == 1 && differs.stdout.contains("+  key: after"), "{differs:?}");
    ensure!(kubectl.json(&["get", "cm", "one"])?["data"]["key"] == "before");
    let mut changed = config();
    changed["spec"]["maxAddressCount"] = 5.into();
    for arguments in [&["diff", "-f", "-"][..], &["diff", "--server-side", "--force-conflicts", "-f", "-"]] {
        let custom = kubectl.run(arguments, &changed.to_string())?;
        ensure!(custom.code == 1 && custom.stdout.contains("+  maxAddressCount: 5"), "{custom:?}");
    }
    Ok(())
}

#[tokio::test]
async fn delete_follows_finalizers_selectors_and_owners() -> Result<()> {
    let cluster = Cluster::up("kdelete", 0).await?;
    let kubectl = &cluster.kubectl;
    let mut held = config_map("held", "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let mut labelled = config_map("labelled", "1");
    labelled["metadata"]["labels"] = json!({"drop": "yes"});
    kubectl.apply(&list(&[held, labelled, config_map("first", "1"), config_map("second", "1")]))?;

    ensure!(kubectl.ok(&["delete", "cm", "-l", "drop=yes"])?.contains(r#"configmap "labelled" deleted"#));
    kubectl.ok(&["delete", "cm", "held", "--wait=false"])?;
    ensure!(!kubectl.json(&["get", "cm", "held"])?["metadata"]["deletionTimestamp"].is_null());
    kubectl.ok(&["patch", "cm", "held", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#])?;
    ensure!(kubectl.run(&["get", "cm", "held"], "")?.code != 0);

    // An object with two owners goes with the last of them.
    let owner = |name: &str| {
        let uid = kubectl.json(&["get", "cm", name])?["metadata"]["uid"].clone();
        anyhow::Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}))
    };
    let mut child = config_map("child", "1");
    child["metadata"]["ownerReferences"] = json!([owner("first")?, owner("second")?]);
    kubectl.apply(&child.to_string())?;
    kubectl.ok(&["delete", "cm", "first"])?;
    eventually("one owner to be left", || {
        let owners = kubectl.json(&["get", "cm", "child"])?["metadata"]["ownerReferences"].clone();
        if owners.as_array().map(Vec::len) == Some(1) { Ok(()) } else { bail!("{owners}") }
    })?;
    kubectl.ok(&["delete", "cm", "second"])?;
    eventually("the child to go", || {
        if kubectl.run(&["get", "cm", "child"], "")?.code == 0 { bail!("it is there") } else { Ok(()) }
    })?;
    kubectl.ok(&["create", "namespace", "short"])?;
    kubectl.ok(&["create", "configmap", "inside", "-n", "short", "--from-literal=a=b"])?;
    kubectl.ok(&["delete", "namespace", "short", "--timeout=30s"])?;
    ensure!(kubectl.run(&["get", "cm", "inside", "-n", "short"], "")?.code != 0);
    Ok(())
}

#[tokio::test]
async fn a_stale_replace_is_a_conflict() -> Result<()> {
    let cluster = Cluster::up("kreplace", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.apply(&config_map("one", "1").to_string())?;
    let stale = kubectl.ok(&["get", "cm", "one", "-o", "json"])?;
    kubectl.ok(&["label", "cm", "one", "changed=yes"])?;
    let refused = kubectl.run(&["replace", "-f", "-"], &stale)?;
    ensure!(refused.code != 0 && refused.stderr.contains("the object has been modified"), "{refused:?}");
    Ok(())
}

//! Pods with names, numbers and volumes.

use serde_json::{Value, json};

use crate::reconcile::kind::Kind;
use crate::reconcile::tests::{World, template};

fn set(replicas: i64, more: Value) -> Value {
    let mut spec = json!({
        "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", "a"),
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key.as_str()] = value.clone();
    }
    json!({"spec": spec})
}

fn claimed(more: Value) -> Value {
    let mut spec = json!({"volumeClaimTemplates": [{
        "metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]},
    }]});
    for (key, value) in more.as_object().unwrap() {
        spec[key.as_str()] = value.clone();
    }
    spec
}

fn world(replicas: i64, more: Value) -> World {
    let mut world = World::new();
    world.add(Kind::StatefulSet, "db", set(replicas, more));
    world.settle();
    world
}

fn status(world: &World) -> Value {
    world.get(Kind::StatefulSet, "db")["status"].clone()
}

fn scale(world: &mut World, replicas: i64) {
    world.edit(Kind::StatefulSet, "db", |set| set["spec"]["replicas"] = json!(replicas));
    world.settle();
}

fn set_image(world: &mut World, image: &str) {
    world.edit(Kind::StatefulSet, "db", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
    world.settle();
}

fn images(world: &World) -> Vec<String> {
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    world.list(Kind::Pod).iter().map(image).collect()
}

fn end_marked(world: &mut World) {
    for pod in world.list(Kind::Pod) {
        if pod["metadata"]["deletionTimestamp"].is_string() {
            world.gone(Kind::Pod, pod["metadata"]["name"].as_str().unwrap());
        }
    }
    world.settle();
}

#[test]
fn pods_come_one_after_the_other_and_know_who_they_are() {
    let mut world = world(3, json!({}));
    assert_eq!(world.names(Kind::Pod), ["db-0"], "the second waits for the first");
    let pod = world.get(Kind::Pod, "db-0");
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-0");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");
    assert_eq!(labels["controller-revision-hash"], status(&world)["updateRevision"]);
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("db-0"), &json!("db")));
    world.run_pods();
    world.settle();
    assert_eq!(world.names(Kind::Pod), ["db-0", "db-1"]);
    world.live();
    assert_eq!(world.names(Kind::Pod), ["db-0", "db-1", "db-2"]);
    let status = status(&world);
    for field in ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"] {
        assert_eq!(status[field], 3, "{field}");
    }
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(world.names(Kind::ControllerRevision), [status["updateRevision"].as_str().unwrap()]);
}

#[test]
fn pods_go_in_descending_order_and_only_while_the_others_work() {
    let mut world = world(3, json!({}));
    world.live();
    scale(&mut world, 1);
    let marked =
        |world: &World, name: &str| world.get(Kind::Pod, name)["metadata"]["deletionTimestamp"].is_string();
    assert!(marked(&world, "db-2") && !marked(&world, "db-1"));
    world.edit(Kind::Pod, "db-0", |pod| pod["status"]["conditions"][0]["status"] = json!("False"));
    end_marked(&mut world);
    assert!(!marked(&world, "db-1"), "the first one does not work");
    world.edit(Kind::Pod, "db-0", |pod| pod["status"]["conditions"][0]["status"] = json!("True"));
    world.live();
    assert_eq!(world.names(Kind::Pod), ["db-0"]);
}

#[test]
fn parallel_pods_come_and_go_at_once_and_start_where_they_are_told() {
    let mut world = world(3, json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}));
    assert_eq!(world.names(Kind::Pod), ["db-5", "db-6", "db-7"]);
    scale(&mut world, 0);
    assert!(world.names(Kind::Pod).is_empty(), "no node has them");
}

#[test]
fn many_parallel_pods_come_and_go_in_bursts() {
    let mut world = World::new();
    world.add(Kind::StatefulSet, "db", set(1_001, json!({"podManagementPolicy": "Parallel"})));
    let most = |world: &mut World| std::iter::from_fn(|| world.step()).max();
    assert_eq!(most(&mut world), Some(500));
    assert_eq!(world.list(Kind::Pod).len(), 1_001);
    world.edit(Kind::StatefulSet, "db", |set| set["spec"]["replicas"] = json!(0));
    assert_eq!(most(&mut world), Some(500));
}

#[test]
fn a_pod_that_ended_comes_again_under_its_name() {
    let mut world = world(1, json!({}));
    world.live();
    let uid = world.get(Kind::Pod, "db-0")["metadata"]["uid"].clone();
    world.edit(Kind::Pod, "db-0", |pod| pod["status"]["phase"] = json!("Failed"));
    world.live();
    assert_ne!(world.get(Kind::Pod, "db-0")["metadata"]["uid"], uid);
}

#[test]
fn an_update_goes_from_the_last_to_the_first_and_the_partition_stays() {
    let mut world = world(3, json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}}));
    world.live();
    set_image(&mut world, "b");
    world.live();
    assert_eq!(images(&world), ["a", "a", "b"]);
    let halfway = status(&world);
    assert_ne!(halfway["currentRevision"], halfway["updateRevision"]);
    assert_eq!((&halfway["currentReplicas"], &halfway["updatedReplicas"]), (&json!(2), &json!(1)));
    // One that comes again below the partition is what it was.
    world.delete(Kind::Pod, "db-0");
    world.live();
    assert_eq!(images(&world), ["a", "a", "b"]);
    world.edit(Kind::StatefulSet, "db", |set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
    });
    world.settle();
    end_marked(&mut world);
    assert_eq!(images(&world), ["a", "b", "b"], "one at a time");
    world.live();
    assert_eq!(images(&world), ["b", "b", "b"]);
    assert_eq!(status(&world)["currentRevision"], status(&world)["updateRevision"]);
    assert_eq!(status(&world)["currentReplicas"], 3);
}

#[test]
fn on_delete_waits_for_the_user() {
    let mut world = world(2, json!({"updateStrategy": {"type": "OnDelete"}}));
    world.live();
    set_image(&mut world, "b");
    world.live();
    assert_eq!(images(&world), ["a", "a"]);
    world.delete(Kind::Pod, "db-1");
    world.live();
    assert_eq!(images(&world), ["a", "b"]);
}

#[test]
fn going_back_is_the_old_revision_with_a_new_number() {
    let mut world = world(1, json!({"revisionHistoryLimit": 1}));
    world.live();
    let first = status(&world)["updateRevision"].clone();
    set_image(&mut world, "b");
    world.live();
    set_image(&mut world, "a");
    world.live();
    assert_eq!(status(&world)["updateRevision"], first);
    assert_eq!(world.get(Kind::ControllerRevision, first.as_str().unwrap())["revision"], 3);
    for image in ["c", "d"] {
        set_image(&mut world, image);
        world.live();
    }
    let numbers: Vec<_> =
        world.list(Kind::ControllerRevision).iter().map(|kept| kept["revision"].as_i64().unwrap()).collect();
    assert_eq!(numbers.len(), 2, "the one in use and one to go back to");
    assert!(numbers.contains(&4) && numbers.contains(&5), "{numbers:?}");
}

#[test]
fn a_pod_is_waited_for_until_it_is_available() {
    let mut world = world(2, json!({"minReadySeconds": 10}));
    world.run_pods();
    world.settle();
    assert_eq!(world.names(Kind::Pod), ["db-0"]);
    assert_eq!((world.waits(), &status(&world)["readyReplicas"]), (Some(10), &json!(1)));
    world.pass(10);
    assert_eq!(world.names(Kind::Pod), ["db-0", "db-1"]);
    assert_eq!(status(&world)["availableReplicas"], 1);
}

#[test]
fn claims_come_first_stay_and_are_mounted() {
    let mut world = world(2, claimed(json!({})));
    world.live();
    assert_eq!(world.names(Kind::PersistentVolumeClaim), ["data-db-0", "data-db-1"]);
    let claim = world.get(Kind::PersistentVolumeClaim, "data-db-0");
    assert_eq!(claim["metadata"]["labels"]["app"], "db");
    assert!(claim["metadata"]["ownerReferences"].is_null());
    let volume = &world.get(Kind::Pod, "db-1")["spec"]["volumes"][0];
    assert_eq!(
        (&volume["name"], &volume["persistentVolumeClaim"]["claimName"]),
        (&json!("data"), &json!("data-db-1"))
    );
    scale(&mut world, 0);
    world.live();
    assert_eq!(world.names(Kind::PersistentVolumeClaim), ["data-db-0", "data-db-1"], "they stay");
}

#[test]
fn the_retention_policy_says_whose_claims_are() {
    let policy =
        json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}});
    let mut world = world(2, claimed(policy));
    world.live();
    let owner = |world: &World, name: &str| {
        world.get(Kind::PersistentVolumeClaim, name)["metadata"]["ownerReferences"][0]["kind"].clone()
    };
    assert_eq!(owner(&world, "data-db-1"), "StatefulSet");
    scale(&mut world, 1);
    assert_eq!(
        (owner(&world, "data-db-0"), owner(&world, "data-db-1")),
        (json!("StatefulSet"), json!("Pod"))
    );
    world.live();
    assert_eq!(world.names(Kind::Pod), ["db-0"]);
    scale(&mut world, 2);
    assert_eq!(world.names(Kind::Pod), ["db-0"], "the claim of the old pod still goes");
    world.gone(Kind::PersistentVolumeClaim, "data-db-1");
    world.live();
    assert_eq!(world.names(Kind::Pod), ["db-0", "db-1"]);
    world.edit(Kind::StatefulSet, "db", |set| {
        set["spec"]["persistentVolumeClaimRetentionPolicy"] =
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    });
    world.settle();
    assert_eq!(owner(&world, "data-db-0"), Value::Null);
}

#[test]
fn pods_are_adopted_by_name_and_labels() {
    let mut world = World::new();
    let pod = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}});
    world.add(Kind::Pod, "db-0", pod.clone());
    world.add(Kind::Pod, "other-0", pod);
    world.add(Kind::StatefulSet, "db", set(1, json!({"updateStrategy": {"type": "OnDelete"}})));
    world.live();
    let owned = |name: &str| world.get(Kind::Pod, name)["metadata"]["ownerReferences"].is_array();
    assert!(owned("db-0") && !owned("other-0"));
    let labels = world.get(Kind::Pod, "db-0")["metadata"]["labels"].clone();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-0");
}

//! Rollouts, step by step.

use serde_json::{Value, json};

use crate::reconcile::condition;
use crate::reconcile::kind::Kind;
use crate::reconcile::tests::{World, template};

fn deployment(replicas: i64, more: Value) -> Value {
    let mut spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "a"),
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key.as_str()] = value.clone();
    }
    json!({"spec": spec})
}

fn world(replicas: i64, more: Value) -> World {
    let mut world = World::new();
    world.add(Kind::Deployment, "web", deployment(replicas, more));
    world.live();
    world
}

fn set_image(world: &mut World, image: &str) {
    world.edit(Kind::Deployment, "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

/// Image and replicas of every set, by image.
fn sets(world: &World) -> Vec<(String, i64)> {
    let mut sets: Vec<(String, i64)> = world
        .list(Kind::ReplicaSet)
        .iter()
        .map(|set| {
            let image =
                set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            (image, set["spec"]["replicas"].as_i64().unwrap())
        })
        .collect();
    sets.sort();
    sets
}

fn pairs(of: &[(&str, i64)]) -> Vec<(String, i64)> {
    of.iter().map(|(image, replicas)| ((*image).to_owned(), *replicas)).collect()
}

fn status(world: &World) -> Value {
    world.get(Kind::Deployment, "web")["status"].clone()
}

fn revision(world: &World) -> Value {
    world.get(Kind::Deployment, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone()
}

fn reason(world: &World, ty: &str) -> String {
    condition::find(&status(world), ty).map_or(String::new(), |c| c["reason"].as_str().unwrap().to_owned())
}

#[test]
fn the_first_rollout_ends_complete() {
    let world = world(3, json!({}));
    assert_eq!(sets(&world), pairs(&[("a", 3)]));
    let status = status(&world);
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[field], 3, "{field}");
    }
    assert_eq!(
        (revision(&world), reason(&world, "Progressing").as_str()),
        (json!("1"), "NewReplicaSetAvailable")
    );
    assert_eq!(reason(&world, "Available"), "MinimumReplicasAvailable");
    let set = &world.list(Kind::ReplicaSet)[0];
    let hash = &set["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(set["metadata"]["name"], format!("web-{}", hash.as_str().unwrap()));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], *hash);
    assert_eq!(set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"], "4");
    assert_eq!(world.waits(), None, "nothing is waited for");
}

#[test]
fn a_rolling_update_keeps_its_bounds() {
    let mut world = world(4, json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}));
    set_image(&mut world, "b");
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 3), ("b", 2)]));
    let mut steps = Vec::new();
    for _ in 0..20 {
        for pod in world.list(Kind::Pod) {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                world.gone(Kind::Pod, pod["metadata"]["name"].as_str().unwrap());
            }
        }
        // One pod a step begins to work.
        let waiting = world.list(Kind::Pod).into_iter().find(|pod| pod["status"]["phase"] != "Running");
        let Some(waiting) = waiting else { break };
        world.run_pod(waiting["metadata"]["name"].as_str().unwrap());
        world.settle();
        let now = sets(&world);
        let total: i64 = now.iter().map(|(_, replicas)| replicas).sum();
        let available = status(&world)["availableReplicas"].as_i64().unwrap();
        assert!(total <= 5 && available >= 3, "{now:?} {available}");
        steps.push(now);
    }
    assert_eq!(steps.last(), Some(&pairs(&[("a", 0), ("b", 4)])));
    assert_eq!(
        (revision(&world), reason(&world, "Progressing").as_str()),
        (json!("2"), "NewReplicaSetAvailable")
    );
}

#[test]
fn pods_that_do_not_work_are_replaced_first() {
    let mut world = world(2, json!({}));
    set_image(&mut world, "broken");
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 2), ("broken", 1)]));
    set_image(&mut world, "c");
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 2), ("broken", 0), ("c", 1)]));
    world.live();
    assert_eq!(sets(&world), pairs(&[("a", 0), ("broken", 0), ("c", 2)]));
}

#[test]
fn recreate_ends_everything_old_before_anything_new() {
    let mut world = world(2, json!({"strategy": {"type": "Recreate"}}));
    set_image(&mut world, "b");
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 0)]), "its pods are still ending");
    let names = world.names(Kind::Pod);
    world.gone(Kind::Pod, &names[0]);
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 0)]));
    world.gone(Kind::Pod, &names[1]);
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 0), ("b", 2)]));
    world.live();
    assert_eq!(reason(&world, "Progressing"), "NewReplicaSetAvailable");
}

#[test]
fn going_back_takes_the_old_set_and_a_new_number() {
    let mut world = world(1, json!({}));
    let first = world.names(Kind::ReplicaSet);
    set_image(&mut world, "b");
    world.live();
    set_image(&mut world, "a");
    world.live();
    assert_eq!(sets(&world), pairs(&[("a", 1), ("b", 0)]));
    assert_eq!(revision(&world), "3");
    let set = world.get(Kind::ReplicaSet, &first[0]);
    assert_eq!(set["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    assert_eq!(set["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
}

#[test]
fn old_sets_are_kept_as_far_as_the_limit() {
    let mut world = world(1, json!({"revisionHistoryLimit": 2}));
    for image in ["b", "c", "d", "e"] {
        set_image(&mut world, image);
        world.live();
    }
    assert_eq!(sets(&world), pairs(&[("c", 0), ("d", 0), ("e", 1)]));
}

#[test]
fn scaling_in_the_middle_keeps_the_proportions() {
    let mut world = world(10, json!({"strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}}));
    set_image(&mut world, "b");
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 8), ("b", 5)]));
    world.edit(Kind::Deployment, "web", |d| d["spec"]["replicas"] = json!(15));
    world.settle();
    assert_eq!(sets(&world), pairs(&[("a", 11), ("b", 7)]));
    world.live();
    assert_eq!(sets(&world), pairs(&[("a", 0), ("b", 15)]));
}

#[test]
fn a_paused_deployment_scales_and_rolls_nothing_out() {
    let mut world = world(2, json!({}));
    world.edit(Kind::Deployment, "web", |d| d["spec"]["paused"] = json!(true));
    set_image(&mut world, "b");
    world.edit(Kind::Deployment, "web", |d| d["spec"]["replicas"] = json!(3));
    world.live();
    assert_eq!(sets(&world), pairs(&[("a", 3)]));
    assert_eq!(reason(&world, "Progressing"), "DeploymentPaused");
    assert_eq!(status(&world)["observedGeneration"], 4);
    world.edit(Kind::Deployment, "web", |d| d["spec"]["paused"] = json!(false));
    world.live();
    assert_eq!(sets(&world), pairs(&[("a", 0), ("b", 3)]));
    assert_eq!(reason(&world, "Progressing"), "NewReplicaSetAvailable");
}

#[test]
fn what_does_not_get_on_is_called_so_once() {
    let mut world = World::new();
    world.add(Kind::Deployment, "web", deployment(1, json!({"progressDeadlineSeconds": 60})));
    world.settle();
    assert_eq!(reason(&world, "Progressing"), "ReplicaSetUpdated");
    world.pass(59);
    assert_eq!(reason(&world, "Progressing"), "ReplicaSetUpdated");
    world.pass(3);
    assert_eq!(reason(&world, "Progressing"), "ProgressDeadlineExceeded");
    assert_eq!(world.waits(), None);
    world.live();
    assert_eq!(reason(&world, "Progressing"), "NewReplicaSetAvailable", "it is never too late");
}

#[test]
fn the_trouble_of_a_set_is_shown() {
    let mut world = World::new();
    world.refusal = Some("exceeded quota");
    world.add(Kind::Deployment, "web", deployment(1, json!({})));
    world.settle();
    assert_eq!(reason(&world, "ReplicaFailure"), "FailedCreate");
    world.refusal = None;
    world.pass(1);
    assert_eq!(reason(&world, "ReplicaFailure"), "");
}

#[test]
fn a_set_in_the_way_is_gone_around() {
    let mut world = World::new();
    let mut other = World::new();
    other.add(Kind::Deployment, "web", deployment(1, json!({})));
    other.settle();
    let taken = other.names(Kind::ReplicaSet)[0].clone();
    let foreign = json!({"spec": {"selector": {"matchLabels": {"x": "y"}}, "template": template("x", "x")}});
    world.add(Kind::ReplicaSet, &taken, foreign);
    world.add(Kind::Deployment, "web", deployment(1, json!({})));
    world.live();
    assert_eq!(status(&world)["collisionCount"], 1);
    assert_eq!(status(&world)["availableReplicas"], 1);
}

#[test]
fn an_orphan_is_adopted() {
    let mut world = world(2, json!({}));
    let set = world.names(Kind::ReplicaSet)[0].clone();
    world.edit(Kind::ReplicaSet, &set, |set| set["metadata"]["ownerReferences"] = json!([]));
    world.settle();
    assert_eq!(world.names(Kind::ReplicaSet).len(), 1);
    assert_eq!(world.get(Kind::ReplicaSet, &set)["metadata"]["ownerReferences"][0]["uid"], "uid-web");
}

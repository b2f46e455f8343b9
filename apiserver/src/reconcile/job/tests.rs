//! Pods that end, and are counted once.

use serde_json::{Value, json};

use crate::reconcile::condition;
use crate::reconcile::kind::Kind;
use crate::reconcile::tests::World;

fn job(more: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"job": "sum"}},
        "template": {"metadata": {"labels": {"job": "sum"}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key.as_str()] = value.clone();
    }
    json!({"spec": spec})
}

fn world(more: Value) -> World {
    let mut world = World::new();
    world.add(Kind::Job, "sum", job(more));
    world.settle();
    world
}

fn status(world: &World) -> Value {
    world.get(Kind::Job, "sum")["status"].clone()
}

fn reason(world: &World, ty: &str) -> String {
    let status = status(world);
    let condition = condition::find(&status, ty).filter(|condition| condition["status"] == "True");
    condition.map_or(String::new(), |condition| condition["reason"].as_str().unwrap().to_owned())
}

/// Pods that have not ended and are not going.
fn active(world: &World) -> Vec<String> {
    let pods = world.list(Kind::Pod);
    let active = pods.iter().filter(|pod| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    });
    active.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// A pod ends, with an exit code.
fn end(world: &mut World, name: &str, code: i64) {
    let now = crate::endpoints::metadata::time(world.now);
    world.edit(Kind::Pod, name, |pod| {
        pod["status"]["phase"] = json!(if code == 0 { "Succeeded" } else { "Failed" });
        let terminated = json!({"exitCode": code, "finishedAt": now});
        pod["status"]["containerStatuses"] = json!([{"name": "c", "state": {"terminated": terminated}}]);
    });
    world.settle();
}

fn index_of(world: &World, name: &str) -> String {
    let pod = world.get(Kind::Pod, name);
    pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str().unwrap().to_owned()
}

fn of_index(world: &World, index: &str) -> String {
    let named = active(world);
    named.into_iter().find(|name| index_of(world, name) == index).unwrap()
}

#[test]
fn a_job_runs_its_completions_and_is_complete() {
    let mut world = world(json!({"completions": 3, "parallelism": 2}));
    assert_eq!((active(&world).len(), &status(&world)["active"]), (2, &json!(2)));
    let first = active(&world)[0].clone();
    let finalizers = &world.get(Kind::Pod, &first)["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["batch.kubernetes.io/job-tracking"]));
    assert!(status(&world)["startTime"].is_string());
    end(&mut world, &first, 0);
    assert_eq!((active(&world).len(), &status(&world)["succeeded"]), (2, &json!(1)));
    assert!(world.get(Kind::Pod, &first)["metadata"]["finalizers"].is_null(), "it has been counted");
    while let Some(next) = active(&world).first().cloned() {
        end(&mut world, &next, 0);
    }
    assert_eq!(reason(&world, "Complete"), "CompletionsReached");
    assert_eq!(reason(&world, "SuccessCriteriaMet"), "CompletionsReached");
    let status = status(&world);
    assert_eq!(status["succeeded"], 3);
    assert!(status["completionTime"].is_string());
    assert!(status["uncountedTerminatedPods"]["succeeded"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(world.names(Kind::Pod).len(), 3, "they stay to be looked at");
}

#[test]
fn failures_are_waited_after_and_limited() {
    let mut world = world(json!({"completions": 1, "backoffLimit": 2}));
    for (failures, wait) in [(1, 10), (2, 20)] {
        let pod = active(&world)[0].clone();
        end(&mut world, &pod, 1);
        assert_eq!((&status(&world)["failed"], active(&world).len()), (&json!(failures), 0));
        assert_eq!(world.waits(), Some(wait));
        world.pass(i64::try_from(wait).unwrap());
        assert_eq!(active(&world).len(), 1);
    }
    let pod = active(&world)[0].clone();
    end(&mut world, &pod, 1);
    assert_eq!(reason(&world, "Failed"), "BackoffLimitExceeded");
    assert_eq!(status(&world)["failed"], 3);
    world.pass(3600);
    assert_eq!(world.names(Kind::Pod).len(), 3);
}

#[test]
fn a_job_that_takes_too_long_is_stopped_and_its_pods_are_gone_before_it_is_failed() {
    let mut world = world(json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 60}));
    world.run_pods();
    world.settle();
    assert_eq!(status(&world)["ready"], 2);
    world.pass(60);
    assert_eq!(reason(&world, "FailureTarget"), "DeadlineExceeded");
    assert_eq!((reason(&world, "Failed").as_str(), &status(&world)["terminating"]), ("", &json!(2)));
    world.live();
    assert_eq!(reason(&world, "Failed"), "DeadlineExceeded");
    assert_eq!((&status(&world)["failed"], world.names(Kind::Pod).len()), (&json!(2), 0));
}

#[test]
fn a_suspended_job_has_no_pods_and_goes_on() {
    let mut world = world(json!({"completions": 2, "parallelism": 2}));
    world.edit(Kind::Job, "sum", |job| job["spec"]["suspend"] = json!(true));
    world.settle();
    assert_eq!((world.names(Kind::Pod).len(), reason(&world, "Suspended").as_str()), (0, "JobSuspended"));
    assert!(status(&world)["startTime"].is_null());
    assert!(status(&world)["failed"].as_i64().unwrap_or(0) == 0, "what was not wanted has not failed");
    world.edit(Kind::Job, "sum", |job| job["spec"]["suspend"] = json!(false));
    world.settle();
    assert_eq!((active(&world).len(), reason(&world, "Suspended").as_str()), (2, ""));
    assert!(status(&world)["startTime"].is_string());
}

#[test]
fn each_index_has_one_pod_that_knows_it() {
    let mut world = world(json!({"completions": 5, "parallelism": 3, "completionMode": "Indexed"}));
    let mut indexes: Vec<String> = active(&world).iter().map(|name| index_of(&world, name)).collect();
    indexes.sort();
    assert_eq!(indexes, ["0", "1", "2"]);
    let name = of_index(&world, "1");
    let pod = world.get(Kind::Pod, &name);
    assert!(name.starts_with("sum-1-"), "{name}");
    assert_eq!(pod["spec"]["hostname"], "sum-1");
    assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    for index in ["0", "2", "1"] {
        let name = of_index(&world, index);
        end(&mut world, &name, 0);
    }
    assert_eq!(status(&world)["completedIndexes"], "0-2");
    for index in ["3", "4"] {
        let name = of_index(&world, index);
        end(&mut world, &name, 0);
    }
    assert_eq!(
        (&status(&world)["completedIndexes"], reason(&world, "Complete").as_str()),
        (&json!("0-4"), "CompletionsReached")
    );
}

#[test]
fn an_index_that_fails_too_often_leaves_the_others_alone() {
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "backoffLimit": 2_147_483_647,
    });
    let mut world = world(spec);
    let name = of_index(&world, "0");
    end(&mut world, &name, 1);
    assert_eq!(active(&world).len(), 1);
    world.pass(10);
    let name = of_index(&world, "0");
    let pod = world.get(Kind::Pod, &name);
    assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"], "1");
    end(&mut world, &name, 1);
    world.pass(600);
    assert_eq!((&status(&world)["failedIndexes"], active(&world).len()), (&json!("0"), 1));
    let name = of_index(&world, "1");
    end(&mut world, &name, 0);
    assert_eq!(reason(&world, "Failed"), "FailedIndexes");
    assert_eq!((&status(&world)["failed"], &status(&world)["succeeded"]), (&json!(2), &json!(1)));
}

#[test]
fn rules_about_failures_ignore_them_or_end_the_job() {
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let mut world =
        world(json!({"completions": 2, "parallelism": 2, "backoffLimit": 0, "podFailurePolicy": policy}));
    let name = active(&world)[0].clone();
    world.edit(Kind::Pod, &name, |pod| {
        pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
    });
    end(&mut world, &name, 1);
    assert_eq!((reason(&world, "FailureTarget").as_str(), active(&world).len()), ("", 1));
    world.pass(10);
    assert_eq!(active(&world).len(), 2, "it is replaced and counts for nothing");
    let name = active(&world)[0].clone();
    end(&mut world, &name, 42);
    assert_eq!(reason(&world, "Failed"), "PodFailurePolicy");
    let status = status(&world);
    let message = condition::find(&status, "Failed").unwrap()["message"].as_str().unwrap().to_owned();
    assert_eq!(
        message,
        format!(
            "Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 1"
        )
    );
}

#[test]
fn some_indexes_may_be_enough() {
    let policy = json!({"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]});
    let spec =
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy});
    let mut world = world(spec);
    world.run_pods();
    let name = of_index(&world, "2");
    end(&mut world, &name, 0);
    world.live();
    assert_eq!(reason(&world, "Complete"), "SuccessPolicy");
    let status = status(&world);
    assert_eq!((&status["succeeded"], status["failed"].as_i64().unwrap_or(0)), (&json!(1), 0));
    assert_eq!(world.names(Kind::Pod), [name]);
}

#[test]
fn a_pod_that_goes_is_replaced_at_once_or_when_it_has_gone() {
    for (policy, wanted) in [("TerminatingOrFailed", 1), ("Failed", 0)] {
        let mut world = world(json!({"completions": 1, "podReplacementPolicy": policy}));
        world.run_pods();
        world.settle();
        let name = active(&world)[0].clone();
        world.delete(Kind::Pod, &name);
        world.settle();
        world.pass(10);
        assert_eq!(active(&world).len(), wanted, "{policy}");
        assert_eq!(status(&world)["terminating"].as_i64(), Some(1), "{policy}");
        end(&mut world, &name, 137);
        world.pass(20);
        assert_eq!((active(&world).len(), &status(&world)["failed"]), (1, &json!(1)), "{policy}");
    }
}

#[test]
fn a_job_for_somebody_else_is_left_alone() {
    let world = world(json!({"managedBy": "example.com/other"}));
    assert!(world.names(Kind::Pod).is_empty() && status(&world)["startTime"].is_null());
}

#[test]
fn a_finished_job_goes_after_its_time() {
    let mut world = world(json!({"completions": 1, "ttlSecondsAfterFinished": 100}));
    let name = active(&world)[0].clone();
    end(&mut world, &name, 0);
    assert_eq!(world.waits(), Some(100));
    world.pass(99);
    assert!(world.find(Kind::Job, "sum").is_some());
    world.pass(1);
    assert!(world.find(Kind::Job, "sum").is_none());
}

#[test]
fn parallelism_without_completions_is_a_queue_that_one_success_closes() {
    let mut world = world(json!({"completions": null, "parallelism": 3}));
    let pods = active(&world);
    end(&mut world, &pods[0], 0);
    assert_eq!(active(&world).len(), 2, "those that run go on");
    end(&mut world, &pods[1], 0);
    end(&mut world, &pods[2], 0);
    assert_eq!(
        (reason(&world, "Complete").as_str(), &status(&world)["succeeded"]),
        ("CompletionsReached", &json!(3))
    );
}

#[test]
fn pods_of_a_job_that_is_gone_are_let_go() {
    let mut world = world(json!({"completions": 1}));
    let name = active(&world)[0].clone();
    world.gone(Kind::Job, "sum");
    world.delete(Kind::Pod, &name);
    world.settle();
    assert!(world.names(Kind::Pod).is_empty());
}

#[test]
fn an_adopted_pod_is_tracked_and_a_released_one_is_not() {
    let mut world = World::new();
    let pod = json!({"metadata": {"labels": {"job": "sum"}}, "spec": {"containers": []}});
    world.add(Kind::Pod, "stray", pod);
    world.add(Kind::Job, "sum", job(json!({"completions": 1})));
    world.settle();
    assert_eq!(active(&world), ["stray"]);
    assert!(world.get(Kind::Pod, "stray")["metadata"]["finalizers"].is_array());
    world.edit(Kind::Pod, "stray", |pod| pod["metadata"]["labels"]["job"] = json!("other"));
    world.settle();
    let stray = world.get(Kind::Pod, "stray");
    assert!(stray["metadata"]["finalizers"].is_null() && stray["metadata"]["ownerReferences"].is_null());
    assert_eq!(active(&world).len(), 2);
}

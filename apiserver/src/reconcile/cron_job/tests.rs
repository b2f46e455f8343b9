//! Jobs by the clock.

use serde_json::{Value, json};

use crate::reconcile::kind::Kind;
use crate::reconcile::tests::World;

fn cron(more: Value) -> Value {
    let job = json!({
        "metadata": {"labels": {"app": "report"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    });
    let mut spec = json!({"schedule": "*/5 * * * *", "jobTemplate": job});
    for (key, value) in more.as_object().unwrap() {
        spec[key.as_str()] = value.clone();
    }
    json!({"spec": spec})
}

/// It is midnight.
fn world(more: Value) -> World {
    let mut world = World::new();
    world.add(Kind::CronJob, "report", cron(more));
    world.settle();
    world
}

fn status(world: &World) -> Value {
    world.get(Kind::CronJob, "report")["status"].clone()
}

fn end(world: &mut World, name: &str, how: &str) {
    let now = crate::endpoints::metadata::time(world.now);
    world.edit(Kind::Job, name, |job| {
        job["status"]["conditions"] = json!([{"type": how, "status": "True", "lastTransitionTime": now}]);
        if how == "Complete" {
            job["status"]["completionTime"] = json!(now);
        }
    });
    world.settle();
}

/// 2024-01-01 00:05, in minutes.
const FIRST: i64 = 28_401_125;

fn name(number: i64) -> String {
    format!("report-{}", FIRST + 5 * number)
}

#[test]
fn a_job_is_started_when_it_is_time() {
    let mut world = world(json!({}));
    assert_eq!(world.waits(), Some(300));
    world.pass(299);
    assert!(world.names(Kind::Job).is_empty());
    world.pass(1);
    assert_eq!(world.names(Kind::Job), [name(0)]);
    let job = world.get(Kind::Job, &name(0));
    assert_eq!(job["metadata"]["labels"]["app"], "report");
    let annotations = &job["metadata"]["annotations"];
    assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2024-01-01T00:05:00Z");
    assert_eq!(status(&world)["lastScheduleTime"], "2024-01-01T00:05:00Z");
    assert_eq!(status(&world)["active"][0]["name"], name(0));
    end(&mut world, &name(0), "Complete");
    assert!(status(&world)["active"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(status(&world)["lastSuccessfulTime"], "2024-01-01T00:05:00Z");
}

#[test]
fn concurrency_is_as_the_policy_says() {
    for (policy, wanted) in
        [("Allow", vec![name(0), name(1)]), ("Forbid", vec![name(0)]), ("Replace", vec![name(1)])]
    {
        let mut world = world(json!({"concurrencyPolicy": policy}));
        world.pass(610);
        for job in world.list(Kind::Job) {
            if job["metadata"]["deletionTimestamp"].is_string() {
                world.gone(Kind::Job, job["metadata"]["name"].as_str().unwrap());
            }
        }
        assert_eq!(world.names(Kind::Job), wanted, "{policy}");
        if policy == "Forbid" {
            end(&mut world, &name(0), "Failed");
            assert_eq!(world.names(Kind::Job), [name(0), name(1)], "what was due starts late");
        }
    }
}

#[test]
fn what_was_missed_is_made_up_for_once_and_not_too_late() {
    let mut late = world(json!({"suspend": true}));
    late.pass(3600);
    assert!(late.names(Kind::Job).is_empty());
    late.pass(30);
    late.edit(Kind::CronJob, "report", |cron| cron["spec"]["suspend"] = json!(false));
    late.settle();
    assert_eq!(late.names(Kind::Job), [name(11)], "only the latest");
    let mut strict = world(json!({"suspend": true, "startingDeadlineSeconds": 20}));
    strict.pass(3630);
    strict.edit(Kind::CronJob, "report", |cron| cron["spec"]["suspend"] = json!(false));
    strict.settle();
    assert!(strict.names(Kind::Job).is_empty(), "half a minute is too late");
    strict.pass(300);
    assert_eq!(strict.names(Kind::Job), [name(12)]);
}

#[test]
fn a_job_that_was_started_and_not_written_down_is_not_started_again() {
    let mut world = world(json!({}));
    world.pass(300);
    world.edit(Kind::CronJob, "report", |cron| cron["status"] = json!({}));
    world.settle();
    assert_eq!(world.names(Kind::Job), [name(0)]);
    assert_eq!(status(&world)["lastScheduleTime"], "2024-01-01T00:05:00Z");
}

#[test]
fn a_job_of_the_user_is_in_nobodys_way() {
    let mut world = world(json!({"concurrencyPolicy": "Forbid"}));
    let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": "uid-report", "controller": true}]);
    world.add(Kind::Job, "mine", json!({"metadata": {"ownerReferences": owner}, "spec": {}}));
    world.pass(300);
    assert_eq!(world.names(Kind::Job), ["mine".to_owned(), name(0)]);
    assert_eq!(status(&world)["active"].as_array().map(Vec::len), Some(1));
}

#[test]
fn old_jobs_go_by_their_end() {
    let mut world = world(json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1}));
    for number in 0..6 {
        world.pass(300);
        end(&mut world, &name(number), if number % 2 == 0 { "Complete" } else { "Failed" });
    }
    assert_eq!(world.names(Kind::Job), [name(2), name(4), name(5)]);
}

#[test]
fn the_time_zone_counts() {
    let mut world = world(json!({"schedule": "0 1 * * *", "timeZone": "Europe/Berlin"}));
    world.settle();
    assert!(world.names(Kind::Job).is_empty());
    assert_eq!(world.waits(), Some(24 * 3600), "it is one o'clock there");
    world.pass(24 * 3600);
    let annotations = world.list(Kind::Job)[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2024-01-02T01:00:00+01:00");
}

//! Streams of pods with the real kubectl: client → server → the agent's connection → containers that a test stands in for.

#[path = "streams/containers.rs"]
mod containers;
#[path = "streams/forward.rs"]
mod forward;
#[path = "streams/place.rs"]
mod place;
#[path = "streams/proxy.rs"]
mod proxy;

use http::StatusCode;
use litek8s_node_agent::streams::NoContainers;
use place::{ClientKind, Place, eventually, until};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_logs_shows_follows_and_cuts_a_containers_log() {
    let place = Place::start().await;
    for line in ["one", "two", "three"] {
        place.containers.write(line);
    }
    let logs = |arguments: &'static [&'static str]| place.kubectl(arguments);
    assert_eq!(logs(&["logs", "web", "-c", "app"]).await.ok(), "one\ntwo\nthree\n");
    assert_eq!(logs(&["logs", "web", "-c", "app", "--tail=1"]).await.ok(), "three\n");
    assert_eq!(logs(&["logs", "web", "-c", "app", "--limit-bytes=5"]).await.ok(), "one\nt");
    assert!(logs(&["logs", "web", "-c", "app", "--timestamps"]).await.ok().contains("Z two\n"));
    assert_eq!(logs(&["logs", "web", "-c", "side"]).await.ok(), "");
    // kubectl chooses the first container when none is named; the API does not.
    let admin = place.server.admin(false).await;
    let unnamed = admin.get("/api/v1/namespaces/default/pods/web/log").await;
    assert_eq!(unnamed.code, StatusCode::BAD_REQUEST);
    assert_eq!(
        unnamed.json()["message"],
        "a container name must be specified for pod web, choose one of: [app side flood]"
    );
    let wrong = logs(&["logs", "web", "-c", "other"]).await;
    assert!(wrong.stderr.contains("container other is not valid for pod web"), "{}", wrong.stderr);

    let mut follower = place.start_kubectl(&["logs", "-f", "--tail=1", "web", "-c", "app"]);
    assert_eq!(follower.line().await, "three");
    place.containers.write("four");
    assert_eq!(follower.line().await, "four");
    follower.stop().await;
    eventually("the container's log is let go", || place.containers.followers() == 0).await;
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_reached_is_named() {
    let place = Place::start().await;
    let pod = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "app", "image": "x"}]}});
    let admin = place.server.admin(true).await;
    let pods = "/api/v1/namespaces/default/pods";
    for (name, node) in [("away", "n9"), ("empty", "n2")] {
        assert_eq!(admin.post(pods, &pod(name, node)).await.code, StatusCode::CREATED);
    }
    let away = place.kubectl(&["logs", "away"]).await;
    assert_ne!(away.code, 0);
    assert!(away.stderr.contains("(ServiceUnavailable): node \"n9\" is not connected"), "{}", away.stderr);
    let missing = place.kubectl(&["logs", "missing"]).await;
    assert!(missing.stderr.contains("pods \"missing\" not found"), "{}", missing.stderr);

    // A node whose agent runs no containers says so.
    let other = place.agent("n2", std::sync::Arc::new(NoContainers));
    let none = || async { admin.get(&format!("{pods}/empty/log")).await };
    until(async || none().await.code != StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(none().await.code, StatusCode::NOT_IMPLEMENTED);
    assert_eq!(none().await.json()["message"], "this node runs no containers");
    // One that goes is noticed at once.
    other.stop().await;
    until(async || none().await.code == StatusCode::SERVICE_UNAVAILABLE).await;
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_offers_its_own_streams_only() {
    let place = Place::start().await;
    let identity = place.server.node_identity("n5").await;
    let node = place.server.client(Some((&identity.certificate, &identity.key)), false).await;
    let upgrade = node.with_header("connection", "upgrade").with_header("upgrade", "litek8s-streams.v1");
    let other = upgrade.get("/v1-litek8s/nodes/n1/streams").await;
    assert_eq!(other.code, StatusCode::FORBIDDEN);
    let message = other.json()["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("node \"n5\" can only offer streams of its own"), "{message}");
    let plain = node.get("/v1-litek8s/nodes/n5/streams").await;
    assert_eq!(plain.code, StatusCode::BAD_REQUEST);
    assert_eq!(plain.json()["message"], "this path is for agents, which upgrade it to litek8s-streams.v1");
    let stranger = place.server.anonymous().await.get("/v1-litek8s/nodes/n5/streams").await;
    assert_eq!(stranger.code, StatusCode::UNAUTHORIZED);
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_exec_passes_input_both_outputs_and_the_exit_code() {
    let place = Place::start().await;
    both(async |client| {
        let sh = |script: &'static str| ["exec", "web", "-c", "app", "--", "sh", "-c", script];
        let done = place.run(client, &sh("echo out; echo err >&2; exit 3"), "").await;
        assert_eq!((done.code, done.stdout.as_str()), (3, "out\n"), "{}", done.stderr);
        assert!(done.stderr.starts_with("err\n"), "{}", done.stderr);
        assert!(done.stderr.contains("command terminated with exit code 3"), "{}", done.stderr);
        // More than every window and pipe on the way holds, there and back.
        let long = "0123456789abcdef".repeat(200_000);
        let done = place.run(client, &["exec", "-i", "web", "-c", "app", "--", "cat"], &long).await;
        assert_eq!(done.ok(), long);
        let missing = place.run(client, &["exec", "web", "-c", "app", "--", "/no/such/thing"], "").await;
        assert!(missing.stderr.contains("/no/such/thing: No such file"), "{}", missing.stderr);
        let elsewhere = place.run(client, &["exec", "web", "-c", "side", "--", "true"], "").await;
        assert!(
            elsewhere.stderr.contains("container \"side\" of pod \"default/web\" is not here"),
            "{}",
            elsewhere.stderr
        );
    })
    .await;
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_client_and_a_client_with_its_command() {
    let place = Place::start().await;
    both(async |client| {
        let lasting = ["exec", "web", "-c", "app", "--", "sh", "-c", "echo begun; exec sleep 1000"];
        let mut started = place.start_with(client, &lasting);
        assert_eq!(started.line().await, "begun");
        assert_eq!(place.containers.running(), 1);
        started.stop().await;
        eventually("the command is ended", || place.containers.running() == 0).await;
    })
    .await;
    let mut cut =
        place.start_kubectl(&["exec", "web", "-c", "app", "--", "sh", "-c", "echo begun; exec sleep 1000"]);
    assert_eq!(cut.line().await, "begun");
    let place = place.without_agent().await;
    let ended = cut.end().await;
    assert_ne!(ended.code, 0);
    assert!(ended.stderr.contains("the stream to the node broke"), "{}", ended.stderr);
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_has_the_size_of_the_clients_one() {
    let place = Place::start().await;
    both(async |client| {
        let mut terminal = place.terminal(client, "exec -it web -c app -- anything", 97, 31);
        while !terminal.line().await.contains("97x31") {}
        terminal.write("q").await;
        assert_eq!(terminal.end().await.code, 7);
    })
    .await;
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_attach_takes_part_in_a_container() {
    let place = Place::start().await;
    both(async |client| {
        let done = place.run(client, &["attach", "-i", "web", "-c", "app"], "hello\nworld\n").await;
        assert_eq!(done.ok(), "heard: hello\nheard: world\n");
    })
    .await;
    place.stop().await;
}

/// Runs a case with every way a client may speak.
async fn both(case: impl AsyncFn(ClientKind)) {
    for client in [ClientKind::WebSocket, ClientKind::Spdy] {
        case(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_only_get_gets_no_shell() {
    let place = Place::start().await;
    let admin = place.server.admin(true).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "look"}, "rules":
        [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]});
    let binding = json!({"metadata": {"name": "look"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}]});
    for (kind, object) in [("roles", role), ("rolebindings", binding)] {
        assert_eq!(admin.post(&format!("{rbac}/{kind}"), &object).await.code, StatusCode::CREATED);
    }
    let url = "/api/v1/namespaces/default/pods/web/exec?command=id&stdout=1&container=app";
    let eve = place.server.admin(false).await.with_header("impersonate-user", "eve");
    let refused = eve.get(url).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("cannot create resource \"pods/exec\""), "{message}");
    // Without an upgrade there is nothing to talk over.
    let plain = place.server.admin(false).await.get(url).await;
    assert_eq!(
        (plain.code, plain.json()["message"].clone()),
        (StatusCode::BAD_REQUEST, json!("Upgrade request required"))
    );
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_judge_what_is_to_be_executed() {
    let place = Place::start().await;
    let admin = place.server.admin(true).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "no-shells"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CONNECT"], "resources": ["pods/exec"]}]},
        "validations": [{"expression": "object.command[0] != 'sh'", "message": "no shells"}]}});
    let binding = json!({"metadata": {"name": "no-shells"},
        "spec": {"policyName": "no-shells", "validationActions": ["Deny"]}});
    for (kind, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = admin.post(&format!("{group}/{kind}"), &object).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    }
    let shell = place.kubectl(&["exec", "web", "-c", "app", "--", "sh", "-c", "true"]).await;
    assert!(shell.stderr.contains("denied request: no shells"), "{}", shell.stderr);
    assert_eq!(place.kubectl(&["exec", "web", "-c", "app", "--", "echo", "hi"]).await.ok(), "hi\n");
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_the_writer_up() {
    let place = Place::start().await;
    let admin = place.server.admin(false).await;
    let unread = admin.open("/api/v1/namespaces/default/pods/web/log?container=flood&follow=true").await;
    assert_eq!(unread.status(), StatusCode::OK);
    let (mut before, mut now) = (0, place.containers.flooded());
    until(async || {
        // The writer stands still when a long look finds nothing new.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        (before, now) = (now, place.containers.flooded());
        now > 0 && now == before
    })
    .await;
    // What the kernel's sockets, the windows and one piece each hold.
    assert!(now < 64 << 20, "{now} bytes are under way");
    // Others of the same node are not held up.
    place.containers.write("still here");
    assert_eq!(place.kubectl(&["logs", "web", "-c", "app"]).await.ok(), "still here\n");
    drop(unread);
    place.stop().await;
}

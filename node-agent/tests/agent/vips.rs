//! From objects to packets' ways and back to the status.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::api::eventually;
use crate::node::{Place, api, condition, is_ready, vip};

#[test]
fn a_vip_is_put_in_place_reported_followed_and_removed() {
    Place::run(|place| async move {
        let api = api();
        let end = CancellationToken::new();
        let agent = place.agent(api.serve(end.clone()).await);
        eventually("the VIP is ready", || is_ready(&api, "web-1")).await;
        assert!(place.has_vip());
        assert!(!place.state().contains("203.0.113.11"), "that one is another node's");
        assert_eq!(api.get("vipaddresses", "default/web-1").unwrap()["status"]["observedGeneration"], 1);

        // The node's own objects.
        eventually("the Lease is there", || api.get("leases", "kube-node-lease/n1").is_some()).await;
        let node = api.get("nodes", "n1").unwrap();
        assert_eq!(node["status"]["addresses"][0], json!({"type": "InternalIP", "address": "192.0.2.1"}));
        eventually("the node's address is a cluster network", || {
            place.state().contains("10.42.0.0/16, 192.0.2.1")
        })
        .await;

        // A pod that the controller maps.
        let mut mapped = api.get("vipaddresses", "default/web-1").unwrap();
        mapped["status"]["endpoints"] = json!([{"address": "10.42.0.5"}]);
        api.put("vipaddresses", mapped);
        eventually("the pod is mapped", || place.state().contains("10.42.0.5 : goto mark-00000001")).await;

        // A second VIP, and the first one leaves; made anew with the same address it never left.
        api.put("vipaddresses", vip("web-3", "n1", "203.0.113.12", 3));
        eventually("the other VIP is ready", || is_ready(&api, "web-3")).await;
        api.delete("vipaddresses", "default/web-1");
        eventually("the VIP is gone", || !place.state().contains("203.0.113.10")).await;
        assert!(place.state().contains("203.0.113.12"));

        // Settled: no write without a change.
        let writes = api.writes("vipaddresses");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(api.writes("vipaddresses"), writes);
        agent.stop().await;
        end.cancel();
    });
}

#[test]
fn a_vip_that_another_node_waits_for_is_taken_off_before_that_is_said() {
    Place::run(|place| async move {
        let api = api();
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        eventually("the VIP is ready", || is_ready(&api, "web-1")).await;
        let mut leaving = api.get("vipaddresses", "default/web-1").unwrap();
        leaving["metadata"]["finalizers"] = json!(["netwrangler.dev/release"]);
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        api.put("vipaddresses", leaving);
        let why = || condition(&api, "web-1", "Programmed");
        eventually("it is let go", || why() == Some(("False".into(), "Released".into()))).await;
        assert!(!place.state().contains("203.0.113.10"), "{}", place.state());

        // Said once; a new agent knows that it was said.
        let writes = api.writes("vipaddresses");
        agent.stop().await;
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        assert_eq!(api.writes("vipaddresses"), writes);
        agent.stop().await;
    });
}

#[test]
fn what_somebody_else_undoes_is_repaired_and_counted() {
    Place::run(|place| async move {
        let api = api();
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        eventually("the VIP is ready", || is_ready(&api, "web-1")).await;
        for line in ["nft flush ruleset", "ip rule flush protocol 110", "ip route flush table 20001"] {
            place.sh(line);
            eventually(line, || place.has_vip()).await;
        }
        assert!(place.counter("litek8s_agent_drift_repairs_total") >= 3);
        assert_eq!(place.counter("litek8s_agent_pass_failures_total"), 0);

        // A link that goes down and comes up again.
        place.sh("ip link set eth1 down");
        let why = || condition(&api, "web-1", "Ready");
        eventually("the interface is reported", || why() == Some(("False".into(), "InterfaceDown".into())))
            .await;
        assert!(place.sh("ip route show table 20001").contains("unreachable default"));
        place.sh("ip link set eth1 up");
        eventually("the VIP is ready again", || is_ready(&api, "web-1") && place.has_vip()).await;
        agent.stop().await;
    });
}

#[test]
fn without_the_api_nothing_changes_and_a_restart_keeps_what_is_right() {
    Place::run(|place| async move {
        let api = api();
        let end = CancellationToken::new();
        let server = api.serve(end.clone()).await;
        let agent = place.agent(server);
        eventually("the VIP is ready", || is_ready(&api, "web-1")).await;
        eventually("the node's own address is known", || place.state().contains("10.42.0.0/16, 192.0.2.1"))
            .await;
        let before = place.state();

        end.cancel();
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert_eq!(place.state(), before);
        agent.stop().await;
        assert_eq!(place.state(), before, "the agent's end leaves traffic running");

        // Nobody answers at that address any more; what the agent knew, it keeps up.
        place.sh("nft flush ruleset");
        let agent = place.agent(server);
        eventually("the last known state is back", || place.has_vip()).await;
        agent.stop().await;

        place.cleanup().await;
        let state = place.state();
        assert!(
            !state.contains("proto 110") && !state.contains("netwrangler") && !state.contains("203.0.113"),
            "{state}"
        );
        // It has forgotten, too.
        let agent = place.agent(server);
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert!(!place.has_vip());
        agent.stop().await;
    });
}

#[test]
fn a_stranger_with_the_address_is_a_conflict_that_is_told_and_left_alone() {
    Place::run(|place| async move {
        let api = api();
        place.sh("ip addr add 203.0.113.10/32 dev lo");
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        let conflict = || condition(&api, "web-1", "AddressConflict");
        eventually("the conflict is reported", || conflict().is_some_and(|(status, _)| status == "True"))
            .await;
        eventually("the Service's Event is there", || !api.all("events").is_empty()).await;
        let event = api.all("events").remove(0);
        assert_eq!(
            (&event["reason"], &event["involvedObject"]["name"]),
            (&json!("VipAddressConflict"), &json!("web"))
        );
        assert!(!place.has_vip());

        place.sh("ip addr del 203.0.113.10/32 dev lo");
        eventually("the VIP is ready", || is_ready(&api, "web-1")).await;
        assert_eq!(api.all("events").len(), 1, "told once");
        agent.stop().await;
    });
}

#[test]
fn a_vip_the_kernel_refuses_is_reported_and_does_not_keep_the_others_out() {
    Place::run(|place| async move {
        let api = api();
        api.put("vipaddresses", vip("web-3", "n1", "203.0.113.12", 3));
        // In the place of the first VIP's connected route.
        place.sh("ip addr add 203.0.113.200/24 dev eth1; ip route add 203.0.113.0/24 dev eth1 table 20001");
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        eventually("the other VIP is ready", || is_ready(&api, "web-3")).await;
        let why = || condition(&api, "web-1", "Programmed");
        eventually("the refusal is reported", || why() == Some(("False".into(), "KernelRefused".into())))
            .await;
        assert!(!place.has_vip());
        agent.stop().await;
    });
}

#[test]
fn an_address_that_a_stranger_on_the_network_has_is_not_added_until_he_is_gone() {
    Place::run(|place| async move {
        let api = api();
        place.outside("ip addr add 203.0.113.10/24 dev far");
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        let conflict = || condition(&api, "web-1", "AddressConflict");
        eventually("the conflict is reported", || conflict().is_some_and(|(status, _)| status == "True"))
            .await;
        let status = api.get("vipaddresses", "default/web-1").unwrap()["status"].to_string();
        let mac = place.stranger();
        assert!(status.contains(&format!("{mac} has the address on the network of eth1")), "{status}");
        eventually("the Service's Event is there", || !api.all("events").is_empty()).await;
        assert_eq!(api.all("events")[0]["reason"], "VipAddressConflict");
        assert!(!place.state().contains("203.0.113.10"), "{}", place.state());

        place.outside("ip addr del 203.0.113.10/24 dev far");
        eventually("the VIP is ready", || is_ready(&api, "web-1") && place.has_vip()).await;
        let link = place.sh("ip -o link show eth1");
        let told = api.get("vipaddresses", "default/web-1").unwrap()["status"]["hardwareAddress"].clone();
        assert!(link.contains(told.as_str().unwrap()), "{told} {link}");
        assert_eq!(api.all("events").len(), 1, "said once");
        agent.stop().await;
    });
}

#[test]
fn a_vip_in_place_that_a_stranger_claims_is_defended_and_told_of() {
    Place::run(|place| async move {
        let api = api();
        let agent = place.agent(api.serve(CancellationToken::new()).await);
        eventually("the VIP is ready", || is_ready(&api, "web-1")).await;
        // As long as an answer counts as one to the question before.
        tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
        let announcements = || place.counter("litek8s_agent_announcements_total");
        let announced = announcements();
        // Whoever asks for another address says which one he has.
        place.outside(
            "ip addr add 203.0.113.10/24 dev far; ping -c1 -W1 -I 203.0.113.10 203.0.113.77 || true",
        );
        let conflict = || condition(&api, "web-1", "AddressConflict");
        eventually("the claim is reported", || conflict().is_some_and(|(status, _)| status == "True")).await;
        assert!(is_ready(&api, "web-1") && place.has_vip());
        eventually("the Service's Event is there", || !api.all("events").is_empty()).await;
        let message = api.all("events")[0]["message"].to_string();
        assert!(
            message.contains(&format!("{} says that it has the address too", place.stranger())),
            "{message}"
        );
        eventually("it is defended", || announcements() > announced).await;
        agent.stop().await;
    });
}

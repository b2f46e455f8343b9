//! Namespaces and links.

use litek8s_kernel::{KernelError, Links, Netns};

use crate::scratch::Scratch;

#[tokio::test]
async fn a_packet_passes_a_veth_pair_and_a_bridge_between_namespaces() {
    let (left, right, lan) = (Scratch::new(), Scratch::new(), Scratch::new());
    let lan_links = Links::open(&lan.netns).unwrap();
    lan_links.add_bridge("br-lan").await.unwrap();
    for (side, address) in [(&left, "192.0.2.1/24"), (&right, "192.0.2.2/24")] {
        let port = format!("p-{}", address.split(['.', '/']).nth(3).unwrap());
        lan_links.add_veth(&port, "eth0", &side.netns).await.unwrap();
        lan_links.attach(&port, "br-lan").await.unwrap();
        let links = Links::open(&side.netns).unwrap();
        links.set_up("lo").await.unwrap();
        links.set_up("eth0").await.unwrap();
        links.add_address("eth0", address.parse().unwrap()).await.unwrap();
        links
            .add_route("0.0.0.0/0".parse().unwrap(), Some("192.0.2.254".parse().unwrap()), "eth0")
            .await
            .unwrap();
        assert_eq!(links.addresses("eth0").await.unwrap(), [address.parse().unwrap()]);
    }
    left.sh("ping -c1 -W5 192.0.2.2");
    assert!(left.sh("ip route show default").contains("via 192.0.2.254 dev eth0"));

    let links = Links::open(&left.netns).unwrap();
    let eth0 = links.get("eth0").await.unwrap();
    assert!(eth0.up && eth0.mac.is_some());
    links.set_down("eth0").await.unwrap();
    assert!(!links.get("eth0").await.unwrap().up);
    links.delete("eth0").await.unwrap();
    assert!(matches!(links.get("eth0").await, Err(KernelError::NoLink(_))));
}

#[tokio::test]
async fn a_named_namespace_is_one_that_ip_netns_knows() {
    let scratch = Scratch::new();
    let name = scratch.netns.name().to_owned();
    assert!(Netns::list().unwrap().contains(&name));
    let listed = std::process::Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&name));
    assert!(matches!(Netns::create(&name), Err(KernelError::Namespace { .. })));
    scratch.netns.write_sysctl("net/ipv4/ip_forward", "1").unwrap();
    assert_eq!(scratch.netns.read_sysctl("net/ipv4/ip_forward").unwrap(), "1");
    Netns::delete(&name).unwrap();
    Netns::delete(&name).unwrap();
    assert!(!Netns::list().unwrap().contains(&name));
}

#[test]
fn a_name_cannot_leave_the_directory() {
    for name in ["", ".", "..", "a/b", "../x"] {
        assert!(Netns::create(name).is_err(), "{name:?}");
    }
}

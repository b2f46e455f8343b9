//! Links, their addresses and the main table's routes in one namespace: what building a network takes.
//!
//! Every function names what it did in its error. Nothing here is used for VIPs: those go through the plan.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's attributes are an open set: those we do not use are passed over"
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::{
    AfSpecInet, AfSpecUnspec, InetDevConf, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{
    AddressMessageBuilder, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder,
};

use crate::rtnl::Rtnl;
use crate::{KernelError, Netns};

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for it in this namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// How often it got one (`IFLA_CARRIER_UP_COUNT`).
    pub carrier_ups: u32,
    /// Whether it is a WireGuard interface of the kernel.
    pub wireguard: bool,
    /// Its hardware address, where it has one of six bytes.
    pub mac: Option<[u8; 6]>,
}

/// The links of one namespace.
#[derive(Debug)]
pub struct Links {
    rtnl: Rtnl,
}

impl Links {
    /// Connects inside `namespace`. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the namespace cannot be entered or has no netlink.
    pub fn open(namespace: &Netns) -> Result<Self, KernelError> {
        Ok(Self { rtnl: Rtnl::open(namespace)? })
    }

    /// All links, by index.
    ///
    /// # Errors
    /// When the kernel cannot be read.
    pub async fn list(&self) -> Result<Vec<Link>, KernelError> {
        list_links(&self.rtnl).await
    }

    /// The link of that name.
    ///
    /// # Errors
    /// [`KernelError::NoLink`] when there is none.
    pub async fn get(&self, name: &str) -> Result<Link, KernelError> {
        link_named(&self.rtnl, name).await
    }

    /// A veth pair: `name` here, `peer` in `peer_namespace`. Both stay down.
    ///
    /// # Errors
    /// When either name is taken.
    pub async fn add_veth(&self, name: &str, peer: &str, peer_namespace: &Netns) -> Result<(), KernelError> {
        let far =
            LinkMessageBuilder::<LinkUnspec>::new().name(peer).setns_by_fd(peer_namespace.raw_fd()).build();
        let message = LinkVeth::new(name, peer).set_info_data(InfoData::Veth(InfoVeth::Peer(far))).build();
        self.rtnl
            .change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, || {
                format!("link add {name} type veth peer {peer} netns {}", peer_namespace.name())
            })
            .await
    }

    /// A bridge without spanning tree, up.
    ///
    /// # Errors
    /// When the name is taken.
    pub async fn add_bridge(&self, name: &str) -> Result<(), KernelError> {
        let message = LinkBridge::new(name).build();
        self.rtnl
            .change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, || {
                format!("link add {name} type bridge")
            })
            .await
    }

    /// Makes `port` a port of `bridge` and sets it up.
    ///
    /// # Errors
    /// When one of them is missing or cannot be joined.
    pub async fn attach(&self, port: &str, bridge: &str) -> Result<(), KernelError> {
        let bridge_index = self.get(bridge).await?.index;
        let index = self.get(port).await?.index;
        let message = LinkUnspec::new_with_index(index).controller(bridge_index).up().build();
        self.set(message, || format!("link set {port} master {bridge} up")).await
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// When there is no such link.
    pub async fn set_up(&self, name: &str) -> Result<(), KernelError> {
        let index = self.get(name).await?.index;
        self.set(LinkUnspec::new_with_index(index).up().build(), || format!("link set {name} up")).await
    }

    /// Sets a link down.
    ///
    /// # Errors
    /// When there is no such link.
    pub async fn set_down(&self, name: &str) -> Result<(), KernelError> {
        let index = self.get(name).await?.index;
        self.set(LinkUnspec::new_with_index(index).down().build(), || format!("link set {name} down")).await
    }

    /// Deletes a link, and with a veth its other end.
    ///
    /// # Errors
    /// When there is no such link.
    pub async fn delete(&self, name: &str) -> Result<(), KernelError> {
        let index = self.get(name).await?.index;
        let message = LinkUnspec::new_with_index(index).build();
        self.rtnl.change(RouteNetlinkMessage::DelLink(message), 0, || format!("link delete {name}")).await
    }

    /// Adds an address (`192.0.2.1/24`) with its prefix route. An IPv6 address is in force at once.
    ///
    /// # Errors
    /// When it is there already or the link is missing.
    pub async fn add_address(&self, name: &str, address: IpNet) -> Result<(), KernelError> {
        let message = address_message(self.get(name).await?.index, address);
        self.rtnl
            .change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, || {
                format!("addr add {address} dev {name}")
            })
            .await
    }

    /// Deletes an address.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn delete_address(&self, name: &str, address: IpNet) -> Result<(), KernelError> {
        let message = address_message(self.get(name).await?.index, address);
        self.rtnl
            .change(RouteNetlinkMessage::DelAddress(message), 0, || format!("addr del {address} dev {name}"))
            .await
    }

    /// The addresses of a link that others can reach, those of IPv4 first, in the kernel's order.
    ///
    /// # Errors
    /// When the kernel cannot be read or the link is missing.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpNet>, KernelError> {
        let index = self.get(name).await?.index;
        let mut request = AddressMessage::default();
        request.header.family = AddressFamily::Unspec;
        let all = self.rtnl.dump(RouteNetlinkMessage::GetAddress(request), "addresses").await?;
        let mut found = Vec::new();
        for message in all {
            let RouteNetlinkMessage::NewAddress(message) = message else { continue };
            if message.header.index != index || message.header.scope != AddressScope::Universe {
                continue;
            }
            for attribute in &message.attributes {
                // IPv6 names the local address only when there is another at the other end.
                let local = match attribute {
                    AddressAttribute::Local(address) => Some(address),
                    AddressAttribute::Address(address @ IpAddr::V6(_)) => Some(address),
                    _ => None,
                };
                if let Some(address) = local
                    && let Ok(net) = IpNet::new(*address, message.header.prefix_len)
                {
                    found.push(net);
                }
            }
        }
        Ok(found)
    }

    /// Adds or replaces a route in the main table. Without a gateway the destination is on the link.
    ///
    /// # Errors
    /// When the gateway is not reachable over the link, or the families differ.
    pub async fn add_route(
        &self,
        destination: IpNet,
        gateway: Option<IpAddr>,
        name: &str,
    ) -> Result<(), KernelError> {
        let what = || match gateway {
            Some(gateway) => format!("route replace {destination} via {gateway} dev {name}"),
            None => format!("route replace {destination} dev {name}"),
        };
        let invalid = |error: String| KernelError::Refused {
            what: what(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
        };
        let index = self.get(name).await?.index;
        let mut builder = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(destination.network(), destination.prefix_len())
            .map_err(|error| invalid(error.to_string()))?
            .output_interface(index);
        builder = match gateway {
            Some(gateway) => builder.gateway(gateway).map_err(|error| invalid(error.to_string()))?,
            None => builder.scope(rtnetlink::packet_route::route::RouteScope::Link),
        };
        self.rtnl
            .change(RouteNetlinkMessage::NewRoute(builder.build()), NLM_F_CREATE | NLM_F_REPLACE, what)
            .await
    }

    async fn set(&self, message: LinkMessage, what: impl FnOnce() -> String) -> Result<(), KernelError> {
        self.rtnl.change(RouteNetlinkMessage::SetLink(message), 0, what).await
    }
}

/// Makes the next address of a subnet its first when the first is deleted, instead of deleting them all.
///
/// By netlink (`IFLA_INET_CONF`), not by `/proc/sys`: that is read-only in a container.
pub(crate) async fn promote_secondaries(rtnl: &Rtnl, name: &str) -> Result<(), KernelError> {
    let found = list_links(rtnl).await?.into_iter().find(|link| link.name == name);
    let link = found.ok_or_else(|| KernelError::NoLink(name.to_owned()))?;
    let mut message = LinkMessage::default();
    message.header.index = link.index;
    // What is zero in it is not sent, and stays as it is.
    let mut conf = InetDevConf::default();
    conf.promote_secondaries = 1;
    let inet = AfSpecUnspec::Inet(vec![AfSpecInet::DevConfRequest(conf)]);
    message.attributes.push(LinkAttribute::AfSpecUnspec(vec![inet]));
    let what = || format!("sysctl net.ipv4.conf.{name}.promote_secondaries=1");
    rtnl.change(RouteNetlinkMessage::SetLink(message), 0, what).await
}

pub(crate) async fn list_links(rtnl: &Rtnl) -> Result<Vec<Link>, KernelError> {
    let all = rtnl.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), "links").await?;
    let mut links: Vec<Link> = all
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(message) => link_of(&message),
            _ => None,
        })
        .collect();
    links.sort_by_key(|link| link.index);
    Ok(links)
}

/// The link of that name.
pub(crate) async fn link_named(rtnl: &Rtnl, name: &str) -> Result<Link, KernelError> {
    let all = list_links(rtnl).await?;
    all.into_iter().find(|link| link.name == name).ok_or_else(|| KernelError::NoLink(name.to_owned()))
}

/// The address of a link that only its own segment knows, once it may be used.
pub(crate) async fn link_local(rtnl: &Rtnl, index: u32) -> Result<Option<Ipv6Addr>, KernelError> {
    let mut request = AddressMessage::default();
    request.header.family = AddressFamily::Inet6;
    let all = rtnl.dump(RouteNetlinkMessage::GetAddress(request), "addresses").await?;
    let usable = |message: &AddressMessage| {
        let flags = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Flags(flags) => Some(*flags),
            _ => None,
        });
        message.header.index == index && !flags.is_some_and(|flags| flags.contains(AddressFlags::Tentative))
    };
    Ok(all.iter().find_map(|message| match message {
        RouteNetlinkMessage::NewAddress(message) if usable(message) => {
            message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(IpAddr::V6(address)) if address.is_unicast_link_local() => {
                    Some(*address)
                }
                _ => None,
            })
        }
        _ => None,
    }))
}

pub(crate) fn link_of(message: &LinkMessage) -> Option<Link> {
    let name = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })?;
    let mac = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok(),
        _ => None,
    });
    let carrier_ups = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::CarrierUpCount(count) => Some(*count),
        _ => None,
    });
    let carrier_ups = carrier_ups.unwrap_or_default();
    let kind = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
            LinkInfo::Kind(kind) => Some(kind),
            _ => None,
        }),
        _ => None,
    });
    Some(Link {
        index: message.header.index,
        name,
        up: message.header.flags.contains(LinkFlags::Up),
        carrier: message.header.flags.contains(LinkFlags::LowerUp),
        carrier_ups,
        wireguard: kind == Some(&InfoKind::Wireguard),
        mac,
    })
}

fn address_message(index: u32, address: IpNet) -> AddressMessage {
    match address {
        IpNet::V4(net) => AddressMessageBuilder::<Ipv4Addr>::new()
            .index(index)
            .address(net.addr(), net.prefix_len())
            .build(),
        IpNet::V6(net) => {
            let mut message = AddressMessageBuilder::<Ipv6Addr>::new()
                .index(index)
                .address(net.addr(), net.prefix_len())
                .build();
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
            message
        }
    }
}

//! Whether anybody answers a node that was started while the API is away: the routers of the VIPs it knew last.
//!
//! Until somebody does, its addresses are not renewed: the node may be cut off, and others may hold them by now.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use litek8s_kernel::{Asker, Prober};
use litek8s_plan::Facts;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::owner::Event;

/// How often the routers are asked.
const ASK: Duration = Duration::from_millis(500);
/// How long an answer counts.
const COUNTS: Duration = Duration::from_secs(5);

/// Asks until the API has said everything, and tells the owner when somebody answers and when nobody does any more.
pub(crate) async fn look(
    prober: Prober,
    last: Facts,
    events: mpsc::Sender<Event>,
    synced: CancellationToken,
) {
    let mut routers: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for vip in &last.vips {
        routers.entry(vip.interface.clone()).or_default().extend(vip.gateway);
    }
    let all: BTreeSet<IpAddr> = routers.values().flatten().copied().collect();
    let mut ask = tokio::time::interval(ASK);
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut answered, mut told) = (None::<Instant>, false);
    loop {
        tokio::select! {
            () = synced.cancelled() => return,
            claim = prober.heard() => match claim {
                Ok(claim) if all.contains(&claim.address) => answered = Some(Instant::now()),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot hear the routers");
                    tokio::time::sleep(ASK).await;
                }
            },
            _ = ask.tick() => {
                for (interface, addresses) in &routers {
                    let addresses: Vec<IpAddr> = addresses.iter().copied().collect();
                    // An interface that is down or not there answers nothing.
                    let _ = prober.ask(interface, &addresses, Asker::Ourselves).await;
                }
            }
        }
        let there = answered.is_some_and(|at| at.elapsed() < COUNTS);
        if there != told {
            told = there;
            if events.send(Event::Company(there)).await.is_err() {
                return;
            }
        }
    }
}

//! Asks the network for addresses before they are used, and hears who says that he has one of ours.
//!
//! Questions come from nobody (RFC 5227, section 2.1.1; RFC 4862, section 5.4.2). Those of others are passed over: a node
//! that watches over its neighbours asks in the same way, and means to use nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use litek8s_kernel::{Asker, Prober};
use litek8s_plan::Mac;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::contest::Place;
use crate::owner::Event;

/// When an address is asked for: twice before it is used, and twice when it may be in use already.
const QUESTIONS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(15), Duration::from_millis(500), Duration::from_millis(1500)];
/// How often one address is told of: whoever claims it goes on doing so.
const TELL: Duration = Duration::from_millis(200);
/// The pause when nothing can be heard.
const RETRY: Duration = Duration::from_secs(1);

/// Addresses to ask for, by interface.
pub(crate) type Questions = BTreeMap<String, Vec<IpAddr>>;
/// Addresses that are ours or are to be, and whose claims to each do not count.
pub(crate) type Ours = BTreeMap<Place, BTreeSet<Mac>>;

/// Asks and listens for as long as the owner lives.
pub(crate) async fn run(
    prober: Prober,
    mut asked: mpsc::Receiver<Questions>,
    ours: watch::Receiver<Ours>,
    events: mpsc::Sender<Event>,
) {
    let prober = Arc::new(prober);
    let mut asking = JoinSet::new();
    let mut told: BTreeMap<Place, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            questions = asked.recv() => match questions {
                Some(questions) => drop(asking.spawn(ask(prober.clone(), questions))),
                None => return,
            },
            Some(_) = asking.join_next(), if !asking.is_empty() => {}
            claim = prober.heard() => match claim {
                Ok(claim) => {
                    let place = (claim.interface, claim.address);
                    let counts = ours.borrow().get(&place).is_some_and(|others| !others.contains(&claim.mac));
                    let now = Instant::now();
                    told.retain(|_, at| now < *at + TELL);
                    if counts && !told.contains_key(&place) {
                        told.insert(place, now);
                        if events.send(Event::Claimed(place, claim.mac)).await.is_err() {
                            return;
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot hear who has an address");
                    tokio::time::sleep(RETRY).await;
                }
            },
        }
    }
}

async fn ask(prober: Arc<Prober>, questions: Questions) {
    let start = Instant::now();
    for at in QUESTIONS {
        tokio::time::sleep_until(start + at).await;
        for (interface, addresses) in &questions {
            if let Err(error) = prober.ask(interface, addresses, Asker::Nobody).await {
                tracing::debug!(interface, %error, "cannot ask for addresses");
            }
        }
    }
}

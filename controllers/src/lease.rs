//! Which of several controllers works: the one that holds the Lease. Without it nothing is written.
//!
//! Times on other machines are never compared with ours: a Lease has expired when it has not changed for its duration by
//! our own clock, as client-go judges it.

mod record;

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use litek8s_daemon::serve::Readiness;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use record::{Seen, Step};

/// The name of the Lease.
const NAME: &str = "netwrangler-controllers";
/// How long a Lease lasts that nobody renews.
const DURATION: Duration = Duration::from_secs(15);
/// After how long without a renewal its holder stops working; well before another one may begin.
const DEADLINE: Duration = Duration::from_secs(10);
/// Between two tries.
const PERIOD: Duration = Duration::from_secs(2);
/// How long one try may take: a connection may be dead without saying so.
const PATIENCE: Duration = Duration::from_secs(5);

/// The election.
pub(crate) struct Election {
    api: Api<Lease>,
    identity: String,
    /// Whether the Lease can be read and written; who holds it is another matter.
    readiness: Readiness,
}

impl Election {
    pub(crate) fn new(client: Client, namespace: &str, readiness: Readiness) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let start = jiff::Timestamp::now().as_nanosecond();
        let identity = format!("{}_{}_{start:x}", host.trim(), std::process::id());
        Self { api: Api::namespaced(client, namespace), identity, readiness }
    }

    /// Runs `work` while this process holds the Lease. `work` is told to stop by its token and is waited for.
    pub(crate) async fn lead<F, W>(&self, shutdown: CancellationToken, work: F) -> anyhow::Result<()>
    where
        F: Fn(CancellationToken) -> W,
        W: Future<Output = anyhow::Result<()>>,
    {
        let mut seen = Seen::default();
        while !shutdown.is_cancelled() {
            match self.attempt(&mut seen).await {
                Ok(true) => {
                    tracing::info!(identity = self.identity, "holds the Lease");
                    self.term(&mut seen, &shutdown, &work).await?;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the Lease could not be read or written"),
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
        Ok(())
    }

    async fn term<F, W>(&self, seen: &mut Seen, shutdown: &CancellationToken, work: &F) -> anyhow::Result<()>
    where
        F: Fn(CancellationToken) -> W,
        W: Future<Output = anyhow::Result<()>>,
    {
        let over = shutdown.child_token();
        let working = work(over.clone());
        tokio::pin!(working);
        tokio::select! {
            result = &mut working => {
                self.release().await;
                return result;
            }
            () = self.renew(seen, &over) => over.cancel(),
        }
        let result = working.await;
        self.release().await;
        result
    }

    /// Returns when the Lease is lost or could not be renewed in time, or when `over`.
    async fn renew(&self, seen: &mut Seen, over: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            let started = Instant::now();
            match tokio::time::timeout(DEADLINE.saturating_sub(renewed.elapsed()), self.attempt(seen)).await {
                Ok(Ok(true)) => renewed = started,
                Ok(Ok(false)) => {
                    tracing::warn!("another controller took the Lease");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(%error, "the Lease could not be renewed"),
                Err(_) => tracing::warn!("the Lease could not be renewed in time"),
            }
            if renewed.elapsed() >= DEADLINE {
                tracing::error!("stops working, the Lease was not renewed for {} s", DEADLINE.as_secs());
                return;
            }
        }
    }

    /// Takes or renews the Lease; whether it is ours now.
    async fn attempt(&self, seen: &mut Seen) -> anyhow::Result<bool> {
        let result = match tokio::time::timeout(PATIENCE, self.attempt_once(seen)).await {
            Ok(result) => result.map_err(anyhow::Error::from),
            Err(_) => Err(anyhow::anyhow!("the API did not answer in {} s", PATIENCE.as_secs())),
        };
        match &result {
            Ok(_) => self.readiness.ready(),
            Err(error) => self.readiness.unready(&format!("the Lease: {error}")),
        }
        result
    }

    async fn attempt_once(&self, seen: &mut Seen) -> Result<bool, kube::Error> {
        let Some(lease) = self.api.get_opt(NAME).await? else {
            let lease = record::first(NAME, &self.identity, DURATION, jiff::Timestamp::now());
            return taken(self.api.create(&PostParams::default(), &lease).await);
        };
        match seen.step(&lease, &self.identity, Instant::now().into_std(), DURATION) {
            Step::Wait => Ok(false),
            Step::Write => {
                let next = record::next(&lease, &self.identity, DURATION, jiff::Timestamp::now());
                taken(self.api.replace(NAME, &PostParams::default(), &next).await)
            }
        }
    }

    /// Lets go at once, so that nobody has to wait for the Lease to expire.
    async fn release(&self) {
        if tokio::time::timeout(PATIENCE, self.release_once()).await.is_err() {
            tracing::warn!("the Lease was not released: the API did not answer in {} s", PATIENCE.as_secs());
        }
    }

    async fn release_once(&self) {
        let Ok(Some(lease)) = self.api.get_opt(NAME).await else { return };
        if record::holder(&lease) == Some(&self.identity) {
            let released = record::next(&lease, "", DURATION, jiff::Timestamp::now());
            if let Err(error) = self.api.replace(NAME, &PostParams::default(), &released).await {
                tracing::warn!(%error, "the Lease was not released");
            }
        }
    }
}

/// A conflict is somebody else's success.
fn taken(result: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_api_that_never_answers_is_not_waited_for() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap()).parse().unwrap();
        let client = Client::try_from(kube::Config::new(url)).unwrap();
        let readiness = Readiness::new("not yet");
        let election = Election::new(client, "kube-system", readiness);
        let (mut seen, started) = (Seen::default(), Instant::now());
        let (attempt, ()) = tokio::join!(election.attempt(&mut seen), election.release());
        assert_eq!(attempt.unwrap_err().to_string(), "the API did not answer in 5 s");
        assert!(started.elapsed() < 3 * PATIENCE);
    }
}

//! Processor time of the server and of this client, which share the machine: what a busy neighbour does not change.

use anyhow::Context;

/// Ticks in a second of the times in `/proc`: fixed for user space on Linux.
const TICKS: f64 = 100.0;

/// Processor seconds used over some span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// By this process.
    pub(crate) client: f64,
    /// By the server; 0 when it is no process of ours.
    pub(crate) server: f64,
}

impl Used {
    /// The client's part, in per cent.
    pub(crate) fn client_share(self) -> f64 {
        100.0 * self.client / (self.client + self.server).max(f64::MIN_POSITIVE)
    }
}

/// Reads the times of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    server: Option<u32>,
}

impl Meter {
    /// Of a server in this process, or of none that can be seen.
    pub(crate) fn new(server: Option<u32>) -> Self {
        Self { server }
    }

    /// All that was used so far.
    ///
    /// # Errors
    /// When the server has ended.
    pub(crate) fn read(self) -> anyhow::Result<Used> {
        let server = self.server.map(|process| seconds(&process.to_string())).transpose()?;
        Ok(Used { client: seconds("self")?, server: server.unwrap_or(0.0) })
    }

    /// What was used since `begin`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn since(self, begin: Used) -> anyhow::Result<Used> {
        let now = self.read()?;
        Ok(Used { client: now.client - begin.client, server: now.server - begin.server })
    }
}

fn seconds(process: &str) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    ticks(&stat).map(|ticks| ticks / TICKS).context("no times in /proc")
}

/// User and system time of a `stat` line; the name in parentheses may hold anything.
fn ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_deceptive_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 100";
        assert_eq!(ticks(stat), Some(300.0));
    }

    #[test]
    fn the_clients_share_is_of_both() {
        assert_eq!(Used { client: 1.0, server: 3.0 }.client_share(), 25.0);
        assert_eq!(Used::default().client_share(), 0.0);
    }
}

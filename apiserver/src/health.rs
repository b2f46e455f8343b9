//! `/livez`, `/readyz` and `/healthz`: what is checked, and what is said about it.

use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use litek8s_daemon::health::{CheckResult, report};

use crate::api::Api;
use crate::filters::{failure, route};
use crate::request::Query;
use crate::response::Response;

/// What only the server's own course knows.
#[derive(Debug, Default)]
pub struct Health {
    bootstrapped: AtomicBool,
    draining: AtomicBool,
}

impl Health {
    /// The first objects are in the store.
    pub fn set_bootstrapped(&self) {
        self.bootstrapped.store(true, Ordering::Relaxed);
    }

    /// The server is about to stop: load balancers should go elsewhere.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Answers a path of one of the three endpoints, or of one of their checks.
    pub(crate) fn answer(&self, path: &str, query: &Query, api: &Api) -> Response {
        let (endpoint, check) = split(path);
        let mut results = self.results(endpoint, api);
        if !check.is_empty() {
            results.retain(|(name, _)| name == check);
            if results.is_empty() {
                return failure(&litek8s_machinery::status::Status::unknown_resource());
            }
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let report = report(endpoint, &results, query.get("verbose").is_some(), &excluded);
        let code = if report.healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        route::text(code, "text/plain; charset=utf-8", report.text.into_bytes())
    }

    fn results(&self, endpoint: &str, api: &Api) -> Vec<CheckResult> {
        let status = api.replica.status();
        let check = |name: &str, good: bool, bad: &str| {
            (name.to_owned(), if good { Ok(()) } else { Err(bad.to_owned()) })
        };
        // A server without a leader is alive: restarting it would not help.
        let mut results =
            vec![check("ping", true, ""), ("log".to_owned(), status.failure.clone().map_or(Ok(()), Err))];
        if endpoint != "livez" {
            results.push(check("leader", status.leader.is_some(), "no server leads"));
            let bootstrapped = self.bootstrapped.load(Ordering::Relaxed);
            results.push(check("poststarthook/bootstrap", bootstrapped, "not finished"));
        }
        if endpoint == "readyz" {
            results.push(check(
                "shutdown",
                !self.draining.load(Ordering::Relaxed),
                "process is shutting down",
            ));
        }
        results
    }
}

/// `/readyz/leader` is the check `leader` of `readyz`.
fn split(path: &str) -> (&str, &str) {
    let path = path.trim_matches('/');
    path.split_once('/').unwrap_or((path, ""))
}

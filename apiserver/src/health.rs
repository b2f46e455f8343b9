//! `/livez`, `/readyz` and `/healthz`: what is checked, and what is said about it.

use std::sync::atomic::{AtomicBool, Ordering};

use http::header::X_CONTENT_TYPE_OPTIONS;
use http::{HeaderValue, StatusCode};
use litek8s_daemon::health::{CheckResult, report};

use crate::aggregation::api_services;
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
            let Some((_, result)) = results.into_iter().find(|(name, _)| name == check) else {
                return failure(&litek8s_machinery::status::Status::unknown_resource());
            };
            return match result {
                Ok(()) => text(StatusCode::OK, "ok".to_owned()),
                Err(why) => {
                    text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n"))
                }
            };
        }
        // Anybody may ask for the list; the reasons stand at each check's own path, and in the log.
        for (name, result) in &mut results {
            if let Err(why) = result {
                tracing::debug!(endpoint, check = name.as_str(), why, "a health check fails");
                *result = Err("reason withheld".to_owned());
            }
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let report = report(endpoint, &results, query.get("verbose").is_some(), &excluded);
        let code = if report.healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        text(code, report.text)
    }

    fn results(&self, endpoint: &str, api: &Api) -> Vec<CheckResult> {
        let status = api.replica.status();
        let check = |name: &str, good: bool, bad: &str| {
            (name.to_owned(), if good { Ok(()) } else { Err(bad.to_owned()) })
        };
        let log = || status.failure.clone().map_or(Ok(()), Err);
        // A server without a leader is alive: restarting it would not help.
        let mut results =
            vec![check("ping", true, ""), ("log".to_owned(), log()), ("etcd".to_owned(), log())];
        if endpoint != "livez" {
            let leader = status.leader.is_some();
            results.push(check("leader", leader, "no server leads"));
            if endpoint == "readyz" {
                results.push(check("etcd-readiness", leader, "no server leads"));
            }
            let bootstrapped = self.bootstrapped.load(Ordering::Relaxed);
            results.push(check("poststarthook/bootstrap", bootstrapped, "not finished"));
            results.push(check("poststarthook/rbac/bootstrap-roles", bootstrapped, "not finished"));
            let registered = api.replica.view().count(&api_services()) > 0;
            results.push(check("autoregister-completion", registered, "missing APIServices"));
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

fn text(code: StatusCode, body: String) -> Response {
    let mut response = route::text(code, "text/plain; charset=utf-8", body.into_bytes());
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `/readyz/leader` is the check `leader` of `readyz`.
fn split(path: &str) -> (&str, &str) {
    let path = path.trim_matches('/');
    path.split_once('/').unwrap_or((path, ""))
}

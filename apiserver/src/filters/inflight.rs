//! How many requests are answered at a time; the rest is told to come back, so that memory and latency stay bounded.

use std::sync::Arc;

use litek8s_machinery::status::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::flow_control::Flow;
use crate::metrics::{ApiMetrics, Counted, Executing};
use crate::request::{MASTERS, RequestInfo, UserInfo};

/// Seconds after which a refused client may come back.
const RETRY_AFTER: u32 = 1;

/// Room for reading and for writing requests.
#[derive(Debug, Clone)]
pub struct InFlight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
}

/// A place among the requests being answered.
#[derive(Debug)]
pub(super) struct Room {
    _permit: Option<OwnedSemaphorePermit>,
    _counted: Option<(Counted, Option<Executing>)>,
}

impl InFlight {
    /// Room for so many reading and writing requests.
    pub fn new(reading: usize, writing: usize) -> Self {
        Self { reading: Arc::new(Semaphore::new(reading)), writing: Arc::new(Semaphore::new(writing)) }
    }

    /// Takes a place, or says when to come back. Watches, administrators and what is of an exempt level always get in.
    pub(super) fn enter(
        &self,
        info: &RequestInfo,
        user: &UserInfo,
        flow: Option<&Flow>,
        metrics: &ApiMetrics,
    ) -> Result<Room, Status> {
        if info.is_long_running() {
            return Ok(Room { _permit: None, _counted: None });
        }
        let (room, kind) =
            if info.is_read_only() { (&self.reading, "readOnly") } else { (&self.writing, "mutating") };
        let permit = if user.in_group(MASTERS) || flow.is_some_and(|flow| flow.exempt) {
            None
        } else {
            let permit = room.clone().try_acquire_owned().map_err(|_| {
                metrics.terminated(kind);
                if let Some(flow) = flow {
                    metrics.flows().rejected(flow);
                }
                Status::too_many_requests("Too many requests, please try again later.", RETRY_AFTER)
            })?;
            Some(permit)
        };
        let executing = flow.map(|flow| metrics.flows().dispatched(flow));
        Ok(Room { _permit: permit, _counted: Some((metrics.in_flight(kind), executing)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, url: &str) -> RequestInfo {
        RequestInfo::parse(&method.parse().unwrap(), &url.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_full_house_says_when_to_come_back_but_lets_watches_and_administrators_in() {
        let metrics = ApiMetrics::default();
        let in_flight = InFlight::new(1, 1);
        let user = UserInfo::new("alice", ["dev"]);
        let get = info("GET", "/api/v1/pods");
        let first = in_flight.enter(&get, &user, None, &metrics).unwrap();
        let refused = in_flight.enter(&get, &user, None, &metrics).unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (429, 1));
        assert!(in_flight.enter(&info("POST", "/api/v1/namespaces"), &user, None, &metrics).is_ok());
        assert!(in_flight.enter(&info("GET", "/api/v1/pods?watch=1"), &user, None, &metrics).is_ok());
        assert!(in_flight.enter(&get, &UserInfo::new("root", [MASTERS]), None, &metrics).is_ok());
        let flow =
            |exempt| Flow { schema: ("s".into(), "1".into()), level: ("l".into(), "2".into()), exempt };
        assert!(in_flight.enter(&get, &user, Some(&flow(true)), &metrics).is_ok());
        assert!(in_flight.enter(&get, &user, Some(&flow(false)), &metrics).is_err());
        let text = metrics.registry.encode().unwrap();
        let of = "{priority_level=\"l\",flow_schema=\"s\"";
        for line in [
            format!("apiserver_flowcontrol_dispatched_requests_total{of}}} 1"),
            format!("apiserver_flowcontrol_rejected_requests_total{of},reason=\"concurrency-limit\"}} 1"),
            format!("apiserver_flowcontrol_current_executing_requests{of}}} 0"),
        ] {
            assert!(text.contains(&line), "{line} is not in {text}");
        }
        drop(first);
        assert!(in_flight.enter(&get, &user, None, &metrics).is_ok());
    }
}

//! The audit log: who did what, how much of it is written down by which rule, and when; never delays an answer for
//! longer than its line waits for the disk.

mod event;
mod log;
mod object;
mod policy;
mod recording;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use http::header::CONTENT_TYPE;

pub(crate) use recording::{AtEnd, Recording, UntilEnd};

use crate::metrics::ApiMetrics;
use crate::request::{Annotations, RequestInfo};
use log::Log;
use policy::Policy;

/// Where a request came from; the server puts it into the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Source(pub SocketAddr);

/// Where the log is, and how large it gets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The policy; without one everything is logged with its metadata.
    pub policy_file: Option<PathBuf>,
    /// The log file.
    pub path: PathBuf,
    /// Bytes after which a new file is begun.
    pub max_bytes: u64,
    /// Old files that are kept.
    pub max_backups: usize,
}

/// The server's audit log, or none.
#[derive(Debug, Clone, Default)]
pub struct Audit(Option<Arc<Active>>);

#[derive(Debug)]
struct Active {
    policy: Policy,
    log: Log,
    metrics: ApiMetrics,
}

impl Audit {
    /// Reads the policy and opens the log.
    pub fn open(settings: &Settings, metrics: ApiMetrics) -> anyhow::Result<Self> {
        let policy = match &settings.policy_file {
            None => Policy::metadata_of_everything(),
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read the audit policy {}", file.display()))?;
                Policy::parse(&text).with_context(|| format!("the audit policy {}", file.display()))?
            }
        };
        let log = Log::open(settings.path.clone(), settings.max_bytes, settings.max_backups)
            .with_context(|| format!("cannot open the audit log {}", settings.path.display()))?;
        Ok(Self(Some(Arc::new(Active { policy, log, metrics }))))
    }

    /// Begins the record of a request.
    pub(crate) fn record<B>(
        &self,
        info: &RequestInfo,
        request: &http::Request<B>,
        audit_id: &str,
        annotations: &Annotations,
        now: jiff::Timestamp,
    ) -> Option<Arc<Recording>> {
        let active = self.0.as_ref()?;
        let event = event::begin(info, request, audit_id, now);
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        Some(Arc::new(Recording::new(active.clone(), info, content_type, event, annotations.clone())))
    }

    /// Waits until everything is in the file.
    pub async fn flush(&self) {
        if let Some(active) = &self.0 {
            active.log.flush().await;
        }
    }
}

#[cfg(test)]
mod tests;

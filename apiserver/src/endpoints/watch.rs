//! `GET …?watch=true`: where a watch starts and how long it lasts; the events themselves come from [`crate::watch`].

use std::time::Duration;

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::time::Instant;

use super::options::{self, ListOptions};
use super::selection::Selection;
use super::{Call, reads};
use crate::response::{Failure, Form, Media, PROTOBUF_STREAM, Response, streamed};
use crate::watch::{Shape, Watch, WatchPlan};

/// The least time a watch lasts whose client names none; the most is twice as long.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// The longest time that a client may name: more than any connection lasts, and far from what a clock can count to.
const MAX_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);

/// Answers the events of a collection until the timeout.
pub(crate) async fn watch(call: &Call<'_>) -> Result<Response, Failure> {
    let info = &call.ctx.info;
    let options = ListOptions::parse(&info.query, true)?;
    let selection = Selection::parse(&call.served, info)?;
    let revision = options::revision(&options.resource_version)?;
    let replica = &call.api.replica;
    let namespace = Some(call.namespace()).filter(|n| !n.is_empty()).map(str::to_owned);
    let with_existing = options.initial_events == Some(true);
    let (cursor, existing) = match revision {
        _ if with_existing => {
            let view = reads::not_older_than(replica, revision).await?;
            let objects = view.list(&call.served.key, namespace.as_deref()).cloned().collect();
            (view.revision(), objects)
        }
        Some(from) if from > 0 => (from, Vec::new()),
        _ => (reads::newest(replica).await?.revision(), Vec::new()),
    };
    let timeout = options.timeout.and_then(|t| Duration::try_from(t).ok());
    let timeout = timeout.map_or_else(random_timeout, |timeout| timeout.min(MAX_TIMEOUT));
    let plan = WatchPlan {
        served: call.served.clone(),
        selection,
        namespace,
        shape: Shape {
            media: call.output.media,
            form: call.output.form,
            include: options::include_object(&info.query)?,
        },
        existing,
        cursor,
        bookmarks: options.bookmarks,
        end_of_existing: with_existing && options.bookmarks,
        deadline: Instant::now() + timeout,
    };
    if plan.shape.form == Form::PartialList {
        return Err(litek8s_machinery::status::Status::not_acceptable(&["application/json;stream=watch"]));
    }
    let shape = plan.shape;
    let mut response = Response::new(streamed(Watch::new(call.api.clone(), plan).into_frames()));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    let content_type =
        if shape.media == Media::Protobuf { PROTOBUF_STREAM } else { shape.media.content_type() };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// Between half an hour and an hour, so that watches that began together do not end together.
fn random_timeout() -> Duration {
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    DEFAULT_TIMEOUT + Duration::from_secs(random % DEFAULT_TIMEOUT.as_secs())
}

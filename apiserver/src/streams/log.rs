//! `pods/log`: which lines, from which container, and their way from the node's agent to the client.

use std::sync::Arc;

use form_urlencoded::Serializer;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request};
use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::GroupKind;
use litek8s_machinery::status::Status;

use super::pod;
use crate::api::Api;
use crate::request::{Query, RequestContext};
use crate::response::{self, Failure, Response};

/// Answers the log of a container.
pub(super) async fn log(api: &Arc<Api>, ctx: &RequestContext) -> Result<Response, Failure> {
    let query = &ctx.info.query;
    let options = Options::parse(query)?;
    options.check(&ctx.info.name)?;
    let pod = pod::find(api, ctx).await?;
    let container = pod.container(query.get("container").unwrap_or_default())?;
    let mut response = Response::new(response::empty());
    // A pod that is on no node yet has said nothing.
    if !pod.node().is_empty() {
        let path = format!("/containerLogs/{}/{}/{container}", pod.namespace, pod.name);
        let request = Request::get(format!("http://{}{path}?{}", pod.node(), options.to_query()));
        let request = request.body(response::empty()).map_err(Status::internal)?;
        response = Response::new(api.streams.nodes.send(pod.node(), request).await?.into_body());
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// `PodLogOptions`.
#[derive(Debug, Default)]
struct Options {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<String>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
}

impl Options {
    fn parse(query: &Query) -> Result<Self, Failure> {
        let since_time = query.get("sinceTime").filter(|text| !text.is_empty());
        if let Some(text) = since_time
            && text.parse::<jiff::Timestamp>().is_err()
        {
            return Err(Status::bad_request(format!("sinceTime: {text:?} is not a time of RFC 3339")));
        }
        Ok(Self {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since_seconds: number(query, "sinceSeconds")?,
            since_time: since_time.map(str::to_owned),
            tail_lines: number(query, "tailLines")?,
            limit_bytes: number(query, "limitBytes")?,
            stream: query.get("stream").filter(|text| !text.is_empty()).map(str::to_owned),
        })
    }

    fn check(&self, pod: &str) -> Result<(), Failure> {
        let mut errors = Vec::new();
        let mut at_least = |field: &str, value: Option<i64>, least: i64, rule: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(FieldError::invalid(field, value, rule));
            }
        };
        at_least("tailLines", self.tail_lines, 0, "must be greater than or equal to 0");
        at_least("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        at_least("sinceSeconds", self.since_seconds, 1, "must be greater than 0");
        if self.since_seconds.is_some() && self.since_time.is_some() {
            let rule = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("", rule));
        }
        if let Some(stream) = &self.stream {
            let known = ["All", "Stderr", "Stdout"];
            if !known.contains(&stream.as_str()) {
                errors.push(FieldError::not_supported("stream", stream.as_str(), known));
            } else if stream != "All" && self.tail_lines.is_some() {
                let rule = "`tailLines` and specific `stream` are mutually exclusive for now";
                errors.push(FieldError::forbidden("", rule));
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), pod, &errors))
    }

    /// The query of a kubelet's log endpoint.
    fn to_query(&self) -> String {
        let mut query = Serializer::new(String::new());
        for (name, set) in
            [("follow", self.follow), ("previous", self.previous), ("timestamps", self.timestamps)]
        {
            if set {
                query.append_pair(name, "true");
            }
        }
        let numbers = [
            ("sinceSeconds", self.since_seconds),
            ("tailLines", self.tail_lines),
            ("limitBytes", self.limit_bytes),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                query.append_pair(name, &value.to_string());
            }
        }
        for (name, value) in [("sinceTime", &self.since_time), ("stream", &self.stream)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }
}

fn number(query: &Query, name: &str) -> Result<Option<i64>, Failure> {
    let Some(text) = query.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let value = text.parse().map_err(|_| Status::bad_request(format!("{name}: {text:?} is not a number")))?;
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(query: &str) -> Result<String, Failure> {
        let options = Options::parse(&Query::parse(Some(query)))?;
        options.check("p").map(|()| options.to_query())
    }

    #[test]
    fn good_options_are_passed_on() {
        let query = "follow=true&tailLines=0&timestamps=1&container=a&sinceTime=2026-01-02T03:04:05Z";
        assert_eq!(
            checked(query).unwrap(),
            "follow=true&timestamps=true&tailLines=0&sinceTime=2026-01-02T03%3A04%3A05Z"
        );
    }

    #[test]
    fn bad_options_are_refused() {
        for (query, code, message) in [
            ("tailLines=x", 400, r#"tailLines: "x" is not a number"#),
            ("sinceTime=soon", 400, r#"sinceTime: "soon" is not a time of RFC 3339"#),
            (
                "tailLines=-1",
                422,
                r#"PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"#,
            ),
            (
                "limitBytes=0",
                422,
                r#"PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0"#,
            ),
        ] {
            let refused = checked(query).unwrap_err();
            assert_eq!((refused.code, refused.message.as_str()), (code, message));
        }
        for query in [
            "sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z",
            "sinceSeconds=0",
            "stream=Both",
            "stream=Stdout&tailLines=1",
        ] {
            assert_eq!(checked(query).unwrap_err().code, 422, "{query}");
        }
    }
}

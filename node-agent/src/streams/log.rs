//! `/containerLogs/NAMESPACE/POD/CONTAINER`: the options of the query, and the limit that ends a log early.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;

use super::containers::{ByteStream, ContainerName, Containers, LogOptions, LogStream, Refusal};

/// The log that was asked for.
pub(super) async fn log(
    containers: &dyn Containers,
    name: &ContainerName,
    query: &HashMap<String, String>,
) -> Result<ByteStream, Refusal> {
    let options = options(query, Timestamp::now())?;
    let limit = number(query, "limitBytes")?;
    let log = containers.logs(name, &options).await?;
    Ok(match limit {
        Some(limit) => limited(log, limit),
        None => log,
    })
}

fn options(query: &HashMap<String, String>, now: Timestamp) -> Result<LogOptions, Refusal> {
    let flag = |name: &str| query.get(name).is_some_and(|text| text == "true");
    let since = match (number(query, "sinceSeconds")?, query.get("sinceTime")) {
        (Some(seconds), _) => now.checked_sub(Duration::from_secs(seconds)).ok(),
        (None, Some(text)) => Some(text.parse().map_err(|_| bad("sinceTime", text))?),
        (None, None) => None,
    };
    let stream = match query.get("stream").map(String::as_str) {
        None | Some("All") => LogStream::All,
        Some("Stdout") => LogStream::Stdout,
        Some("Stderr") => LogStream::Stderr,
        Some(other) => return Err(bad("stream", other)),
    };
    Ok(LogOptions {
        follow: flag("follow"),
        previous: flag("previous"),
        timestamps: flag("timestamps"),
        tail_lines: number(query, "tailLines")?,
        since,
        stream,
    })
}

fn number(query: &HashMap<String, String>, name: &str) -> Result<Option<u64>, Refusal> {
    query.get(name).map(|text| text.parse().map_err(|_| bad(name, text))).transpose()
}

fn bad(name: &str, text: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, format!("{name}: {text:?} makes no sense"))
}

/// The first `limit` bytes.
fn limited(log: ByteStream, limit: u64) -> ByteStream {
    let cut = log.scan(limit, |left, bytes| {
        let Ok(mut bytes) = bytes else { return futures::future::ready(Some(bytes)) };
        if *left == 0 {
            return futures::future::ready(None);
        }
        bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= bytes.len() as u64;
        futures::future::ready(Some(Ok::<Bytes, _>(bytes)))
    });
    cut.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_cuts_within_a_chunk() {
        let chunks = ["abc", "def", "ghi"].map(|text| Ok(Bytes::from(text)));
        let log = limited(futures::stream::iter(chunks).boxed(), 5);
        let got: Vec<Bytes> = log.map(Result::unwrap).collect().await;
        assert_eq!(got, ["abc", "de"]);
    }

    #[test]
    fn seconds_and_a_time_mean_the_same() {
        let now = Timestamp::from_second(1_000).unwrap();
        let query = |name: &str, value: &str| HashMap::from([(name.to_owned(), value.to_owned())]);
        let seconds = options(&query("sinceSeconds", "10"), now).unwrap();
        assert_eq!(seconds, options(&query("sinceTime", "1970-01-01T00:16:30Z"), now).unwrap());
        assert_eq!(options(&query("stream", "x"), now).unwrap_err().code, StatusCode::BAD_REQUEST);
    }
}

//! Large answers compressed for clients that ask for it; watches and what is compressed already pass as they are.

use async_compression::Level;
use async_compression::tokio::bufread::GzipEncoder;
use futures::TryStreamExt;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue, VARY};
use http_body_util::BodyDataStream;
use hyper::body::Body;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::response::{Response, streamed};

/// Smaller answers cost more than they save.
const LEAST: u64 = 128 * 1024;
/// How much of the compressed answer goes into one frame, in bytes.
const FRAME: usize = 32 * 1024;

/// Whether the client takes gzip.
pub(super) fn wanted(headers: &HeaderMap) -> bool {
    let mut entries = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    entries.any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let gzip = parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case("gzip"));
        gzip && !parts.any(|part| part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0))
    })
}

/// The answer with its body compressed, if it is whole, good and large.
pub(super) fn compressed(response: Response) -> Response {
    let large = response.body().size_hint().exact().is_some_and(|size| size > LEAST);
    if !large
        || response.status() != http::StatusCode::OK
        || response.headers().contains_key(CONTENT_ENCODING)
    {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let plain = StreamReader::new(BodyDataStream::new(body).map_err(std::io::Error::other));
    let gzip = GzipEncoder::with_quality(plain, Level::Fastest);
    let frames = ReaderStream::with_capacity(gzip, FRAME);
    Response::from_parts(parts, streamed(frames.map_err(Into::into)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_by_whoever_names_it() {
        for (value, takes) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("br, GZIP", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("x-gzip", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(wanted(&headers), takes, "{value}");
        }
        assert!(!wanted(&HeaderMap::new()));
    }
}

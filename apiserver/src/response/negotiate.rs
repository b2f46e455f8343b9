//! `Accept` to the media type and form of an answer, by the rules of kube-apiserver; never an encoder.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use litek8s_machinery::status::Status;

use super::Failure;
use crate::request::Query;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

impl Media {
    /// The media types offered, in order of preference.
    const OFFERED: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// The `Content-Type` of an answer.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// What of all that can be answered, this request may have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Offer {
    /// It is a watch, which is never YAML.
    pub(crate) streaming: bool,
    /// Tables and metadata may be asked for.
    pub(crate) convertible: bool,
    /// The kind has protobuf numbers: custom ones have none.
    pub(crate) protobuf: bool,
}

impl Offer {
    fn media(self) -> impl Iterator<Item = Media> {
        Media::OFFERED.into_iter().filter(move |media| match media {
            Media::Json => true,
            Media::Yaml => !self.streaming,
            Media::Protobuf => self.protobuf,
        })
    }
}

/// The `Content-Type` of a watch in protobuf.
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// What of an object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// The object itself.
    Object,
    /// `Table` of `meta.k8s.io/v1`.
    Table,
    /// `PartialObjectMetadata` of `meta.k8s.io/v1`.
    Partial,
    /// `PartialObjectMetadataList` of `meta.k8s.io/v1`.
    PartialList,
}

/// What an answer is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Output {
    /// The media type.
    pub(crate) media: Media,
    /// The form.
    pub(crate) form: Form,
    /// Whether people read it: indented by two spaces.
    pub(crate) pretty: bool,
}

impl Output {
    /// The output of requests whose `Accept` could not be met.
    pub(crate) const JSON: Self = Self { media: Media::Json, form: Form::Object, pretty: false };

    /// What the request accepts, or 406.
    pub(crate) fn negotiate(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Self, Failure> {
        let Offer { streaming, convertible, .. } = offer;
        let pretty_wanted = wants_pretty(headers, query);
        let accepts = Accepts::parse(headers);
        if accepts.0.is_empty() {
            return Ok(Self { pretty: pretty_wanted && !streaming, ..Self::JSON });
        }
        for clause in &accepts.0 {
            for media in offer.media() {
                if !clause.matches(media.content_type()) {
                    continue;
                }
                let Some((form, pretty)) = clause.form(convertible) else { continue };
                // A table has no protobuf numbers.
                if media == Media::Protobuf && form == Form::Table {
                    continue;
                }
                return Ok(Self { media, form, pretty: (pretty || pretty_wanted) && !streaming });
            }
        }
        let name = |media: Media| match (media, streaming) {
            (Media::Json, true) => "application/json;stream=watch",
            (Media::Protobuf, true) => PROTOBUF_STREAM,
            (media, _) => media.content_type(),
        };
        Err(Status::not_acceptable(&offer.media().map(name).collect::<Vec<_>>()))
    }
}

/// People with a browser or curl get indented text without asking, as upstream does.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(asked) = query.get("pretty").filter(|v| !v.is_empty()) {
        return matches!(asked, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|p| agent.starts_with(p))
}

/// A document that has versions: which one an `Accept` entry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    /// `type/subtype`
    pub(crate) media: String,
    /// The parameters, names in lower case.
    pub(crate) params: Vec<(String, String)>,
}

impl Profile {
    /// The parameter of this name.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether `media` (without parameters) is meant, wildcards included.
    pub(crate) fn matches(&self, media: &str) -> bool {
        self.media == media
            || self.media == "*/*"
            || self
                .media
                .strip_suffix("/*")
                .is_some_and(|kind| media.strip_prefix(kind).is_some_and(|rest| rest.starts_with('/')))
    }

    /// The form that `as`, `g` and `v` ask for, and `pretty`; `None` when it is not served.
    fn form(&self, convertible: bool) -> Option<(Form, bool)> {
        if self.param("stream").is_some_and(|s| !s.is_empty() && s != "watch") {
            return None;
        }
        if self.param("sv").is_some_and(|s| !s.is_empty() && s != "v1") {
            return None;
        }
        let pretty = self.param("pretty") == Some("1");
        let asked = ["as", "g", "v"].iter().any(|p| self.param(p).is_some());
        if !asked {
            return Some((Form::Object, pretty));
        }
        if !convertible || self.param("g") != Some("meta.k8s.io") || self.param("v") != Some("v1") {
            return None;
        }
        let form = match self.param("as") {
            Some("Table") => Form::Table,
            Some("PartialObjectMetadata") => Form::Partial,
            Some("PartialObjectMetadataList") => Form::PartialList,
            _ => return None,
        };
        Some((form, pretty))
    }
}

/// The entries of `Accept`, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepts(pub(crate) Vec<Profile>);

impl Accepts {
    /// Parses the header; entries with a higher `q` come first, exact ones before wildcards, else in the header's order.
    pub(crate) fn parse(headers: &HeaderMap) -> Self {
        let mut entries: Vec<(u16, u8, Profile)> = Vec::new();
        for value in headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()) {
            for entry in value.split(',').map(str::trim).filter(|e| !e.is_empty()) {
                let mut pieces = entry.split(';').map(str::trim);
                let media = pieces.next().unwrap_or_default().to_ascii_lowercase();
                let mut quality = 1000;
                let mut params = Vec::new();
                for piece in pieces {
                    let (name, text) = piece.split_once('=').unwrap_or((piece, ""));
                    let (name, text) = (name.trim().to_ascii_lowercase(), text.trim().trim_matches('"'));
                    if name == "q" {
                        quality = thousandths(text);
                    } else {
                        params.push((name, text.to_owned()));
                    }
                }
                if quality > 0 {
                    let vague = u8::from(media.ends_with("/*")) + u8::from(media.starts_with("*/"));
                    entries.push((quality, vague, Profile { media, params }));
                }
            }
        }
        entries.sort_by_key(|(quality, vague, _)| (std::cmp::Reverse(*quality), *vague));
        Self(entries.into_iter().map(|(_, _, profile)| profile).collect())
    }
}

/// `0.5` as 500; anything unreadable is 1.
fn thousandths(text: &str) -> u16 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole != "0" {
        return 1000;
    }
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    digits.parse().unwrap_or(1000)
}

#[cfg(test)]
mod tests;

//! What `Accept` headers of real clients lead to.

use super::*;
use http::HeaderValue;

fn output(accept: &str, streaming: bool) -> Result<Output, u16> {
    negotiate(accept, Offer { streaming, convertible: true, protobuf: false })
}

fn negotiate(accept: &str, offer: Offer) -> Result<Output, u16> {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(accept) {
        headers.insert(ACCEPT, value);
    }
    Output::negotiate(&headers, &Query::parse(None), offer).map_err(|s| s.code)
}

fn form(accept: &str) -> Option<(Media, Form)> {
    output(accept, false).ok().map(|o| (o.media, o.form))
}

#[test]
fn kubectl_get_asks_for_a_table_first() {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(form(accept), Some((Media::Json, Form::Table)));
}

#[test]
fn an_unknown_version_of_a_form_falls_through_to_the_next_entry() {
    assert_eq!(
        form("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
        Some((Media::Json, Form::Object))
    );
}

#[test]
fn a_built_in_kind_is_answered_in_protobuf_but_never_a_table() {
    let offer = Offer { streaming: false, convertible: true, protobuf: true };
    let media = |accept: &str| negotiate(accept, offer).map(|o| (o.media, o.form));
    let both = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(media(both), Ok((Media::Protobuf, Form::Object)));
    assert_eq!(media("*/*"), Ok((Media::Json, Form::Object)));
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    assert_eq!(media(metadata), Ok((Media::Protobuf, Form::PartialList)));
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    assert_eq!(media(table), Err(406));
    let watch = Offer { streaming: true, ..offer };
    assert_eq!(negotiate("application/vnd.kubernetes.protobuf", watch).map(|o| o.media), Ok(Media::Protobuf));
    assert_eq!(negotiate(PROTOBUF_STREAM, watch).map(|o| o.media), Ok(Media::Protobuf));
}

#[test]
fn a_custom_kind_with_json_behind_protobuf_is_json_and_alone_is_not_acceptable() {
    assert_eq!(
        form("application/vnd.kubernetes.protobuf,application/json"),
        Some((Media::Json, Form::Object))
    );
    assert_eq!(output("application/vnd.kubernetes.protobuf", false), Err(406));
}

#[test]
fn quality_orders_the_entries_and_zero_removes_one() {
    assert_eq!(form("application/json;q=0.4,application/yaml;q=0.9"), Some((Media::Yaml, Form::Object)));
    assert_eq!(output("application/json;q=0", false), Ok(Output::JSON));
    assert_eq!(form("*/*,application/yaml"), Some((Media::Yaml, Form::Object)));
}

#[test]
fn a_watch_is_json_only() {
    assert_eq!(output("application/yaml", true), Err(406));
    assert_eq!(output("application/json;stream=watch", true), Ok(Output::JSON));
}

#[test]
fn metadata_only_is_a_form_of_its_own() {
    assert_eq!(
        form("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        Some((Media::Json, Form::Partial))
    );
    assert_eq!(
        form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        Some((Media::Json, Form::PartialList))
    );
    assert_eq!(output("application/json;as=Nonsense;g=meta.k8s.io;v=v1", false), Err(406));
}

#[test]
fn people_get_indented_text() {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static("curl/8.5"));
    let pretty = |query: &str| {
        let offer = Offer { convertible: true, ..Offer::default() };
        Output::negotiate(&headers, &Query::parse(Some(query)), offer).map(|o| o.pretty).ok()
    };
    assert_eq!(pretty(""), Some(true));
    assert_eq!(pretty("pretty=false"), Some(false));
}

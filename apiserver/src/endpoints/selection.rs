//! Label and field selectors of one request, applied to stored objects; never parses an object it need not.

use std::borrow::Cow;

use litek8s_machinery::resource::Resource;
use litek8s_machinery::schema::{Schema, Type};
use litek8s_machinery::selector::{FieldSelector, LabelSelector};
use litek8s_machinery::status::Status;
use litek8s_store::Object;
use serde_json::Value;

use crate::registry::Served;
use crate::request::RequestInfo;
use crate::response::Failure;

/// What a list, watch or deletecollection selects.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The fields of the selector that are in the object's body.
    body: Vec<BodyField>,
}

/// A field beyond name and namespace that a selector names.
struct BodyField {
    label: String,
    /// Where it is: the first of these that leads to something.
    paths: Vec<Vec<String>>,
    /// What an absent field counts as: Go's zero value of its type.
    absent: &'static str,
}

/// The path of a field in the stored object, where its kind is kept as another one.
fn as_stored(resource: &Resource, path: &[String]) -> Vec<String> {
    let mut path = path.to_vec();
    let renames = resource.stored.as_ref().map_or(&[][..], |stored| &stored.renames);
    if let Some(first) = path.first_mut()
        && let Some((_, stored)) = renames.iter().find(|(shown, _)| **shown == **first)
    {
        *first = stored.to_string();
    }
    path
}

impl Selection {
    /// The selectors of a request; fields that the resource cannot select by are an error.
    pub(crate) fn parse(served: &Served, info: &RequestInfo) -> Result<Self, Failure> {
        let bad = |error: litek8s_machinery::selector::SelectorError| Status::bad_request(error.to_string());
        let labels = LabelSelector::parse(&info.label_selector).map_err(bad)?;
        let mut fields = FieldSelector::parse(&info.field_selector).map_err(bad)?;
        let resource = &served.resource;
        fields.check(|label| resource.is_selectable(label)).map_err(bad)?;
        if !info.name.is_empty() {
            match fields.exact("metadata.name") {
                Some(name) if name == info.name => {}
                None if fields.is_everything() => {
                    fields = FieldSelector::parse(&format!("metadata.name={}", info.name)).map_err(bad)?;
                }
                _ => {
                    return Err(Status::bad_request(
                        "fieldSelector metadata.name doesn't match requested name",
                    ));
                }
            }
        }
        let schema = resource.schema.get();
        let body = fields
            .terms()
            .iter()
            .filter(|term| !is_metadata(&term.field))
            .filter_map(|term| {
                let paths = find(resource, &term.field)?;
                let absent = zero_value(schema, paths.first()?);
                let paths = paths.iter().map(|path| as_stored(resource, path)).collect();
                Some(BodyField { label: term.field.clone(), absent, paths })
            })
            .collect();
        Ok(Self { labels, fields, body })
    }

    /// Whether every object is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The only name that can be selected.
    pub(crate) fn only_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// Whether the object is selected.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        if !self.labels.matches(&object.meta.labels) {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let parsed = (!self.body.is_empty())
            .then(|| serde_json::from_slice::<Value>(&object.json).unwrap_or_default());
        self.fields.matches(|label| match label {
            "metadata.name" => Some(Cow::Borrowed(&*object.key.name)),
            "metadata.namespace" => Some(Cow::Borrowed(&*object.key.namespace)),
            other => {
                let field = self.body.iter().find(|f| f.label == other)?;
                Some(Cow::Owned(field.value(parsed.as_ref()?)))
            }
        })
    }
}

impl BodyField {
    fn value(&self, object: &Value) -> String {
        let found = self.paths.iter().filter_map(|path| text_at(object, path)).find(|text| !text.is_empty());
        found.unwrap_or_else(|| self.absent.to_owned())
    }
}

/// The scalar at the path.
fn text_at(object: &Value, path: &[String]) -> Option<String> {
    let found = path.iter().try_fold(object, |at, step| match at.as_array() {
        Some(items) => items.get(step.parse::<usize>().ok()?),
        None => at.get(step),
    });
    match found? {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_metadata(label: &str) -> bool {
    matches!(label, "metadata.name" | "metadata.namespace")
}

fn find(resource: &Resource, label: &str) -> Option<Vec<Vec<String>>> {
    let paths = resource.field_selector(label)?.paths.iter();
    Some(paths.map(|path| path.trim_start_matches('.').split('.').map(str::to_owned).collect()).collect())
}

fn zero_value(schema: &Schema, path: &[String]) -> &'static str {
    let found = path.iter().try_fold(schema, |at, step| at.field(step).or_else(|| at.item()));
    match found.map(|s| s.ty) {
        Some(Type::Boolean) => "false",
        Some(Type::Integer | Type::Number) => "0",
        Some(Type::Any | Type::String | Type::Object | Type::Array | Type::IntOrString) | None => "",
    }
}

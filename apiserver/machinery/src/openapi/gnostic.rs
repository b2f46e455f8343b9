//! The version 2 document as protobuf, which client-go asks for (`kubectl apply` of a List). The numbers are those of
//! gnostic's `OpenAPIv2.proto`; only what our documents hold is written.

use serde_json::Value;

use crate::protobuf::varint::{put_bytes, put_double, put_number};

/// How a JSON field is written.
#[derive(Clone, Copy)]
enum Kind {
    /// Text.
    Text,
    /// True, or absent.
    Flag,
    /// A whole number.
    Integer,
    /// A number, as a double.
    Double,
    /// Any value, as YAML.
    Any,
    /// A message of these fields.
    One(&'static Message),
    /// A list, each element as the inner kind writes it.
    Each(&'static Kind),
    /// A message whose only field, of this number, repeats pairs of a name and what the inner kind writes.
    Named(u32, &'static Kind),
    /// A message whose field of this number is what the inner kind writes: a wrapper of the schema language.
    Within(u32, &'static Kind),
    /// A parameter in the place that its `in` names.
    Parameter,
    /// A schema, or a flag, in one field.
    SchemaOrFlag,
}

/// The fields of a message by their JSON names, and the number of its extensions (`x-…`); 0, it has none.
struct Message {
    fields: &'static [(&'static str, u32, Kind)],
    extensions: u32,
}

use Kind::{Any, Double, Each, Flag, Integer, Named, One, Parameter, SchemaOrFlag, Text, Within};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("paths", 8, Named(2, &One(&PATH_ITEM))),
        ("definitions", 9, Named(1, &One(&SCHEMA))),
        ("security", 12, Each(&Named(1, &Within(1, &Each(&Text))))),
        ("securityDefinitions", 13, Named(1, &Within(2, &One(&API_KEY)))),
    ],
    extensions: 16,
};
static INFO: Message =
    Message { fields: &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)], extensions: 7 };
static API_KEY: Message = Message {
    fields: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)],
    extensions: 5,
};
static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Each(&Parameter)),
    ],
    extensions: 10,
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Each(&Text)),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Each(&Text)),
        ("consumes", 7, Each(&Text)),
        ("parameters", 8, Each(&Parameter)),
        ("responses", 9, Named(1, &Within(1, &One(&RESPONSE)))),
        ("schemes", 10, Each(&Text)),
        ("deprecated", 11, Flag),
    ],
    extensions: 13,
};
static RESPONSE: Message =
    Message { fields: &[("description", 1, Text), ("schema", 2, Within(1, &One(&SCHEMA)))], extensions: 5 };
static BODY: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&SCHEMA)),
    ],
    extensions: 6,
};
static QUERY: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: 23,
};
static PATH: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: 22,
};
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Each(&Text)),
        ("enum", 20, Each(&Any)),
        ("additionalProperties", 21, SchemaOrFlag),
        ("type", 22, Within(1, &Text)),
        ("items", 23, Within(1, &One(&SCHEMA))),
        ("allOf", 24, Each(&One(&SCHEMA))),
        ("properties", 25, Named(1, &One(&SCHEMA))),
        ("example", 30, Any),
    ],
    extensions: 31,
};

/// `openapi_v2.Document`: a document of [`super::v2`] as protobuf.
pub fn v2_protobuf(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, &DOCUMENT, document);
    out
}

fn message(out: &mut Vec<u8>, shape: &'static Message, value: &Value) {
    let Some(object) = value.as_object() else { return };
    for (name, number, kind) in shape.fields {
        if let Some(value) = object.get(*name) {
            field(out, *number, *kind, value);
        }
    }
    if shape.extensions > 0 {
        for (name, value) in object.iter().filter(|(name, _)| name.starts_with("x-")) {
            named(out, shape.extensions, name, Any, value);
        }
    }
}

fn field(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    match kind {
        Text => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Flag => put_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
        // Negative numbers are not counts; two's complement is how protobuf would write one.
        Integer => put_number(out, number, value.as_i64().unwrap_or_default().cast_unsigned()),
        Double => put_double(out, number, value.as_f64().unwrap_or_default()),
        // JSON is YAML.
        Any => nested(out, number, |inner| put_bytes(inner, 2, value.to_string().as_bytes())),
        Each(kind) => {
            for one in value.as_array().into_iter().flatten() {
                field(out, number, *kind, one);
            }
        }
        One(shape) => nested(out, number, |inner| message(inner, shape, value)),
        Named(at, kind) => nested(out, number, |inner| {
            for (name, value) in value.as_object().into_iter().flatten() {
                named(inner, at, name, *kind, value);
            }
        }),
        Within(at, kind) => nested(out, number, |inner| field(inner, at, *kind, value)),
        Parameter => parameter(out, number, value),
        SchemaOrFlag if value.is_boolean() => nested(out, number, |inner| field(inner, 2, Flag, value)),
        SchemaOrFlag => nested(out, number, |inner| field(inner, 1, One(&SCHEMA), value)),
    }
}

/// `ParametersItem`: a parameter is in the body or not, and if not, in the query or the path.
fn parameter(out: &mut Vec<u8>, number: u32, value: &Value) {
    let place = value.get("in").and_then(Value::as_str).unwrap_or_default();
    nested(out, number, |item| {
        nested(item, 1, |parameter| match place {
            "body" => field(parameter, 1, One(&BODY), value),
            "path" => nested(parameter, 2, |other| field(other, 4, One(&PATH), value)),
            _ => nested(parameter, 2, |other| field(other, 3, One(&QUERY), value)),
        });
    });
}

fn named(out: &mut Vec<u8>, number: u32, name: &str, kind: Kind, value: &Value) {
    nested(out, number, |inner| {
        put_bytes(inner, 1, name.as_bytes());
        field(inner, 2, kind, value);
    });
}

fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    put_bytes(out, number, &inner);
}

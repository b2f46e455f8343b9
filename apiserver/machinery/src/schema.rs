//! What a type looks like: the one description that decoding, pruning, defaulting, validation, patches, apply,
//! tables and OpenAPI all read. Built-in types come from the table in [`crate::types`], custom ones from their CRD.

mod crd;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use regex::Regex;
use serde_json::{Number, Value};

pub use crd::{from_crd, from_crd_at};

use crate::defaults::DefaultRule;

/// The JSON type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Type {
    /// Any JSON value.
    #[default]
    Any,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// A string.
    String,
    /// An object with named properties or a map.
    Object,
    /// A list.
    Array,
    /// A whole number or a string.
    IntOrString,
}

/// How a value is written in protobuf where its JSON type alone does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Wire {
    /// As its JSON type: varint, length-delimited string, message or repeated.
    #[default]
    Plain,
    /// A list in a message of its own: `items = 1`.
    ItemsMessage,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A double, fixed 64 bits.
    Double,
    /// `seconds = 1, nanos = 2`; RFC 3339 to the second in JSON.
    Time,
    /// The same, with six digits of the second in JSON.
    MicroTime,
    /// `duration = 1` in nanoseconds; Go's notation in JSON.
    Duration,
    /// `string = 1`.
    Quantity,
    /// `type = 1, intVal = 2, strVal = 3`.
    IntOrString,
    /// `raw = 1` with a serialized object.
    RawExtension,
    /// `raw = 1` with JSON.
    RawJson,
    /// `schema = 1, schemas = 2`: a schema or a list of schemas.
    SchemaOrArray,
    /// `allows = 1, schema = 2`: a schema or a boolean.
    SchemaOrBool,
    /// `schema = 1, property = 2`: a schema or a list of strings.
    SchemaOrStrings,
}

/// What server-side apply and validation make of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// Nothing is said of it: as `Atomic`, and nothing is published.
    #[default]
    Unsaid,
    /// One value, owned and replaced as a whole.
    Atomic,
    /// Unique scalars, owned one by one.
    Set,
    /// Objects, owned one by one and told apart by the values of these fields.
    Map {
        /// The fields that make the key, in order.
        keys: Arc<[Arc<str>]>,
    },
}

impl ListType {
    /// Whether the list is one value.
    pub fn is_atomic(&self) -> bool {
        matches!(self, Self::Unsaid | Self::Atomic)
    }
}

/// What server-side apply makes of an object or a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapType {
    /// Fields are owned one by one.
    #[default]
    Granular,
    /// One value, owned and replaced as a whole.
    Atomic,
}

/// What a strategic merge patch makes of a field; built-in types only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// The field that tells the items of a merged list apart; `None` for lists of scalars.
    pub merge_key: Option<Arc<str>>,
    /// Items are merged; without it the list is replaced.
    pub merge: bool,
    /// The value is replaced, even where its type would be merged.
    pub replace: bool,
    /// `$retainKeys` clears the keys that it does not list.
    pub retain_keys: bool,
}

/// What `""`, `0`, `false`, `[]`, `{}` and `null` mean in a field of a built-in type, where clients that decode into
/// structs without pointers cannot tell them from absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Zero {
    /// A value of its own; only `null` means absent.
    #[default]
    Kept,
    /// The same as absent.
    Absent,
    /// The same as absent, and always written: who reads the object finds a value, be it `null`.
    Written,
}

/// A named field of an object.
#[derive(Debug, Clone)]
pub struct Property {
    /// The type of the field.
    pub schema: SchemaRef,
    /// The number of the field in protobuf; 0 where it has none (custom resources, fields of an inlined message).
    pub number: u32,
    /// What the zero value of the field means; built-in types only.
    pub zero: Zero,
    /// Strategic merge; `None` means: objects are merged, everything else is replaced.
    pub patch: Option<Arc<Patch>>,
    /// The default of this field, before the one of its type.
    pub default: Option<Arc<Value>>,
    /// One line about this field, before the one of its type.
    pub description: Option<Arc<str>>,
}

impl Property {
    /// A property of a custom resource. Its description moves here, so that the many plain scalars share one schema.
    pub fn custom(mut schema: Schema) -> Self {
        let description = schema.description.take();
        let schema = SchemaRef::Inline(if schema.is_plain() { plain(schema.ty) } else { Arc::new(schema) });
        Self { schema, number: 0, zero: Zero::Kept, patch: None, default: None, description }
    }

    /// The value that an absent field gets.
    pub fn default(&self) -> Option<&Value> {
        self.default.as_deref().or(self.schema.get().default.as_deref())
    }

    /// What is written for an absent field: `""`, `0`, `false`, `"0"` of a quantity, `null` of everything that is a
    /// pointer, a list or a map in Go. `None` where nothing is written.
    pub fn written(&self) -> Option<Value> {
        let schema = self.schema.get();
        (self.zero == Zero::Written).then(|| match (schema.wire, schema.ty) {
            (Wire::Plain | Wire::Double, Type::Boolean) => false.into(),
            (Wire::Plain | Wire::Double, Type::Integer | Type::Number) => 0.into(),
            (Wire::Plain, Type::String) => "".into(),
            (Wire::IntOrString, _) => 0.into(),
            (Wire::Quantity, _) => "0".into(),
            _ => Value::Null,
        })
    }

    /// One line about the field.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref().or(self.schema.get().description.as_deref())
    }
}

/// A message that is nested in protobuf and flat in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inlined {
    /// The number of the message in protobuf.
    pub number: u32,
    /// Its type; its properties are among the properties of the outer one as well.
    pub ty: TypeName,
}

/// A rule in CEL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The expression.
    pub rule: Arc<str>,
    /// What to say when it is false.
    pub message: Option<Arc<str>>,
    /// An expression for what to say.
    pub message_expression: Option<Arc<str>>,
    /// The reason of the cause: a [`crate::field::FieldErrorKind`] reason.
    pub reason: Option<Arc<str>>,
    /// The field to blame, relative to the place of the rule, as in `.spec.x`.
    pub field_path: Option<Arc<str>>,
    /// `oldSelf` is optional, so that the rule also holds for creation.
    pub optional_old_self: bool,
}

/// A regular expression, compiled at its first use.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As written.
    pub text: Arc<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// A pattern; nothing is compiled yet.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), compiled: OnceLock::new() }
    }

    /// The compiled expression; `None` when it is not one.
    pub fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(&self.text).ok()).as_ref()
    }
}

/// Limits of a value beyond its type.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each is the JSON schema keyword of the same name")]
pub struct Constraints {
    pub enumeration: Vec<Value>,
    pub pattern: Option<Pattern>,
    pub minimum: Option<Number>,
    pub maximum: Option<Number>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<Number>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub unique_items: bool,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
}

/// The type of a value.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Its JSON type.
    pub ty: Type,
    /// How it is written in protobuf.
    pub wire: Wire,
    /// `null` is a value of its own here and not the same as absent.
    pub nullable: bool,
    /// Fields that no property names are kept.
    pub preserve_unknown: bool,
    /// The value is an object with `apiVersion`, `kind` and `metadata` of its own.
    pub embedded_resource: bool,
    /// Server-side apply of an object or map.
    pub map: MapType,
    /// Server-side apply of a list.
    pub list: ListType,
    /// The format of a string or number, as in `date-time` or `int32`.
    pub format: Option<Arc<str>>,
    /// One line for people.
    pub description: Option<Arc<str>>,
    /// The value that an absent field of this type gets.
    pub default: Option<Arc<Value>>,
    /// The named fields of an object.
    pub properties: BTreeMap<Arc<str>, Property>,
    /// The fields that must be there.
    pub required: Vec<Arc<str>>,
    /// The type of the values of a map.
    pub additional: Option<SchemaRef>,
    /// The type of the items of a list.
    pub items: Option<SchemaRef>,
    /// Messages that protobuf nests and JSON does not.
    pub inlined: Vec<Inlined>,
    /// Limits of the value.
    pub constraints: Option<Box<Constraints>>,
    /// Rules in CEL.
    pub rules: Vec<Rule>,
    /// Defaults that depend on other fields; built-in types only.
    pub defaulting: Vec<DefaultRule>,
}

impl Schema {
    /// A schema of a type and nothing else.
    pub fn of(ty: Type) -> Self {
        Self { ty, ..Self::default() }
    }

    /// Whether this is a scalar type and nothing is said of it but the type.
    fn is_plain(&self) -> bool {
        matches!(self.ty, Type::Boolean | Type::Integer | Type::Number | Type::String)
            && !(self.nullable || self.preserve_unknown || self.embedded_resource)
            && self.wire == Wire::Plain
            && self.format.is_none()
            && self.description.is_none()
            && self.default.is_none()
            && self.constraints.is_none()
            && self.rules.is_empty()
            && (self.items.is_none() && self.additional.is_none())
            && (self.properties.is_empty() && self.required.is_empty())
            && (self.list == ListType::Unsaid && self.map == MapType::Granular)
    }

    /// The type of a field: a named property, or the value type of a map.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        match self.properties.get(name) {
            Some(property) => Some(property.schema.get()),
            None => self.additional.as_ref().map(SchemaRef::get),
        }
    }

    /// The named property with its patch rules and default.
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.get(name)
    }

    /// The type of the items of a list.
    pub fn item(&self) -> Option<&Schema> {
        self.items.as_ref().map(SchemaRef::get)
    }

    /// Anything at all, kept as it is.
    pub fn anything() -> &'static Schema {
        static ANYTHING: OnceLock<Schema> = OnceLock::new();
        ANYTHING.get_or_init(|| Schema { preserve_unknown: true, ..Schema::default() })
    }
}

/// The one schema of a plain scalar.
fn plain(ty: Type) -> Arc<Schema> {
    static PLAIN: OnceLock<[Arc<Schema>; 4]> = OnceLock::new();
    let of = |ty: Type| Arc::new(Schema::of(ty));
    let [boolean, integer, number, string] =
        PLAIN.get_or_init(|| [of(Type::Boolean), of(Type::Integer), of(Type::Number), of(Type::String)]);
    match ty {
        Type::Boolean => boolean.clone(),
        Type::Integer => integer.clone(),
        Type::Number => number.clone(),
        Type::String => string.clone(),
        Type::Any | Type::Object | Type::Array | Type::IntOrString => of(ty),
    }
}

/// A built-in type, by its place in the table of [`crate::types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeName(pub(crate) u16);

impl TypeName {
    /// The type of this short name, as in `core/v1.Pod`.
    pub fn find(name: &str) -> Option<Self> {
        crate::types::find(name)
    }

    /// The short name.
    pub fn as_str(self) -> &'static str {
        crate::types::name(self)
    }

    /// The type.
    pub fn schema(self) -> &'static Schema {
        crate::types::schema(self)
    }
}

/// A type, in place or by name.
#[derive(Debug, Clone)]
pub enum SchemaRef {
    /// In place, shared.
    Inline(Arc<Schema>),
    /// A built-in type; this is how recursion is possible.
    Type(TypeName),
}

impl SchemaRef {
    /// The type itself.
    pub fn get(&self) -> &Schema {
        match self {
            Self::Inline(schema) => schema,
            Self::Type(name) => name.schema(),
        }
    }
}

impl From<Schema> for SchemaRef {
    fn from(schema: Schema) -> Self {
        Self::Inline(Arc::new(schema))
    }
}

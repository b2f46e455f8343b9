//! Where the two versions of OpenAPI differ.

use serde_json::{Value, json};

/// The version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a schema of the document.
    pub(super) fn reference(self, name: &str) -> Value {
        let prefix = match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        };
        json!({"$ref": format!("{prefix}{name}")})
    }

    /// A reference that more is said about.
    pub(super) fn extended_reference(self, name: &str) -> Value {
        match self {
            Self::V2 => self.reference(name),
            Self::V3 => json!({"allOf": [self.reference(name)]}),
        }
    }

    /// A parameter in the path or query.
    pub(super) fn parameter(self, name: &str, place: &str, ty: &str, description: &str) -> Value {
        let mut parameter = json!({"name": name, "in": place, "description": description});
        match self {
            Self::V2 => parameter["type"] = json!(ty),
            Self::V3 => parameter["schema"] = json!({"type": ty, "uniqueItems": true}),
        }
        if place == "path" {
            parameter["required"] = json!(true);
        } else if self == Self::V2 {
            parameter["uniqueItems"] = json!(true);
        }
        parameter
    }
}

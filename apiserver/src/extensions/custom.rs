//! The behaviour of custom resources: the CEL rules of their schema, and defaults that came after they were stored.

use std::sync::{Arc, OnceLock};

use litek8s_machinery::defaults;
use litek8s_machinery::field::FieldError;
use litek8s_machinery::schema::{Schema, SchemaRef};
use serde_json::Value;

use super::cel::Rules;
use super::conversion::Converter;
use crate::response::Failure;
use crate::strategy::{Strategy, WriteContext};

/// The strategy of one version of a custom resource.
pub(super) struct CustomObjects {
    schema: SchemaRef,
    /// Compiled by the first write.
    rules: OnceLock<Rules>,
    /// Stored objects may lack defaults: the schema changed since the definition was created.
    defaults_on_read: bool,
    /// The webhook that converts between the versions, if one does.
    converter: Option<Arc<Converter>>,
}

impl CustomObjects {
    pub(super) fn new(schema: SchemaRef, has_changed: bool, converter: Option<Arc<Converter>>) -> Self {
        let defaults_on_read = has_changed && has_defaults(schema.get());
        CustomObjects { schema, rules: OnceLock::new(), defaults_on_read, converter }
    }
}

impl Strategy for CustomObjects {
    fn validate(&self, cx: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let rules = self.rules.get_or_init(|| {
            let (rules, errors) = Rules::compile(&self.schema, "spec.versions.schema.openAPIV3Schema");
            for error in errors {
                tracing::error!(%error, resource = %cx.resource.group_resource(), "a stored rule cannot be compiled");
            }
            rules
        });
        rules.check(object, old)
    }

    fn on_read(&self, object: &mut Value) {
        defaults::apply(self.schema.get(), object);
    }

    fn converts(&self) -> bool {
        self.converter.is_some()
    }

    fn convert(&self, objects: &[&Value], to: &str) -> Option<Result<Vec<Value>, Failure>> {
        self.converter.as_ref().map(|converter| converter.convert(objects, to))
    }

    fn rewrites_reads(&self) -> bool {
        self.defaults_on_read
    }
}

fn has_defaults(schema: &Schema) -> bool {
    let inner =
        |reference: &SchemaRef| matches!(reference, SchemaRef::Inline(schema) if has_defaults(schema));
    schema.properties.values().any(|p| p.default().is_some() || inner(&p.schema))
        || schema.items.as_ref().is_some_and(inner)
        || schema.additional.as_ref().is_some_and(|values| values.get().default.is_some() || inner(values))
}

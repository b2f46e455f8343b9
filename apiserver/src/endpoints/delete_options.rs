//! `DeleteOptions` from a body or the query; never deletes.

use bytes::Bytes;
use litek8s_machinery::field::FieldError;
use litek8s_machinery::status::Status;
use serde::Deserialize;

use super::input::{self, Coding};
use super::{Call, options};
use crate::request::Query;
use crate::response::Failure;

/// What happens to the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They stay, without their owner.
    Orphan,
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
}

/// The options of a delete.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    /// How many seconds the object gets to end itself.
    pub(crate) grace_period_seconds: Option<i64>,
    /// What must hold of the object.
    pub(crate) preconditions: Option<Preconditions>,
    /// The old way to say `Orphan`, or not.
    pub(crate) orphan_dependents: Option<bool>,
    /// `Orphan`, `Background` or `Foreground`.
    pub(crate) propagation_policy: Option<String>,
    /// `All`, or nothing.
    pub(crate) dry_run: Vec<String>,
}

/// What must hold of a deleted object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    /// Its uid.
    pub(crate) uid: Option<String>,
    /// Its resource version.
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the body, or the query when there is none.
    pub(crate) fn parse(call: &Call<'_>, body: &Bytes) -> Result<Self, Failure> {
        let options = if body.is_empty() {
            Self::from_query(&call.ctx.info.query)?
        } else {
            let raw = input::raw(Coding::of(call.headers)?, body).map_err(Status::bad_request)?;
            let kind = raw.value.get("kind").and_then(|k| k.as_str()).unwrap_or("DeleteOptions");
            if kind != "DeleteOptions" {
                return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
            }
            let mut value = raw.value;
            if let Some(map) = value.as_object_mut() {
                map.retain(|_, v| !v.is_null());
            }
            serde_json::from_value(value).map_err(|e| Status::bad_request(e.to_string()))?
        };
        options.check()?;
        Ok(options)
    }

    fn from_query(query: &Query) -> Result<Self, Failure> {
        let grace = query.get("gracePeriodSeconds").filter(|t| !t.is_empty());
        let grace_period_seconds = grace
            .map(|text| {
                let error = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
                text.parse().map_err(|_| Status::bad_request(error))
            })
            .transpose()?;
        Ok(Self {
            grace_period_seconds,
            preconditions: None,
            orphan_dependents: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
            propagation_policy: query.get("propagationPolicy").filter(|p| !p.is_empty()).map(str::to_owned),
            dry_run: query.all("dryRun").filter(|v| !v.is_empty()).map(str::to_owned).collect(),
        })
    }

    fn check(&self) -> Result<(), Failure> {
        let mut errors = Vec::new();
        if let Some(policy) = &self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid("propagationPolicy", policy.clone(), detail));
            }
            if self.propagation().is_none() {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", policy.clone(), supported));
            }
        }
        for bad in self.dry_run.iter().filter(|v| *v != "All") {
            errors.push(FieldError::not_supported("dryRun", bad.clone(), ["All"]));
        }
        options::invalid_options("DeleteOptions", errors)
    }

    /// Whether nothing is to be stored.
    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// The propagation asked for, by either name.
    pub(crate) fn propagation(&self) -> Option<Propagation> {
        match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            _ => None,
        }
    }
}

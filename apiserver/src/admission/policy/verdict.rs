//! What a policy says of one write with one parameter.

use std::sync::Arc;

use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

use super::super::attributes::Attributes;
use super::super::expressions::{self, Verdict, run};
use super::MAX_ANNOTATION;
use super::definition::{Policy, Rules, Validation};
use crate::extensions::cel::dynamic::{evaluate, exhausted};
use crate::extensions::cel::{OUT_OF_BUDGET, to_cel};
use crate::registry::Served;

/// Longest text of a `messageExpression`, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// Something a policy says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// A validation failed, or could not be evaluated where that counts as failing.
    Refused {
        /// The validation's place.
        index: usize,
        /// What to say.
        message: String,
        /// The reason of the status.
        reason: Option<String>,
    },
    /// Something for the audit log.
    Annotation(String, String),
    /// An audit annotation could not be evaluated where that counts as failing.
    BadAnnotation(String),
}

impl Policy {
    /// Asks the policy.
    pub(super) fn judge(
        &self,
        attributes: &Attributes<'_>,
        served: &Arc<Served>,
        object: Option<&Value>,
        old: Option<&Value>,
        param: Option<&Value>,
    ) -> Vec<Finding> {
        let rules = match &self.rules {
            Ok(rules) => rules,
            Err(error) => return self.failed(0, error).into_iter().collect(),
        };
        let mut bindings = expressions::bindings(attributes, served, object, old);
        if self.param_kind.is_some() {
            bindings.push(("params", param.map_or(Cel::Null, |param| to_cel(param, None))));
        }
        let findings =
            evaluate(bindings, rules.variables.clone(), rules.depth, |scope| self.findings(rules, scope));
        findings
            .unwrap_or_else(|| self.failed(0, "the expressions cannot be evaluated").into_iter().collect())
    }

    fn failed(&self, index: usize, message: &str) -> Option<Finding> {
        self.fails.then(|| Finding::Refused { index, message: message.to_owned(), reason: None })
    }

    fn findings(&self, rules: &Rules, scope: &Context<'_>) -> Vec<Finding> {
        match expressions::ask(&rules.conditions, scope) {
            Verdict::Holds => {}
            Verdict::Fails => return Vec::new(),
            Verdict::Unknown(error) => return self.failed(0, &error).into_iter().collect(),
        }
        let mut findings = Vec::new();
        for (index, validation) in rules.validations.iter().enumerate() {
            match run(&validation.program, &validation.text, scope) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    let message = validation.message(scope);
                    findings.push(Finding::Refused { index, message, reason: validation.reason.clone() });
                }
                Err(error) => findings.extend(self.failed(index, &error)),
            }
            if exhausted() {
                return self.failed(index, OUT_OF_BUDGET).into_iter().collect();
            }
        }
        for annotation in &rules.annotations {
            let bad = |error: String| self.fails.then_some(Finding::BadAnnotation(error));
            match run(&annotation.program, &annotation.text, scope) {
                Ok(Cel::String(text)) if text.trim().is_empty() => {}
                Ok(Cel::String(text)) => {
                    let mut value = text.trim().to_owned();
                    value.truncate(value.floor_char_boundary(MAX_ANNOTATION));
                    findings.push(Finding::Annotation(annotation.key.clone(), value));
                }
                Ok(Cel::Null) => {}
                Ok(other) => findings.extend(bad(format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                    annotation.text,
                    other.type_of()
                ))),
                Err(error) => findings.extend(bad(error)),
            }
        }
        findings
    }
}

impl Validation {
    /// What to say when it is false.
    fn message(&self, scope: &Context<'_>) -> String {
        let told = self.message_expression.as_ref().and_then(|program| match program.run(scope) {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
        let told = told.filter(|text| !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE);
        let fixed = Some(self.message.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        told.or(fixed).unwrap_or_else(|| format!("failed expression: {}", self.text.trim()))
    }
}

//! Label and field selectors: what a list, a watch or a controller asks for.
//!
//! Parsing accepts what kube-apiserver accepts and fails with its words, since clients print them as they are.

mod field;
mod label;
mod lex;
mod parse;
mod syntax;

pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};

/// Why a selector was not understood; the text is what kube-apiserver answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

#[cfg(test)]
mod tests;

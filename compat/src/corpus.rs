//! The corpus: what clients do and what upstream answers, one folder a case, run against any cluster.
//!
//! `corpus/api` holds requests of the API, `corpus/clients` lines of kubectl. A case is a `case.yaml` with its steps and
//! whatever files they use. Expectations are upstream's; where this project differs on purpose, `corpus/differences.yaml`
//! says so with a reason, and a difference that is none any more is a failure as well.

mod case;
mod expect;
mod run;

pub use case::{Case, Difference, Tier, cases, differences};
pub use run::{Verdict, run};

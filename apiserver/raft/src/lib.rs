//! The replicated log and the only crate that names openraft; never what an object means.

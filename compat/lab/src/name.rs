//! A cluster's name: what tells its namespaces and files from another cluster's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Lower-case letters and digits, at most 16. No dash: `litek8s-a-…` must never be a prefix of another cluster's names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

/// The longest name.
const LONGEST: usize = 16;

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if text.is_empty() || text.len() > LONGEST || !text.chars().all(allowed) {
            return Err(format!(
                "a cluster's name has 1 to {LONGEST} lower-case letters and digits, no others"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for ClusterName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> Self {
        name.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_be_part_of_another_is_refused() {
        for bad in ["", "a-b", "A", "a.b", "../x", "aaaaaaaaaaaaaaaaa", "ü"] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad:?}");
        }
        assert_eq!("ci7".parse::<ClusterName>().unwrap().as_str(), "ci7");
    }
}

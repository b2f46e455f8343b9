//! Names of objects and values of labels, also where the names they are made of are long.

use sha2::{Digest, Sha256};

/// The longest value of a label.
const LABEL_LENGTH: usize = 63;

/// How many hexadecimal digits of a hash tell two long names apart.
const HASH_DIGITS: usize = 10;

/// The name of a Service's VipAddress. A Service's name has at most 63 characters, so it always fits, and the last dash
/// divides it in one way only.
pub(crate) fn address(service: &str, index: u32) -> String {
    format!("{service}-{index}")
}

/// The index in a VipAddress's name.
pub(crate) fn index(service: &str, name: &str) -> Option<u32> {
    let index = name.strip_prefix(service)?.strip_prefix('-')?;
    index.parse().ok().filter(|number: &u32| *number > 0 && number.to_string() == index)
}

/// A label's value for a name: the name itself, or as much of it as fits with a hash of the whole.
pub(crate) fn label(name: &str) -> String {
    if name.len() <= LABEL_LENGTH {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let hash: String =
        digest.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(HASH_DIGITS).map(hexadecimal).collect();
    let kept: String = name.chars().take(LABEL_LENGTH - HASH_DIGITS - 1).collect();
    format!("{}-{hash}", kept.trim_end_matches(['.', '-', '_']))
}

fn hexadecimal(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_service_and_the_index() {
        assert_eq!(address("web", 1), "web-1");
        assert_eq!(index("web", "web-12"), Some(12));
        for other in ["web", "web-", "web-0", "web-01", "web-1-1", "webs-1", "web-x"] {
            assert_eq!(index("web", other), None, "{other}");
        }
    }

    #[test]
    fn a_long_label_ends_in_a_hash() {
        assert_eq!(label("node-1"), "node-1");
        let long = |end: &str| format!("{}.example.com.{end}", "n".repeat(60));
        let (one, two) = (label(&long("one")), label(&long("two")));
        assert!(one.len() <= 63 && two.len() <= 63);
        assert_ne!(one, two);
        assert_eq!(one, label(&long("one")));
        assert!(label(&format!("{}-.{}", "n".repeat(51), "m".repeat(40))).starts_with(&"n".repeat(51)));
    }
}

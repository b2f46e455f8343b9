//! The query part of a URL, decoded; never interprets a parameter.

/// Decoded query parameters, in the order of the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d`; a parameter without `=` has an empty value, `+` is a space, bad escapes stay as they are.
    pub fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|p| !p.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// The first value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// All values of `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// A boolean as Kubernetes reads it: absent, `false` and `0` are false, everything else (also empty) is true.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|v| !v.eq_ignore_ascii_case("false") && v != "0")
    }

    /// All parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

/// Decodes percent escapes; bytes that are not UTF-8 become the replacement character.
pub(super) fn decode(text: &str, plus_is_space: bool) -> String {
    let plain = |c: char| c != '%' && !(plus_is_space && c == '+');
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%').then(|| escape(bytes, at)).flatten();
        match (byte, escaped) {
            (_, Some(value)) => {
                out.push(value);
                at += 3;
            }
            (b'+', None) if plus_is_space => {
                out.push(b' ');
                at += 1;
            }
            (other, None) => {
                out.push(other);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn escape(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
    // `from_str_radix` would take a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_repeat() {
        let query = Query::parse(Some("labelSelector=app%3Dweb&a=1&a=2&watch&x=%zz+%41"));
        assert_eq!(query.get("labelSelector"), Some("app=web"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("watch"), Some(""));
        assert_eq!(query.get("x"), Some("%zz A"));
        assert_eq!(query.get("absent"), None);
    }

    #[test]
    fn a_flag_is_true_unless_it_says_no() {
        let query = Query::parse(Some("a=true&b=false&c=0&d&e=False"));
        assert!(query.flag("a") && query.flag("d"));
        assert!(!query.flag("b") && !query.flag("c") && !query.flag("e") && !query.flag("f"));
    }
}

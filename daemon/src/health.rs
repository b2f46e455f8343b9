//! Named checks and the text that reports them, as kube-apiserver's health endpoints do.

use std::fmt::Write;

/// A check: its name and what is wrong, if anything is.
pub type CheckResult = (String, Result<(), String>);

/// What a health endpoint answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// Whether every check passed: 200, otherwise 500.
    pub healthy: bool,
    /// The body, plain text.
    pub text: String,
}

/// Renders results under the endpoint's name (`healthz`, `livez`, `readyz`).
///
/// A good result is `ok` unless `verbose`; a bad one always lists every check. Excluded checks count as passed.
pub fn report(endpoint: &str, results: &[CheckResult], verbose: bool, excluded: &[&str]) -> HealthReport {
    let mut text = String::new();
    let mut failed = Vec::new();
    for (name, result) in results {
        let line = match result {
            _ if excluded.contains(&name.as_str()) => writeln!(text, "[+]{name} excluded: ok"),
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(reason) => {
                failed.push(name.as_str());
                writeln!(text, "[-]{name} failed: {reason}")
            }
        };
        debug_assert!(line.is_ok(), "writing to a String cannot fail");
    }
    let unknown = excluded.iter().filter(|name| !results.iter().any(|(n, _)| n == *name));
    let unknown: Vec<String> = unknown.map(|name| format!("{name:?}")).collect();
    if !unknown.is_empty() {
        let names = unknown.join(", ");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    if !failed.is_empty() {
        text.push_str(&format!("{endpoint} check failed\n"));
        return HealthReport { healthy: false, text };
    }
    if !verbose {
        return HealthReport { healthy: true, text: "ok".to_owned() };
    }
    text.push_str(&format!("{endpoint} check passed\n"));
    HealthReport { healthy: true, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Vec<CheckResult> {
        vec![("ping".into(), Ok(())), ("raft".into(), Err("no leader".into()))]
    }

    #[test]
    fn good_is_ok_and_verbose_lists_the_checks() {
        let good = &checks()[..1];
        assert_eq!(report("livez", good, false, &[]).text, "ok");
        assert_eq!(report("livez", good, true, &[]).text, "[+]ping ok\nlivez check passed\n");
    }

    #[test]
    fn bad_says_which_and_why() {
        let bad = report("readyz", &checks(), false, &[]);
        assert!(!bad.healthy);
        assert_eq!(bad.text, "[+]ping ok\n[-]raft failed: no leader\nreadyz check failed\n");
        assert!(report("readyz", &checks(), false, &["raft"]).healthy);
    }
}

//! What `/version` says: the Kubernetes version whose behaviour is served.

use serde_json::{Value, json};

/// Major and minor version of the Kubernetes API that is served.
pub const KUBERNETES: (&str, &str) = ("1", "37");

/// The document at `/version`.
pub fn document() -> Value {
    let (major, minor) = KUBERNETES;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("linux/{}", platform()),
    })
}

/// `v1.37.0+litek8s`: semantic, with our name as build metadata.
pub fn git_version() -> String {
    let (major, minor) = KUBERNETES;
    format!("v{major}.{minor}.0+litek8s")
}

/// The processor as Go names it.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

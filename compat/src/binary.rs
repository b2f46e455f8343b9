//! Finds the `litek8s` binary under test, building it first so that it is never an old one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The workspace's directory.
pub(crate) fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The binary that `LITEK8S_BIN` names, or the one cargo builds beside this test.
///
/// # Errors
/// When it does not build, or is not where it should be.
pub fn litek8s() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("LITEK8S_BIN") {
        let path = PathBuf::from(given);
        if !path.is_absolute() || !path.exists() {
            bail!("LITEK8S_BIN={} is not the absolute path of a file", path.display());
        }
        return Ok(path);
    }
    let test = std::env::current_exe()?;
    // target/debug/deps/e2e-… → target/debug
    let profile =
        test.parent().and_then(Path::parent).context("the test binary lies in no target directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "litek8s"]).current_dir(workspace());
    build.arg("--target-dir").arg(profile.parent().context("no target directory")?);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let output = build.output().context("run cargo")?;
    if !output.status.success() {
        bail!("litek8s does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(profile.join("litek8s"))
}

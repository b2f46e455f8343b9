//! The container image: built from nothing but the binary and its libraries, and run as the chart runs it.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use litek8s_compat::litek8s;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/image.sh");
const IMAGE: &str = "localhost/litek8s:test";

fn text(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_image_is_the_binary_and_runs_without_any_right() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let storage = |part: &str| format!("--{part}={}", directory.path().join(part).display());
    let options = [storage("root"), storage("runroot"), "--storage-driver=vfs".to_owned()];
    let buildah = |arguments: &[&str]| -> Result<String> {
        let output =
            Command::new("buildah").args(&options).args(arguments).output().context("start buildah")?;
        text(output).with_context(|| arguments.join(" "))
    };
    let built = Command::new(SCRIPT)
        .arg(IMAGE)
        .env("LITEK8S_BIN", litek8s()?)
        .env("IMAGE_BUILDER", format!("buildah {}", options.join(" ")))
        .output()?;
    text(built).context("scripts/image.sh")?;

    let container = buildah(&["from", IMAGE])?;
    let container = container.trim();
    let run = |line: &[&str]| {
        let as_chart = ["run", "--cap-drop=all", "--user=65532", container, "--"];
        buildah(&[&as_chart[..], line].concat())
    };
    ensure!(run(&["/litek8s", "version"])?.starts_with("litek8s "));
    ensure!(run(&["/litek8s", "agent", "--help"])?.contains("--in-cluster"));
    ensure!(run(&["/bin/sh", "-c", "true"]).is_err(), "there is a shell");
    let entrypoint = buildah(&["inspect", "--type=image", "--format={{.OCIv1.Config.Entrypoint}}", IMAGE])?;
    ensure!(entrypoint.trim() == "[/litek8s]", "{entrypoint}");
    Ok(())
}

//! Cases against a cluster: each in a namespace of its own, which goes with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use super::case::{Case, Difference, Step};
use super::expect::{differs, matches};
use crate::{Kubectl, PATIENCE};

/// How often a step is tried again that is so only eventually.
const PAUSE: Duration = Duration::from_millis(100);

/// What became of a case.
#[derive(Debug)]
pub enum Verdict {
    /// Everything is as upstream has it.
    AsUpstream,
    /// It differs where it is known to.
    DiffersAsKnown,
    /// Something else.
    Failed(String),
}

/// Runs a case; `difference` is where it is known to end.
///
/// # Errors
/// When the cluster cannot be spoken to.
pub async fn run(case: &Case, kubeconfig: &Path, difference: Option<&Difference>) -> Result<Verdict> {
    let world = World::open(case, kubeconfig).await?;
    let namespace = world.namespace.clone();
    world.kubectl.ok(&["create", "namespace", &namespace])?;
    let failed = world.steps(case).await;
    // What the case made outside of its namespace it removes itself.
    world.kubectl.ok(&["delete", "namespace", &namespace, "--wait=false"])?;
    Ok(match (failed, difference) {
        (None, None) => Verdict::AsUpstream,
        (Some((step, _)), Some(known)) if known.step == step => Verdict::DiffersAsKnown,
        (Some((step, why)), _) => Verdict::Failed(format!("step {step}: {why}")),
        (None, Some(known)) => {
            Verdict::Failed(format!("no longer differs in step {}: {}", known.step, known.reason))
        }
    })
}

struct World {
    kubectl: Kubectl,
    client: kube::Client,
    namespace: String,
}

impl World {
    async fn open(case: &Case, kubeconfig: &Path) -> Result<Self> {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let client = kube::Client::try_from(config)?;
        let namespace = format!("corpus-{}", case.name.replace('/', "-"));
        Ok(Self { kubectl: Kubectl::new(kubeconfig)?, client, namespace })
    }

    /// The number of the step that is not as expected, and why.
    async fn steps(&self, case: &Case) -> Option<(usize, String)> {
        let mut kept = BTreeMap::from([("NAMESPACE".to_owned(), self.namespace.clone())]);
        for (at, step) in case.steps.iter().enumerate() {
            if let Err(error) = self.step(case, step, &mut kept).await {
                return Some((at + 1, format!("{error:#}")));
            }
        }
        None
    }

    async fn step(&self, case: &Case, step: &Step, kept: &mut BTreeMap<String, String>) -> Result<()> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let outcome = match (&step.run, &step.request) {
                (Some(line), _) => self.line(case, step, line, kept),
                (None, Some(request)) => self.request(step, request, kept).await,
                (None, None) => bail!("there is nothing to do"),
            };
            if outcome.is_ok() || !step.eventually || tokio::time::Instant::now() >= until {
                return outcome;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn line(&self, case: &Case, step: &Step, line: &str, kept: &BTreeMap<String, String>) -> Result<()> {
        let line = filled(line, kept);
        let mut words = words(&line)?;
        words.extend(["--namespace".to_owned(), self.namespace.clone()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.kubectl.command(&words);
        command.current_dir(&case.folder);
        let finished = Kubectl::finish(command, &filled(&step.stdin, kept))?;
        let all = || format!("exit {}\n{}{}", finished.code, finished.stdout, finished.stderr);
        ensure!(finished.code == step.exit, "{line}: expected exit {}, found {}", step.exit, all());
        for (what, expected, found) in
            [("stdout", &step.stdout, &finished.stdout), ("stderr", &step.stderr, &finished.stderr)]
        {
            let Some(expected) = expected else { continue };
            let expected = filled(expected, kept);
            ensure!(matches(&expected, found), "{line}: expected on {what}:\n{expected}\nfound {}", all());
        }
        Ok(())
    }

    async fn request(&self, step: &Step, line: &str, kept: &mut BTreeMap<String, String>) -> Result<()> {
        let line = filled(line, kept);
        let (method, path) = line.split_once(' ').context("a request is METHOD PATH")?;
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in &step.headers {
            request = request.header(name, value);
        }
        let body = match &step.body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                value.to_string()
            }
        };
        if !body.is_empty() && !step.headers.contains_key("content-type") {
            request = request.header("content-type", "application/json");
        }
        let answer = self.client.send(request.body(Body::from(filled(&body, kept).into_bytes()))?).await?;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        ensure!(
            step.status.is_none_or(|status| status == code),
            "{line}: expected {:?}, found {code} {text}",
            step.status
        );
        if let Some(expected) = &step.answer {
            let found: Value = serde_json::from_str(&text).with_context(|| format!("{line}: {text}"))?;
            expect(expected, &found, kept).with_context(|| line.clone())?;
            for (name, pointer) in &step.keep {
                let value = found
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .with_context(|| format!("no {pointer}"))?;
                kept.insert(name.clone(), value.to_owned());
            }
        }
        if let Some(expected) = &step.events {
            let found: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
            let found = Value::from(found.with_context(|| format!("{line}: {text}"))?);
            expect(&Value::from(expected.clone()), &found, kept).with_context(|| line.clone())?;
        }
        Ok(())
    }
}

fn expect(expected: &Value, found: &Value, kept: &BTreeMap<String, String>) -> Result<()> {
    let expected: Value = serde_json::from_str(&filled(&expected.to_string(), kept))?;
    match differs(&expected, Some(found), "") {
        None => Ok(()),
        Some(difference) => bail!("{difference}\nin {found}"),
    }
}

/// The text with what was kept in place of `$NAME`.
fn filled(text: &str, kept: &BTreeMap<String, String>) -> String {
    kept.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
}

/// The words of a line; what stands in single or double quotes is one, without them.
fn words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    ensure!(quote.is_none(), "an open quote: {line}");
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words("a  'b c' -o=\"d 'e'\" ''").unwrap(), ["a", "b c", "-o=d 'e'", ""]);
        assert!(words("a 'b").is_err());
    }
}

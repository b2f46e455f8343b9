//! A server, an agent's connection for streams, a pod on its node, and kubectl.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use litek8s_node_agent::streams::{self, Containers};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::containers::TestContainers;
use crate::client::Running;

/// Far longer than anything here takes.
const GUARD: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Parser)]
struct Flags {
    #[command(flatten)]
    options: litek8s_node_agent::Options,
}

pub(crate) struct Place {
    pub(crate) server: Running,
    pub(crate) containers: TestContainers,
    agent: Option<Agent>,
}

/// An agent that serves streams only.
pub(crate) struct Agent {
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Agent {
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// How a kubectl ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// kubectl as it is.
    WebSocket,
    /// The kubectl of five minor versions ago, told not to use WebSockets.
    Spdy,
}

impl Finished {
    fn of(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }

    /// What it printed, if it went well.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }
}

impl Place {
    /// A server with node n1 connected, and a pod `web` on it.
    pub(crate) async fn start() -> Self {
        // Another test of this process may have been first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let server = Running::start().await;
        let containers = TestContainers::new();
        let agent = Some(start_agent(&server, "n1", Arc::new(containers.clone())));
        let place = Self { server, containers, agent };
        let admin = place.server.admin(true).await;
        let pods = "/api/v1/namespaces/default/pods";
        let spec = json!({"nodeName": "n1", "containers": [{"name": "app", "image": "x"}, {"name": "side", "image": "x"}, {"name": "flood", "image": "x"}]});
        let pod = json!({"metadata": {"name": "web"}, "spec": spec});
        // The namespace's ServiceAccount comes a moment after the namespace.
        until(async || admin.post(pods, &pod).await.code == StatusCode::CREATED).await;
        let status = json!({"status": {"phase": "Running"}});
        let patch = admin.with_header("content-type", "application/merge-patch+json");
        patch.send(http::Method::PATCH, &format!("{pods}/web/status"), Some(&status)).await;
        let log = format!("{pods}/web/log?container=side");
        until(async || admin.get(&log).await.code == StatusCode::OK).await;
        place
    }

    pub(crate) async fn stop(self) {
        if let Some(agent) = self.agent {
            agent.stop().await;
        }
        self.server.stop().await;
    }

    /// The node's agent goes away.
    pub(crate) async fn without_agent(mut self) -> Self {
        self.agent.take().unwrap().stop().await;
        self
    }

    /// Connects another node.
    pub(crate) fn agent(&self, node: &str, containers: Arc<dyn Containers>) -> Agent {
        start_agent(&self.server, node, containers)
    }

    fn command(&self, client: ClientKind, arguments: &[&str]) -> Command {
        let mut command = Command::new(tool(match client {
            ClientKind::WebSocket => "kubectl",
            ClientKind::Spdy => "kubectl-1.32",
        }));
        if client == ClientKind::Spdy {
            command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
            command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false");
        }
        let kubeconfig = self.server.kubeconfig_file();
        command.args(arguments).env("KUBECONFIG", &kubeconfig).env("HOME", kubeconfig.parent().unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs kubectl to its end.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Finished {
        self.run(ClientKind::WebSocket, arguments, "").await
    }

    /// Runs a client to its end, with this as its input.
    pub(crate) async fn run(&self, client: ClientKind, arguments: &[&str], stdin: &str) -> Finished {
        let mut command = self.command(client, arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let feeding = async move {
            // A client that ends early does not read all of it.
            let _ = to.write_all(stdin.as_bytes()).await;
        };
        let running = async { tokio::join!(child.wait_with_output(), feeding).0 };
        let output = tokio::time::timeout(GUARD, running).await;
        Finished::of(output.unwrap_or_else(|_| panic!("{client:?} {arguments:?} hangs")).unwrap())
    }

    /// Starts kubectl and reads its output line by line.
    pub(crate) fn start_kubectl(&self, arguments: &[&str]) -> Started {
        self.start_with(ClientKind::WebSocket, arguments)
    }

    /// Starts a client and reads its output line by line.
    pub(crate) fn start_with(&self, client: ClientKind, arguments: &[&str]) -> Started {
        Started::of(self.command(client, arguments))
    }

    /// Starts a client in a terminal of this size.
    pub(crate) fn terminal(&self, client: ClientKind, arguments: &str, width: u16, height: u16) -> Started {
        let inner = self.command(client, &[]);
        let program = inner.as_std().get_program().to_str().unwrap();
        let line = format!("stty cols {width} rows {height}; exec {program} {arguments}");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        command.envs(inner.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Started::of(command)
    }
}

/// A kubectl that runs.
pub(crate) struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Started {
    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Types something.
    pub(crate) async fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Finished {
        let rest = async {
            let mut stdout = String::new();
            while let Some(line) = self.lines.next_line().await.unwrap() {
                stdout.push_str(&line);
            }
            let output = self.child.wait_with_output().await.unwrap();
            Finished { stdout, ..Finished::of(output) }
        };
        tokio::time::timeout(GUARD, rest).await.unwrap()
    }
}

impl Started {
    pub(crate) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(GUARD, self.lines.next_line()).await.unwrap().unwrap();
        line.unwrap_or_else(|| panic!("kubectl ended"))
    }

    /// Ends it as a person does, and shows what it said.
    pub(crate) async fn interrupt(self) -> Finished {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
        self.end().await
    }

    /// Kills it.
    pub(crate) async fn stop(mut self) {
        self.child.kill().await.unwrap();
    }
}

fn start_agent(server: &Running, node: &str, containers: Arc<dyn Containers>) -> Agent {
    let directory = server.directory();
    let state = directory.path().join(node);
    let (url, token) = (server.url(), server.agent_token_file());
    let flags = [
        "agent",
        "--join",
        &url,
        "--node-name",
        node,
        "--state-dir",
        text(&state),
        "--token-file",
        text(&token),
    ];
    let Flags { options } = clap::Parser::try_parse_from(flags).unwrap();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let task = tokio::spawn(async move {
        let _directory = directory;
        streams::run(&options, containers, stop).await
    });
    Agent { shutdown, task }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn tool(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/bin").join(name);
    assert!(path.exists(), "{} is missing: run `scripts/tools.sh test`", path.display());
    path
}

/// Waits for a condition of the API.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(GUARD, waiting).await.unwrap();
}

/// Waits for a condition of this process.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waiting = until(async || holds());
    tokio::time::timeout(GUARD, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

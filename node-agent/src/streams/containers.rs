//! What runs containers, as the streams see it.

use std::net::SocketAddr;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::watch;

/// Bytes as they come.
pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerName {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container in it.
    pub container: String,
}

/// Which lines of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on with what is written later.
    pub follow: bool,
    /// The instance of the container before this one.
    pub previous: bool,
    /// Each line after its time (RFC 3339 with nanoseconds) and a space.
    pub timestamps: bool,
    /// No more than so many lines of what is there.
    pub tail_lines: Option<u64>,
    /// Nothing older.
    pub since: Option<Timestamp>,
    /// From which of the two streams.
    pub stream: LogStream,
}

/// Where a line was written to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogStream {
    /// Both.
    #[default]
    All,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why a stream does not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What the API answers.
    pub code: StatusCode,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// 404: there is no such container.
    pub fn no_such_container(name: &ContainerName) -> Self {
        let ContainerName { namespace, pod, container } = name;
        Self::new(
            StatusCode::NOT_FOUND,
            format!("container {container:?} of pod \"{namespace}/{pod}\" is not here"),
        )
    }
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// The streams of a command; what the client did not ask for is absent.
#[derive(Debug)]
pub struct CommandIo {
    /// To read from; it ends when the client closes it.
    pub stdin: Option<DuplexStream>,
    /// To write to.
    pub stdout: Option<DuplexStream>,
    /// To write to; absent with a terminal, whose output is `stdout`.
    pub stderr: Option<DuplexStream>,
    /// The size of the terminal, as soon as the client says it; absent without one.
    pub terminal: Option<watch::Receiver<Option<TerminalSize>>>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// It could not be run, or not to its end.
    Failed(String),
}

/// A command that runs until this is done; dropping it ends the command, or lets the container go that was attached to.
pub type Running = BoxFuture<'static, Exit>;

/// A connection to a pod.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The containers of a node.
pub trait Containers: Send + Sync + 'static {
    /// The log of a container; with `follow` until it ends.
    fn logs<'a>(
        &'a self,
        of: &'a ContainerName,
        options: &'a LogOptions,
    ) -> BoxFuture<'a, Result<ByteStream, Refusal>>;

    /// Starts a command in a container.
    fn exec<'a>(
        &'a self,
        of: &'a ContainerName,
        command: Vec<String>,
        io: CommandIo,
    ) -> BoxFuture<'a, Result<Running, Refusal>>;

    /// Takes part in the streams of a container's own process.
    fn attach<'a>(&'a self, to: &'a ContainerName, io: CommandIo) -> BoxFuture<'a, Result<Running, Refusal>>;

    /// Connects to a port of a pod.
    fn connect<'a>(
        &'a self,
        namespace: &'a str,
        pod: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, Refusal>>;

    /// Connects to an address of one of the node's pods, or of the node itself.
    fn dial<'a>(&'a self, to: SocketAddr) -> BoxFuture<'a, Result<Box<dyn Connection>, Refusal>> {
        Box::pin(super::dial::tcp(to))
    }
}

/// A node that runs no containers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoContainers;

fn none<T>() -> Result<T, Refusal> {
    Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "this node runs no containers"))
}

impl Containers for NoContainers {
    fn logs<'a>(
        &'a self,
        _: &'a ContainerName,
        _: &'a LogOptions,
    ) -> BoxFuture<'a, Result<ByteStream, Refusal>> {
        Box::pin(async { none() })
    }

    fn exec<'a>(
        &'a self,
        _: &'a ContainerName,
        _: Vec<String>,
        _: CommandIo,
    ) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async { none() })
    }

    fn attach<'a>(&'a self, _: &'a ContainerName, _: CommandIo) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async { none() })
    }

    fn connect<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: u16,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, Refusal>> {
        Box::pin(async { none() })
    }
}

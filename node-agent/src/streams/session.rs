//! A command's session: frames of the server to its stdin and terminal, its output and its end back as frames.

use std::io;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use litek8s_daemon::streams::frame::{self, Frame, Frames};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio_util::io::ReaderStream;
use tokio_util::task::AbortOnDropHandle;

use super::containers::{ByteStream, CommandIo, Exit, Running, TerminalSize};

/// Bytes between a command and its session.
const PIPE: usize = 64 * 1024;

/// Which streams a session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// The session's ends of a command's streams.
pub(super) struct Ends {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    size: watch::Sender<Option<TerminalSize>>,
}

/// The streams for a command, and the session's ends of them.
pub(super) fn pipes(wanted: Wanted) -> (CommandIo, Ends) {
    let pipe = |wanted: bool| wanted.then(|| tokio::io::duplex(PIPE)).unzip();
    let ((stdin, to), (stdout, out), (stderr, err)) =
        (pipe(wanted.stdin), pipe(wanted.stdout), pipe(wanted.stderr));
    let (size, resized) = watch::channel(None);
    let io = CommandIo { stdin, stdout, stderr, terminal: wanted.tty.then_some(resized) };
    (io, Ends { stdin: to, stdout: out, stderr: err, size })
}

/// The answer's body; dropping it ends the session, and with it the command.
pub(super) fn body(running: Running, ends: Ends, request: Incoming) -> ByteStream {
    let (sender, mut frames) = mpsc::channel::<Bytes>(1);
    let session = async move {
        let Ends { stdin, stdout, stderr, size } = ends;
        let output = async {
            tokio::join!(copy(stdout, frame::STDOUT, &sender), copy(stderr, frame::STDERR, &sender));
        };
        let command = async {
            let (exit, ()) = tokio::join!(running, output);
            let data = Bytes::from(status(&exit).to_string());
            // Cut rather than broken up: a Status in two pieces is none.
            let _ = sender.send(Frame { channel: frame::ERROR, data }.encode()).await;
        };
        tokio::select! {
            () = command => {}
            () = feed(request, stdin, &size) => {}
        }
        drop(sender);
    };
    // A task of its own: input goes on while nobody takes output.
    let session = AbortOnDropHandle::new(tokio::spawn(session));
    let bytes = futures::stream::poll_fn(move |cx| {
        let _session = &session;
        frames.poll_recv(cx).map(|bytes| bytes.map(Ok))
    });
    bytes.boxed()
}

/// Sends what a command writes until it closes the stream or nobody listens.
async fn copy(from: Option<DuplexStream>, channel: u8, to: &mpsc::Sender<Bytes>) {
    let Some(from) = from else { return };
    let mut pieces = ReaderStream::with_capacity(from, PIPE / 2);
    while let Some(Ok(data)) = pieces.next().await {
        for frame in Frame::split(channel, data) {
            if to.send(frame.encode()).await.is_err() {
                return;
            }
        }
    }
}

/// Gives the command what comes from the client, until the client is gone.
async fn feed(
    mut request: Incoming,
    mut stdin: Option<DuplexStream>,
    size: &watch::Sender<Option<TerminalSize>>,
) {
    let mut frames = Frames::default();
    while let Some(Ok(piece)) = request.frame().await {
        let Some(data) = piece.data_ref() else { continue };
        frames.push(data);
        loop {
            let frame = match frames.take() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return tracing::info!(%error, "a session was given up"),
            };
            match frame.channel {
                frame::STDIN => write(&mut stdin, &frame.data).await,
                frame::CLOSE if frame.data[..] == [frame::STDIN] => stdin = None,
                frame::RESIZE => {
                    if let Ok(wanted) = serde_json::from_slice(&frame.data) {
                        size.send_replace(Some(wanted));
                    }
                }
                _ => {}
            }
        }
    }
}

/// A command may close its stdin; what comes later is for nobody.
async fn write(stdin: &mut Option<DuplexStream>, data: &[u8]) {
    let written: io::Result<()> = match stdin {
        Some(pipe) => pipe.write_all(data).await,
        None => Ok(()),
    };
    if written.is_err() {
        *stdin = None;
    }
}

/// How a command ended, as clients of `v4.channel.k8s.io` and later read it.
fn status(exit: &Exit) -> Value {
    match exit {
        Exit::Code(0) => json!({"metadata": {}, "status": "Success"}),
        Exit::Code(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Exit::Failed(why) => {
            let why: String = why.chars().take(PIPE / 8).collect();
            json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
                "message": format!("Internal error occurred: {why}"), "details": {"causes": [{"message": why}]},
            })
        }
    }
}

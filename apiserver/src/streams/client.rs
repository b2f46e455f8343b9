//! The client's end of a session, WebSocket or SPDY: frames of channels come out and go in.

use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use litek8s_daemon::streams::frame::{self, Frame};
use litek8s_machinery::status::Status;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::remote::Options;
use super::spdy::{self, Output, Stream};
use super::upgrade;
use super::websocket::{self, Coding, Handshake};
use crate::response::{Failure, Response};

/// The subprotocols of exec and attach, the best first.
const PROTOCOLS: [&str; 3] = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
/// The same over SPDY.
const SPDY_PROTOCOL: &str = "v4.channel.k8s.io";
/// Where SPDY's clients say what they speak on its streams.
pub(super) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// How long a client may take to open its streams.
const OPENING: Duration = Duration::from_secs(30);

/// A client whose wish can be granted.
pub(super) enum Client {
    WebSocket(Handshake),
    Spdy,
}

impl Client {
    /// What the client asks to upgrade to.
    pub(super) fn negotiate(headers: &HeaderMap) -> Result<Self, Failure> {
        if websocket::asked_for(headers) {
            return Ok(Self::WebSocket(websocket::handshake(headers, &PROTOCOLS)?));
        }
        spdy_with(headers, SPDY_PROTOCOL)?;
        Ok(Self::Spdy)
    }

    /// The answer that grants it.
    pub(super) fn response(&self) -> Response {
        match self {
            Self::WebSocket(handshake) => handshake.response(),
            Self::Spdy => switching_to_spdy(SPDY_PROTOCOL),
        }
    }

    /// Begins the session, once the connection is no longer HTTP.
    pub(super) async fn open(
        self,
        upgrade: OnUpgrade,
        options: &Options,
    ) -> anyhow::Result<(Sender, Receiver)> {
        let upgraded = upgrade.await?;
        match self {
            Self::WebSocket(handshake) => {
                let socket = websocket::open(upgraded).await;
                let (sender, receiver) = websocket::split(socket, Coding::of(handshake.protocol));
                Ok((Sender::WebSocket(sender), Receiver::WebSocket(receiver, Bytes::new(), 0)))
            }
            Self::Spdy => open_spdy(upgraded, options).await,
        }
    }
}

/// Whether the client asks for SPDY with this protocol on its streams.
pub(super) fn spdy_with(headers: &HeaderMap, protocol: &str) -> Result<(), Failure> {
    if !upgrade::asks_for(headers, spdy::PROTOCOL) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let offered: Vec<&str> = upgrade::words(headers, &STREAM_PROTOCOL).collect();
    if offered.contains(&protocol) {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "unable to negotiate the stream protocol: the client offers {offered:?}, the server speaks {protocol}"
    )))
}

/// The answer to it.
pub(super) fn switching_to_spdy(protocol: &'static str) -> Response {
    let mut response = upgrade::switching(spdy::PROTOCOL);
    response.headers_mut().insert(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
    response
}

/// Waits until the client has opened the streams of a session.
async fn open_spdy(upgraded: Upgraded, options: &Options) -> anyhow::Result<(Sender, Receiver)> {
    let (read, write) = tokio::io::split(TokioIo::new(upgraded));
    let (mut streams, serving) = spdy::serve(read, write, spdy::STALLED);
    let serving = AbortOnDropHandle::new(tokio::spawn(serving));
    let wanted = [options.stdin, options.stdout, options.stderr, true, options.tty];
    let mut found: [Option<Stream>; 5] = Default::default();
    let opening = async {
        while found.iter().zip(wanted).any(|(found, wanted)| wanted && found.is_none()) {
            let Some(stream) = streams.recv().await else { bail!("the client went away") };
            let kind = stream.headers.get("streamtype");
            let place =
                ["stdin", "stdout", "stderr", "error", "resize"].iter().position(|name| *name == kind);
            match place.and_then(|place| found.get_mut(place)) {
                Some(place) => *place = Some(stream),
                None => bail!("the client opened a stream of type {kind:?}"),
            }
        }
        Ok(())
    };
    tokio::time::timeout(OPENING, opening).await??;
    let [stdin, stdout, stderr, error, resize] = found;
    let output = |stream: Option<Stream>| stream.map(|stream| stream.output);
    let input = |stream: Option<Stream>| stream.map(|stream| (stream.input, stream.output)).unzip();
    let ((stdin, stdin_output), (resize, resize_output)) = (input(stdin), input(resize));
    let sender = SpdySender {
        stdout: output(stdout),
        stderr: output(stderr),
        error: output(error),
        silent: [stdin_output, resize_output],
    };
    let receiver = SpdyReceiver { stdin, resize, _streams: streams, serving };
    Ok((Sender::Spdy(sender), Receiver::Spdy(receiver)))
}

/// To the client.
pub(super) enum Sender {
    WebSocket(websocket::Sender),
    Spdy(SpdySender),
}

/// A stream for each channel.
pub(super) struct SpdySender {
    stdout: Option<Output>,
    stderr: Option<Output>,
    error: Option<Output>,
    /// Those on which the client sends.
    silent: [Option<Output>; 2],
}

impl Sender {
    /// Sends a frame; returns when it waits for nothing but the connection.
    pub(super) async fn send(&mut self, frame: Frame) -> std::io::Result<()> {
        match self {
            Self::WebSocket(sender) => sender.send(&frame).await,
            Self::Spdy(SpdySender { stdout, stderr, error, .. }) => {
                let output = match frame.channel {
                    frame::STDOUT => stdout,
                    frame::STDERR => stderr,
                    frame::ERROR => error,
                    _ => return Ok(()),
                };
                match output {
                    Some(output) => output.send(&frame.data).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Says that nothing more comes.
    pub(super) async fn finish(&mut self) {
        match self {
            Self::WebSocket(sender) => sender.finish().await,
            Self::Spdy(SpdySender { stdout, stderr, error, silent: [stdin, resize] }) => {
                for output in [stdout, stderr, error, stdin, resize].into_iter().flatten() {
                    output.finish().await;
                }
            }
        }
    }
}

/// From the client.
pub(super) enum Receiver {
    /// The socket, and what is left of a message that was longer than a frame, with its channel.
    WebSocket(websocket::Receiver, Bytes, u8),
    Spdy(SpdyReceiver),
}

/// The streams on which the client sends, and what serves their connection.
pub(super) struct SpdyReceiver {
    stdin: Option<mpsc::Receiver<Bytes>>,
    resize: Option<mpsc::Receiver<Bytes>>,
    /// A client may open further streams; nobody takes them.
    _streams: mpsc::Receiver<Stream>,
    serving: AbortOnDropHandle<()>,
}

impl Receiver {
    /// The next frame; `None` when the client is gone.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        match self {
            Self::WebSocket(receiver, rest, channel) => {
                while rest.is_empty() {
                    (*channel, *rest) = receiver.next().await?;
                }
                let data = rest.split_to(rest.len().min(frame::MAX_FRAME));
                Some(Frame { channel: *channel, data })
            }
            Self::Spdy(receiver) => receiver.next().await,
        }
    }
}

impl SpdyReceiver {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            tokio::select! {
                biased;
                data = next_of(&mut self.stdin) => match data {
                    Some(data) => return Some(Frame { channel: frame::STDIN, data }),
                    None => {
                        self.stdin = None;
                        return Some(Frame::close(frame::STDIN));
                    }
                },
                size = next_of(&mut self.resize) => match size {
                    Some(data) => return Some(Frame { channel: frame::RESIZE, data }),
                    None => self.resize = None,
                },
                _ = &mut self.serving => return None,
            }
        }
    }
}

/// The next piece of a stream that is open; waits for ever on one that is not.
async fn next_of(stream: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match stream {
        Some(stream) => stream.recv().await,
        None => std::future::pending().await,
    }
}

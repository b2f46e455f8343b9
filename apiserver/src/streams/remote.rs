//! `pods/exec` and `pods/attach`: what is asked for, and the session between the client and the command.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::Request;
use litek8s_daemon::streams::frame::{self, Frame, Frames};
use litek8s_machinery::status::Status;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::client::{Client, Receiver, Sender};
use super::nodes::NodeStream;
use super::{Open, connect, pod, tunnel};
use crate::api::Api;
use crate::filters::RequestBody;
use crate::request::{Query, RequestContext};
use crate::response::{Failure, Response};

/// How long a client that was told everything may take to hang up.
const GOODBYE: Duration = Duration::from_secs(5);

/// `PodExecOptions` or `PodAttachOptions`.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
    command: Vec<String>,
}

/// The options as an object, as admission sees it.
fn object(kind: &str, query: &Query, container: &str) -> Value {
    let flag = |name: &str| query.flag(name);
    let mut object = json!({
        "kind": kind, "apiVersion": "v1", "container": container,
        "stdin": flag("stdin"), "stdout": flag("stdout"), "stderr": flag("stderr"), "tty": flag("tty"),
    });
    if kind == "PodExecOptions" {
        object["command"] = query.all("command").collect();
    }
    object
}

impl Options {
    fn of(object: &Value) -> Result<Self, Failure> {
        let flag = |name: &str| object[name] == true;
        let words = object["command"].as_array().into_iter().flatten();
        let options = Self {
            stdin: flag("stdin"),
            stdout: flag("stdout"),
            // A terminal has one output.
            stderr: flag("stderr") && !flag("tty"),
            tty: flag("tty"),
            command: words.filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        if !options.stdin && !options.stdout && !options.stderr {
            return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        Ok(options)
    }

    /// The query of a kubelet's endpoints.
    fn to_query(&self) -> String {
        let mut query = Serializer::new(String::new());
        for (name, set) in
            [("input", self.stdin), ("output", self.stdout), ("error", self.stderr), ("tty", self.tty)]
        {
            if set {
                query.append_pair(name, "1");
            }
        }
        query.extend_pairs(self.command.iter().map(|word| ("command", word)));
        query.finish()
    }
}

/// Answers an exec or attach.
pub(super) async fn serve(
    api: &Arc<Api>,
    ctx: &RequestContext,
    mut request: Request<RequestBody>,
) -> Result<Response, Failure> {
    let query = &ctx.info.query;
    let what = ctx.info.subresource.as_str();
    let kind = if what == "exec" { "PodExecOptions" } else { "PodAttachOptions" };
    let mut object = object(kind, query, query.get("container").unwrap_or_default());
    Options::of(&object)?;
    connect::admit(api, ctx, &mut object).await?;
    let options = Options::of(&object)?;
    let pod = pod::find(api, ctx).await?;
    let container = pod.container(object["container"].as_str().unwrap_or_default())?;
    let node = pod.host()?;
    let client = Client::negotiate(request.headers())?;
    let upgrade = hyper::upgrade::on(&mut request);
    let (to_agent, body) = tunnel::outgoing();
    let url =
        format!("http://{node}/{what}/{}/{}/{container}?{}", pod.namespace, pod.name, options.to_query());
    let asked = Request::post(url).body(body).map_err(Status::internal)?;
    let from_agent = api.streams.nodes.send(node, asked).await?;
    let mut response = client.response();
    let open = Open::new(api, ctx, request.headers(), &mut response);
    let end = api.shutdown.clone();
    api.streams.tasks.spawn(async move {
        let _open = open;
        let session = async {
            let (sender, receiver) = client.open(upgrade, &options).await?;
            run(sender, receiver, to_agent, from_agent).await;
            anyhow::Ok(())
        };
        tokio::select! {
            () = end.cancelled() => {}
            ended = session => if let Err(error) = ended {
                tracing::debug!(%error, "a session did not begin");
            },
        }
    });
    Ok(response)
}

/// Carries frames both ways until the command ends or the client goes.
async fn run(
    mut sender: Sender,
    mut receiver: Receiver,
    to_agent: mpsc::Sender<Bytes>,
    from_agent: NodeStream,
) {
    let over = CancellationToken::new();
    let inward = async {
        while let Some(frame) = receiver.next().await {
            // Once the command is over, whatever still comes is read so that the client hears the end of it.
            tokio::select! {
                _ = to_agent.send(frame.encode()) => {}
                () = over.cancelled() => {}
            }
        }
    };
    tokio::pin!(inward);
    tokio::select! {
        () = &mut inward => return,
        () = outward(&mut sender, from_agent) => {}
    }
    over.cancel();
    // Closing with unread bytes would reset the connection, and with it what the client has not read yet.
    let _ = tokio::time::timeout(GOODBYE, inward).await;
}

/// From the command to the client; whatever happens, the client learns how it ended.
async fn outward(sender: &mut Sender, mut from_agent: NodeStream) {
    let mut frames = Frames::default();
    let mut told = false;
    let trouble = 'reading: loop {
        match from_agent.next().await {
            None => break None,
            Some(Err(error)) => break Some(error.to_string()),
            Some(Ok(bytes)) => frames.push(&bytes),
        }
        loop {
            let frame = match frames.take() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => break 'reading Some(error.to_string()),
            };
            told |= frame.channel == frame::ERROR;
            if sender.send(frame).await.is_err() {
                return;
            }
        }
    };
    if !told {
        let why = trouble.unwrap_or_else(|| "it ended early".to_owned());
        let status = Status::internal(format!("the stream to the node broke: {why}")).to_json();
        let frame = Frame { channel: frame::ERROR, data: Bytes::from(status.to_string()) };
        if sender.send(frame).await.is_err() {
            return;
        }
    }
    sender.finish().await;
}

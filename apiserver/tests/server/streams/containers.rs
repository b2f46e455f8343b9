//! Containers that a test stands in for: `app` has a log that the test writes, `side` says nothing.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::StatusCode;
use litek8s_node_agent::streams::{
    ByteStream, CommandIo, Connection, ContainerName, Containers, Exit, LogOptions, Refusal, Running,
    TerminalSize,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::watch;

/// What `flood` writes without end.
static CHUNK: [u8; 16 * 1024] = [b'~'; 16 * 1024];

/// What the test sees of them.
#[derive(Clone)]
pub(crate) struct TestContainers {
    log: Arc<watch::Sender<Vec<String>>>,
    followers: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    flooded: Arc<AtomicUsize>,
}

impl TestContainers {
    pub(crate) fn new() -> Self {
        Self {
            log: Arc::new(watch::Sender::new(Vec::new())),
            followers: Arc::default(),
            running: Arc::default(),
            flooded: Arc::default(),
        }
    }

    /// `app` writes a line.
    pub(crate) fn write(&self, line: &str) {
        self.log.send_modify(|lines| lines.push(line.to_owned()));
    }

    /// How many bytes `flood` has written.
    pub(crate) fn flooded(&self) -> usize {
        self.flooded.load(Ordering::SeqCst)
    }

    /// How many commands run.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// How many logs are being followed.
    pub(crate) fn followers(&self) -> usize {
        self.followers.load(Ordering::SeqCst)
    }
}

/// Counted as long as it lives.
struct Follower(Arc<AtomicUsize>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Containers for TestContainers {
    fn logs<'a>(
        &'a self,
        of: &'a ContainerName,
        options: &'a LogOptions,
    ) -> BoxFuture<'a, Result<ByteStream, Refusal>> {
        Box::pin(async move {
            if of.container == "flood" {
                let flooded = self.flooded.clone();
                return Ok(futures::stream::repeat_with(move || {
                    flooded.fetch_add(CHUNK.len(), Ordering::SeqCst);
                    Ok(Bytes::from_static(&CHUNK))
                })
                .boxed());
            }
            if of.container != "app" {
                return Ok(futures::stream::empty().boxed());
            }
            let log = self.log.subscribe();
            let have = log.borrow().len();
            let tail = options.tail_lines.map_or(have, |tail| usize::try_from(tail).unwrap());
            let from = have.saturating_sub(tail);
            let stamp = if options.timestamps { "2026-01-02T03:04:05.000000006Z " } else { "" };
            let until = if options.follow { usize::MAX } else { have };
            self.followers.fetch_add(1, Ordering::SeqCst);
            let follower = Follower(self.followers.clone());
            let lines =
                futures::stream::unfold((log, from, follower), move |(mut log, at, follower)| async move {
                    if at >= until {
                        return None;
                    }
                    let line = log.wait_for(|lines| lines.len() > at).await.ok()?[at].clone();
                    Some((Ok(Bytes::from(format!("{stamp}{line}\n"))), (log, at + 1, follower)))
                });
            Ok(lines.boxed())
        })
    }

    fn exec<'a>(
        &'a self,
        of: &'a ContainerName,
        command: Vec<String>,
        io: CommandIo,
    ) -> BoxFuture<'a, Result<Running, Refusal>> {
        let running = self.running.clone();
        Box::pin(async move {
            if of.container != "app" {
                return Err(Refusal::no_such_container(of));
            }
            running.fetch_add(1, Ordering::SeqCst);
            let running = Follower(running);
            let ran: Running = Box::pin(async move {
                let _running = running;
                match io.terminal {
                    Some(_) => Exit::Code(sizes(io).await),
                    None => run(command, io).await,
                }
            });
            Ok(ran)
        })
    }

    fn attach<'a>(&'a self, _: &'a ContainerName, io: CommandIo) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async {
            let ran: Running = Box::pin(run(vec!["sed".into(), "-u".into(), "s/^/heard: /".into()], io));
            Ok(ran)
        })
    }

    fn connect<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, Refusal>> {
        Box::pin(async move {
            let connected = TcpStream::connect(("127.0.0.1", port)).await;
            let stream =
                connected.map_err(|error| Refusal::new(StatusCode::BAD_GATEWAY, error.to_string()))?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }

    /// Pods have addresses that this machine has not; their ports are here.
    fn dial<'a>(&'a self, to: SocketAddr) -> BoxFuture<'a, Result<Box<dyn Connection>, Refusal>> {
        Box::pin(async move {
            let connected = TcpStream::connect(("127.0.0.1", to.port())).await;
            Ok(Box::new(connected.map_err(|_| refused(to))?) as Box<dyn Connection>)
        })
    }
}

/// A refusal as an agent words it.
fn refused(to: SocketAddr) -> Refusal {
    let why = format!("dial tcp {to}: connect: connection refused");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Runs a command of this machine.
async fn run(command: Vec<String>, io: CommandIo) -> Exit {
    let mut child = match Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
    {
        Ok(child) => child,
        Err(error) => return Exit::Failed(format!("{}: {error}", command[0])),
    };
    let (mut stdin, mut stdout, mut stderr) =
        (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let feeding = async {
        if let Some(mut from) = io.stdin {
            let _ = tokio::io::copy(&mut from, &mut stdin).await;
        }
        drop(stdin);
        std::future::pending::<()>().await;
    };
    let output = async {
        let (mut out, mut err) = (io.stdout, io.stderr);
        let out = async {
            if let Some(to) = &mut out {
                let _ = tokio::io::copy(&mut stdout, to).await;
            }
        };
        let err = async {
            if let Some(to) = &mut err {
                let _ = tokio::io::copy(&mut stderr, to).await;
            }
        };
        tokio::join!(out, err);
        child.wait().await.unwrap().code().unwrap_or(-1)
    };
    tokio::select! {
        code = output => Exit::Code(code),
        () = feeding => Exit::Code(-1),
    }
}

/// A terminal that shows its size whenever it changes, until somebody types `q`; `q` is the exit code 7.
async fn sizes(io: CommandIo) -> i32 {
    let (mut size, mut stdin, mut stdout) = (io.terminal.unwrap(), io.stdin.unwrap(), io.stdout.unwrap());
    let mut byte = [0];
    loop {
        tokio::select! {
            changed = size.changed() => {
                changed.unwrap();
                let TerminalSize { width, height } = size.borrow_and_update().unwrap();
                stdout.write_all(format!("{width}x{height}\r\n").as_bytes()).await.unwrap();
            }
            read = stdin.read(&mut byte) => {
                if read.unwrap() == 0 || byte[0] == b'q' {
                    return 7;
                }
            }
        }
    }
}

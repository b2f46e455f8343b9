//! A tiny HTTP responder for proofs: it says who it is, and who asked.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a connection may stay silent.
const IDLE: Duration = Duration::from_secs(120);
/// The longest request head.
const LONGEST_HEAD: usize = 8 * 1024;

/// Answers on every address until told to stop: `/client` with the client's address, all else with the name.
pub(crate) async fn respond(name: &str, port: u16, stop: CancellationToken) -> Result<()> {
    // Of both families, where there are two.
    let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await;
    let listener = match both {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    };
    let listener = listener.with_context(|| format!("listen on {port}"))?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            accepted = listener.accept() => {
                let Ok((stream, client)) = accepted else { continue };
                let name = name.to_owned();
                connections.spawn(async move {
                    // A client that goes away is its own business.
                    let _ = serve(stream, client, &name).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until the client closes it.
async fn serve(stream: TcpStream, client: SocketAddr, name: &str) -> Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read);
    loop {
        let Some(path) = tokio::time::timeout(IDLE, read_head(&mut lines)).await?? else { return Ok(()) };
        let body =
            if path == "/client" { format!("{}\n", client.ip().to_canonical()) } else { format!("{name}\n") };
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
        write.write_all(format!("{head}{body}").as_bytes()).await?;
    }
}

/// Reads up to the empty line; gives the path, or `None` at the end of the stream.
async fn read_head(lines: &mut BufReader<tokio::net::tcp::OwnedReadHalf>) -> Result<Option<String>> {
    let mut path = None;
    let mut size = 0;
    loop {
        let mut line = String::new();
        size += lines.read_line(&mut line).await?;
        if line.is_empty() || size > LONGEST_HEAD {
            return Ok(None);
        }
        if line.trim().is_empty() {
            return Ok(path);
        }
        if path.is_none() {
            path = line.split(' ').nth(1).map(str::to_owned);
        }
    }
}

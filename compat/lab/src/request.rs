//! One HTTP GET, from an address of choice, with an end in time.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// What to ask for.
#[derive(Debug, Clone)]
pub struct Request {
    /// `http://ADDRESS[:PORT][/PATH]`; the address is not a name, there is no resolver in a namespace.
    pub url: http::Uri,
    /// The address to ask from.
    pub source: Option<IpAddr>,
    /// The end in time of the whole exchange.
    pub timeout: Duration,
}

/// Asks once; gives the body.
///
/// # Errors
/// When there is no answer in time, or one that is not 200.
pub async fn request(request: &Request) -> Result<String> {
    let what = || format!("GET {}", request.url);
    tokio::time::timeout(request.timeout, exchange(request))
        .await
        .with_context(|| format!("{}: no answer in {} ms", what(), request.timeout.as_millis()))?
        .with_context(what)
}

async fn exchange(request: &Request) -> Result<String> {
    let mut stream = connect(request).await?;
    let host = request.url.authority().map_or("", http::uri::Authority::as_str);
    let path = request.url.path();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(body) = complete(&answer)? {
            return Ok(body);
        }
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            bail!("the answer ended early");
        }
        answer.extend_from_slice(&buffer[..count]);
    }
}

async fn connect(request: &Request) -> Result<TcpStream> {
    let host = request.url.host().context("the URL names no address")?;
    let address: IpAddr = host.trim_matches(['[', ']']).parse().context("not an address")?;
    let target = SocketAddr::new(address, request.url.port_u16().unwrap_or(80));
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = request.source {
        socket.bind(SocketAddr::new(source, 0)).with_context(|| format!("ask from {source}"))?;
    }
    Ok(socket.connect(target).await?)
}

/// The body, once all of it is there.
fn complete(answer: &[u8]) -> Result<Option<String>> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(None) };
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("{status}");
    }
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let length = length.context("the answer says no length")?;
    Ok((body.len() >= length).then(|| body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_at_its_length_and_no_sooner() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        assert_eq!(complete(whole).unwrap().as_deref(), Some("abc"));
        assert_eq!(complete(&whole[..whole.len() - 1]).unwrap(), None);
        assert_eq!(complete(&whole[..20]).unwrap(), None);
        assert!(complete(b"HTTP/1.1 503 Busy\r\n\r\n").is_err());
    }
}

//! `/dial?address=IP&port=N`: a TCP connection to what this node reaches and the server need not: one of its pods, or itself.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use tokio::net::TcpStream;

use super::containers::{Connection, Refusal};

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address that a query names.
pub(super) fn address(query: &HashMap<String, String>) -> Result<SocketAddr, Refusal> {
    let part = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    match (part("address").parse(), part("port").parse()) {
        (Ok(address), Ok(port)) => Ok(SocketAddr::new(address, port)),
        _ => Err(Refusal::new(StatusCode::BAD_REQUEST, "no address and port were named")),
    }
}

/// Connects; the refusal is in the words of Go's net package.
pub(super) async fn tcp(to: SocketAddr) -> Result<Box<dyn Connection>, Refusal> {
    let refused = |why: &str| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format!("dial tcp {to}: {why}"));
    match tokio::time::timeout(PATIENCE, TcpStream::connect(to)).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => Err(refused(&format!("connect: {}", plain(&error)))),
        Err(_) => Err(refused("i/o timeout")),
    }
}

/// The error without its number, as `strerror(3)` begins in lower case elsewhere.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_there_is_said_as_go_says_it() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = tcp(free).await.err().unwrap();
        assert_eq!(refused.message, format!("dial tcp {free}: connect: connection refused"));
    }

    #[test]
    fn an_address_has_a_port() {
        let query = |address: &str, port: &str| {
            HashMap::from([("address".to_owned(), address.to_owned()), ("port".to_owned(), port.to_owned())])
        };
        assert_eq!(address(&query("2001:db8::1", "80")).unwrap(), "[2001:db8::1]:80".parse().unwrap());
        assert_eq!(address(&query("10.0.0.1", "x")).unwrap_err().code, StatusCode::BAD_REQUEST);
    }
}

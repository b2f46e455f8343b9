//! Port-forward to a real listener: by kubectl, and by the channels that other clients use.

use futures::{SinkExt, StreamExt};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::both;
use super::place::{ClientKind, Place};

/// A listener that answers with what it got, once the other side has ended.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                stream.write_all(&all).await.unwrap();
            });
        }
    });
    port
}

async fn through(port: u16, text: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(text).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    back
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_port_forward_carries_connections_side_by_side() {
    let place = Place::start().await;
    let port = echo().await;
    both(async |client| {
        let mut forwarding = place.start_with(client, &["port-forward", "pod/web", &format!(":{port}")]);
        let line = forwarding.line().await;
        let local = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
        let local: u16 = local.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        let long = vec![b'x'; 3 << 20];
        let (first, second, third) =
            tokio::join!(through(local, b"one"), through(local, &long), through(local, b"three"));
        assert_eq!((first.as_slice(), third.as_slice()), (&b"one"[..], &b"three"[..]));
        assert!(second == long, "{} bytes came back", second.len());
        forwarding.stop().await;
    })
    .await;
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_nobody_listens_on_is_told_of() {
    let place = Place::start().await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    both(async |client: ClientKind| {
        let mut forwarding = place.start_with(client, &["port-forward", "pod/web", &format!(":{closed}")]);
        let line = forwarding.line().await;
        let local = line.rsplit_once(" -> ").unwrap().0.rsplit_once(':').unwrap().1.parse().unwrap();
        assert_eq!(through(local, b"").await, b"");
        let ended = forwarding.interrupt().await;
        assert!(
            ended.stderr.contains(&format!("error forwarding port {closed} to pod web")),
            "{}",
            ended.stderr
        );
    })
    .await;
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_of_a_websocket_forward_a_port_too() {
    let place = Place::start().await;
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut five = [0; 5];
            stream.read_exact(&mut five).await.unwrap();
            five.make_ascii_uppercase();
            stream.write_all(&five).await.unwrap();
        });
        port
    };
    let mut socket = websocket(&place, &format!("portforward?ports={port}"), "v4.channel.k8s.io").await;
    let [low, high] = port.to_le_bytes();
    assert_eq!(next(&mut socket).await, [0, low, high]);
    assert_eq!(next(&mut socket).await, [1, low, high]);
    socket.send(Message::binary(b"\0hello".to_vec())).await.unwrap();
    assert_eq!(next(&mut socket).await, b"\0HELLO");
    drop(socket);
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_knows_text_only_gets_base64() {
    let place = Place::start().await;
    let path = "exec?container=app&stdin=1&stdout=1&command=head&command=-n1";
    let mut socket = websocket(&place, path, "v4.base64.channel.k8s.io").await;
    socket.send(Message::text("0aGkK")).await.unwrap();
    assert_eq!(next(&mut socket).await, b"1aGkK");
    let status = next(&mut socket).await;
    assert_eq!(status[0], b'3');
    drop(socket);
    place.stop().await;
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

async fn websocket(place: &Place, path: &str, protocol: &str) -> Socket {
    let client = place.server.admin(false).await;
    let client = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", protocol),
    ]
    .into_iter()
    .fold(client, |client, (name, value)| client.with_header(name, value));
    let response = client.open(&format!("/api/v1/namespaces/default/pods/web/{path}")).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["sec-websocket-protocol"], protocol);
    let upgraded = hyper::upgrade::on(response).await.unwrap();
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await
}

async fn next(socket: &mut Socket) -> Vec<u8> {
    socket.next().await.unwrap().unwrap().into_data().to_vec()
}

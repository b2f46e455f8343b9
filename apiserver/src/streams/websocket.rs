//! WebSocket (RFC 6455) as Kubernetes uses it: which subprotocol, and a message for a piece of a channel.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::HeaderMap;
use http::header::{
    HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use litek8s_daemon::streams::frame::Frame;
use litek8s_machinery::status::Status;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

use super::upgrade;
use crate::response::{Failure, Response};

/// The longest message of a client; kubectl sends 32 KiB at a time.
const MAX_MESSAGE: usize = 1024 * 1024;

/// The raw connection.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A handshake that can be granted.
#[derive(Debug)]
pub(super) struct Handshake {
    accept: String,
    /// The subprotocol that was chosen.
    pub(super) protocol: &'static str,
}

/// Whether the client asks for a WebSocket.
pub(super) fn asked_for(headers: &HeaderMap) -> bool {
    upgrade::asks_for(headers, "websocket")
}

/// Whether the client offers this subprotocol.
pub(super) fn offers(headers: &HeaderMap, protocol: &str) -> bool {
    upgrade::words(headers, &SEC_WEBSOCKET_PROTOCOL).any(|offered| offered == protocol)
}

/// Chooses the first of `known` that the client offers.
pub(super) fn handshake(headers: &HeaderMap, known: &[&'static str]) -> Result<Handshake, Failure> {
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
        return Err(Status::bad_request("a WebSocket needs the header Sec-WebSocket-Key"));
    };
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(Status::bad_request("only version 13 of WebSocket is spoken here"));
    }
    let Some(protocol) = known.iter().find(|protocol| offers(headers, protocol)) else {
        let offered: Vec<&str> = upgrade::words(headers, &SEC_WEBSOCKET_PROTOCOL).collect();
        return Err(Status::bad_request(format!(
            "unable to negotiate the WebSocket subprotocol: the client offers {offered:?}, the server speaks {known:?}"
        )));
    };
    Ok(Handshake { accept: derive_accept_key(key.as_bytes()), protocol })
}

impl Handshake {
    /// The answer after which the socket is open.
    pub(super) fn response(&self) -> Response {
        let mut response = upgrade::switching("websocket");
        let headers = response.headers_mut();
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(self.protocol));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        response
    }
}

/// The socket on a connection that was upgraded.
pub(super) async fn open(upgraded: Upgraded) -> Socket {
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await
}

/// A socket whose messages are nothing but a stream of bytes.
pub(super) fn bytes(socket: Socket) -> (impl AsyncRead + Send + Unpin, impl AsyncWrite + Send + Unpin) {
    let (sink, stream) = socket.split();
    let pieces = stream.filter_map(|message| {
        let piece = match message {
            Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
            Ok(_) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        };
        std::future::ready(piece)
    });
    let sink = sink
        .sink_map_err(io::Error::other)
        .with(|bytes: Bytes| std::future::ready(Ok::<_, io::Error>(Message::Binary(bytes))));
    (StreamReader::new(pieces), SinkWriter::new(CopyToBytes::new(sink)))
}

/// How channels are in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// A byte for the channel, then the data.
    Binary,
    /// A digit for the channel, then the data in base64: for clients that can only send text.
    Base64,
}

impl Coding {
    /// That of a subprotocol.
    pub(super) fn of(protocol: &str) -> Self {
        if protocol.contains("base64") { Self::Base64 } else { Self::Binary }
    }

    fn encode(self, frame: &Frame) -> Message {
        match self {
            Self::Binary => {
                let mut message = BytesMut::with_capacity(1 + frame.data.len());
                message.put_u8(frame.channel);
                message.put_slice(&frame.data);
                Message::Binary(message.freeze())
            }
            Self::Base64 => {
                let text = format!("{}{}", frame.channel, BASE64_STANDARD.encode(&frame.data));
                Message::Text(Utf8Bytes::from(text))
            }
        }
    }

    /// The channel and the data of a message; nothing for one that is no data.
    fn decode(self, message: Message) -> Option<(u8, Bytes)> {
        let mut bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => Bytes::from(text),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => return None,
        };
        if bytes.is_empty() {
            return None;
        }
        let channel = bytes.split_to(1)[0];
        match self {
            Self::Binary => Some((channel, bytes)),
            Self::Base64 => {
                let channel = char::from(channel).to_digit(10).and_then(|digit| u8::try_from(digit).ok())?;
                Some((channel, BASE64_STANDARD.decode(&bytes).ok()?.into()))
            }
        }
    }
}

/// What comes from the client.
pub(super) struct Receiver(SplitStream<Socket>, Coding);

/// What goes to the client.
pub(super) struct Sender(SplitSink<Socket, Message>, Coding);

/// Both directions of a socket.
pub(super) fn split(socket: Socket, coding: Coding) -> (Sender, Receiver) {
    let (sink, stream) = socket.split();
    (Sender(sink, coding), Receiver(stream, coding))
}

impl Receiver {
    /// The channel and data of the next message; `None` when the client is gone.
    pub(super) async fn next(&mut self) -> Option<(u8, Bytes)> {
        loop {
            if let Some(piece) = self.1.decode(self.0.next().await?.ok()?) {
                return Some(piece);
            }
        }
    }
}

impl Sender {
    /// Sends a piece of a channel; returns when the connection has taken it.
    pub(super) async fn send(&mut self, frame: &Frame) -> io::Result<()> {
        self.0.send(self.1.encode(frame)).await.map_err(io::Error::other)
    }

    /// Says that nothing more comes.
    pub(super) async fn finish(&mut self) {
        let goodbye = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        // A client that is gone needs none.
        let _ = self.0.send(Message::Close(Some(goodbye))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_text_with_a_digit_in_front() {
        let frame = Frame { channel: 1, data: Bytes::from_static(b"hi\n") };
        assert_eq!(Coding::Base64.encode(&frame), Message::text("1aGkK"));
        let back = Coding::Base64.decode(Message::text("0aGkK"));
        assert_eq!(back, Some((0, Bytes::from_static(b"hi\n"))));
        assert_eq!(Coding::Base64.decode(Message::text("0*")), None);
        assert_eq!(
            Coding::Binary.decode(Message::binary(vec![255, 0])),
            Some((255, Bytes::from_static(&[0])))
        );
        assert_eq!(Coding::Binary.decode(Message::binary(Vec::new())), None);
    }

    proptest::proptest! {
        #[test]
        fn messages_of_any_bytes_are_pieces_or_nothing(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40), text in ".{0,20}",
        ) {
            for coding in [Coding::Binary, Coding::Base64] {
                for message in [Message::binary(bytes.clone()), Message::text(text.clone())] {
                    if let Some((channel, data)) = coding.decode(message) {
                        let back = coding.decode(coding.encode(&Frame { channel, data: data.clone() }));
                        proptest::prop_assert_eq!(back, Some((channel, data)));
                    }
                }
            }
        }
    }

    #[test]
    fn the_servers_preference_decides_and_a_stranger_is_told() {
        let mut headers = HeaderMap::new();
        let mut set =
            |name: &'static str, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        set("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        set("sec-websocket-version", "13");
        set("sec-websocket-protocol", "v4.channel.k8s.io, v5.channel.k8s.io");
        let granted = handshake(&headers, &["v5.channel.k8s.io", "v4.channel.k8s.io"]).unwrap();
        assert_eq!(granted.protocol, "v5.channel.k8s.io");
        // The example of RFC 6455 §1.3.
        assert_eq!(granted.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let refused = handshake(&headers, &["v9"]).unwrap_err();
        assert!(refused.message.contains("v4.channel.k8s.io"), "{}", refused.message);
    }
}

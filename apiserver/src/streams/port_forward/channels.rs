//! Port-forward over plain WebSocket channels: two for each port of the URL, data and errors, as kube-rs uses them.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use litek8s_daemon::streams::frame::Frame;
use tokio::sync::{Mutex, mpsc};

use super::super::spdy::STALLED;
use super::super::websocket::{self, Coding, Sender, Socket};
use super::{Output, Target, forward};

/// Serves a socket until the client is gone or all ports are done.
pub(super) async fn serve(socket: Socket, ports: &[u16], target: Target) {
    let (sender, mut receiver) = websocket::split(socket, Coding::Binary);
    let sender = Arc::new(Mutex::new(sender));
    let mut inputs = Vec::new();
    let mut forwards = Vec::new();
    for (channel, port) in (0_u8..).step_by(2).zip(ports.iter().copied()) {
        let (input, data) = mpsc::channel(1);
        inputs.push(Some(input));
        let (target, sender) = (target.clone(), sender.clone());
        forwards.push(async move {
            let mut output = Channels { sender, channel };
            if output.announce(port).await.is_ok() {
                forward(&target, port, data, &mut output).await;
            }
        });
    }
    let reading = async {
        while let Some((channel, data)) = receiver.next().await {
            if let Some(slot) = inputs.get_mut(usize::from(channel / 2)).filter(|_| channel % 2 == 0)
                && let Some(input) = slot
                && !data.is_empty()
                // A port that takes nothing for too long holds the others up no longer.
                && tokio::time::timeout(STALLED, input.send(data)).await.is_err()
            {
                *slot = None;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        _ = join_all(forwards) => sender.lock().await.finish().await,
    }
}

struct Channels {
    sender: Arc<Mutex<Sender>>,
    channel: u8,
}

impl Channels {
    async fn put(&self, channel: u8, data: Bytes) -> std::io::Result<()> {
        self.sender.lock().await.send(&Frame { channel, data }).await
    }

    /// Both channels begin with the port, in little-endian order.
    async fn announce(&self, port: u16) -> std::io::Result<()> {
        for channel in [self.channel, self.channel + 1] {
            self.put(channel, Bytes::copy_from_slice(&port.to_le_bytes())).await?;
        }
        Ok(())
    }
}

impl Output for Channels {
    async fn send(&mut self, data: Bytes) -> std::io::Result<()> {
        self.put(self.channel, data).await
    }

    /// These channels have no end of their own.
    async fn finish(&mut self) {}

    async fn fail(&mut self, why: &str) {
        // A client that is gone needs no explanation.
        let _ = self.put(self.channel + 1, Bytes::copy_from_slice(why.as_bytes())).await;
    }
}

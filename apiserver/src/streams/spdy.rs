//! SPDY/3.1 as Kubernetes' older clients speak it: the client opens streams, the server answers on them.
//!
//! There is no flow control per stream in what those clients speak: one whose data nobody takes holds the others of its
//! connection up, as it does in Kubernetes, but not for ever: it is reset then. The connection is never read ahead.

mod frame;
mod headers;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

pub(super) use headers::Headers;

use frame::{Incoming, Reader};

/// The name in `Upgrade`.
pub(super) const PROTOCOL: &str = "SPDY/3.1";
/// Streams of one connection at a time.
const MAX_STREAMS: usize = 256;
/// How long a stream may take none of its data while others wait.
pub(super) const STALLED: Duration = Duration::from_secs(30);
/// Frames that wait for the connection to take them.
const OUTGOING: usize = 4;

/// A stream that the client opened.
pub(super) struct Stream {
    /// What it is for.
    pub(super) headers: Headers,
    /// What the client sends; it ends when the client does.
    pub(super) input: mpsc::Receiver<Bytes>,
    /// What goes to the client.
    pub(super) output: Output,
}

/// The server's half of a stream.
pub(super) struct Output {
    id: u32,
    frames: mpsc::Sender<Bytes>,
    given_up: CancellationToken,
    _place: Arc<OwnedSemaphorePermit>,
}

impl Output {
    /// Sends data; returns when it waits for nothing but the connection.
    ///
    /// # Errors
    /// When the client gave the stream or the connection up.
    pub(super) async fn send(&self, data: &[u8]) -> io::Result<()> {
        self.put(frame::data(self.id, data, false)).await
    }

    /// Ends the stream.
    pub(super) async fn finish(&self) {
        // A client that is gone needs no end.
        let _ = self.put(frame::data(self.id, &[], true)).await;
    }

    /// Cancelled when the client gives the stream up.
    pub(super) fn given_up(&self) -> CancellationToken {
        self.given_up.clone()
    }

    async fn put(&self, frame: Bytes) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        tokio::select! {
            biased;
            () = self.given_up.cancelled() => Err(gone()),
            sent = self.frames.send(frame) => sent.map_err(|_| gone()),
        }
    }
}

/// Serves a connection until the client or everybody who holds a stream of it is gone; its streams come out of the
/// receiver. One that takes nothing for as long as `stalled` is reset.
pub(super) fn serve<R, W>(
    read: R,
    write: W,
    stalled: Duration,
) -> (mpsc::Receiver<Stream>, impl Future<Output = ()> + Send)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (opened, streams) = mpsc::channel(1);
    let (frames, mut outgoing) = mpsc::channel::<Bytes>(OUTGOING);
    let serving = async move {
        let mut write = write;
        let writing = async {
            while let Some(frame) = outgoing.recv().await {
                write.write_all(&frame).await?;
                if outgoing.is_empty() {
                    write.flush().await?;
                }
            }
            write.shutdown().await
        };
        let mut connection = Connection {
            frames,
            opened,
            streams: BTreeMap::new(),
            room: Arc::new(Semaphore::new(MAX_STREAMS)),
            newest: 0,
            replied: false,
            stalled,
        };
        let ended = tokio::select! {
            ended = connection.run(Reader::new(read)) => ended,
            ended = writing => ended,
        };
        connection.streams.values().for_each(|stream| stream.given_up.cancel());
        if let Err(error) = ended
            && error.kind() == io::ErrorKind::InvalidData
        {
            tracing::debug!(%error, "a SPDY connection was given up");
        }
    };
    (streams, serving)
}

/// The client's half of a stream.
struct Input {
    data: Option<mpsc::Sender<Bytes>>,
    given_up: CancellationToken,
    place: Weak<OwnedSemaphorePermit>,
}

struct Connection {
    frames: mpsc::Sender<Bytes>,
    opened: mpsc::Sender<Stream>,
    streams: BTreeMap<u32, Input>,
    room: Arc<Semaphore>,
    /// The last stream that was opened.
    newest: u32,
    /// Whether the first header block was sent.
    replied: bool,
    stalled: Duration,
}

impl Connection {
    async fn run<R: AsyncRead + Unpin>(&mut self, mut reader: Reader<R>) -> io::Result<()> {
        loop {
            match reader.next().await? {
                Incoming::Open { id, headers, last } => self.open(id, headers, last).await?,
                Incoming::Data { id, bytes, last } => self.data(id, bytes, last).await?,
                Incoming::Reset { id } => {
                    if let Some(stream) = self.streams.remove(&id) {
                        stream.given_up.cancel();
                    }
                }
                Incoming::Ping { id } => self.put(frame::ping(id)).await?,
            }
        }
    }

    async fn put(&self, frame: Bytes) -> io::Result<()> {
        self.frames.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn open(&mut self, id: u32, headers: Headers, last: bool) -> io::Result<()> {
        // Streams that both sides are done with make room.
        self.streams.retain(|_, stream| !stream.is_over());
        let place = self.room.clone().try_acquire_owned();
        let Some(place) = place.ok().filter(|_| id > self.newest && id % 2 == 1).map(Arc::new) else {
            return self.put(frame::reset(id, frame::REFUSED)).await;
        };
        self.newest = id;
        let block = headers::empty_block(!self.replied);
        self.replied = true;
        self.put(frame::reply(id, &block)).await?;
        let (data, input) = mpsc::channel(1);
        let given_up = CancellationToken::new();
        let half = Input {
            data: (!last).then_some(data),
            given_up: given_up.clone(),
            place: Arc::downgrade(&place),
        };
        self.streams.insert(id, half);
        let output = Output { id, frames: self.frames.clone(), given_up, _place: place };
        self.opened
            .send(Stream { headers, input, output })
            .await
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn data(&mut self, id: u32, bytes: Bytes, last: bool) -> io::Result<()> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if let Some(data) = &stream.data
            && !bytes.is_empty()
        {
            // When nobody listens any more the client may go on sending for nothing.
            if tokio::time::timeout(self.stalled, data.send(bytes)).await.is_err() {
                stream.given_up.cancel();
                self.streams.remove(&id);
                return self.put(frame::reset(id, frame::CANCEL)).await;
            }
        }
        if last {
            stream.data = None;
        }
        Ok(())
    }
}

impl Input {
    /// Whether nobody waits for anything of it.
    fn is_over(&self) -> bool {
        self.place.strong_count() == 0 && self.data.as_ref().is_none_or(mpsc::Sender::is_closed)
    }
}

#[cfg(test)]
mod tests;

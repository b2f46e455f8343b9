//! A session over a pipe, spoken to frame by frame.

use tokio::io::{AsyncReadExt, DuplexStream, ReadHalf, WriteHalf};

use super::headers::tests::blocks;
use super::*;

struct Client {
    read: ReadHalf<DuplexStream>,
    write: WriteHalf<DuplexStream>,
}

impl Client {
    fn connect() -> (Self, mpsc::Receiver<Stream>) {
        Self::connect_with(STALLED)
    }

    fn connect_with(stalled: Duration) -> (Self, mpsc::Receiver<Stream>) {
        let (ours, theirs) = tokio::io::duplex(1024);
        let (read, write) = tokio::io::split(theirs);
        let (streams, serving) = serve(read, write, stalled);
        tokio::spawn(serving);
        let (read, write) = tokio::io::split(ours);
        (Self { read, write }, streams)
    }

    async fn send(&mut self, frame: &[u8]) {
        self.write.write_all(frame).await.unwrap();
    }

    async fn expect(&mut self, frame: &[u8]) {
        let mut got = vec![0; frame.len()];
        self.read.read_exact(&mut got).await.unwrap();
        assert_eq!(got, frame);
    }
}

fn open(id: u32, block: &[u8]) -> Vec<u8> {
    let length = u32::try_from(10 + block.len()).unwrap();
    let head = [0x8003_0001, length, id, 0].map(u32::to_be_bytes).concat();
    [&head[..], &[0, 0], block].concat()
}

#[tokio::test]
async fn a_stream_goes_both_ways_and_each_end_is_told() {
    let (mut client, mut streams) = Client::connect();
    let blocks = blocks(&[&[("streamType", "data"), ("port", "80")]]);
    client.send(&open(1, &blocks[0])).await;
    client.expect(&frame::reply(1, &headers::empty_block(true))).await;
    let Stream { headers, mut input, output } = streams.recv().await.unwrap();
    assert_eq!((headers.get("streamtype"), headers.get("port")), ("data", "80"));
    client.send(&frame::data(1, b"hello", true)).await;
    assert_eq!(input.recv().await.unwrap(), "hello");
    assert_eq!(input.recv().await, None);
    output.send(b"there").await.unwrap();
    output.finish().await;
    client.expect(&frame::data(1, b"there", false)).await;
    client.expect(&frame::data(1, b"", true)).await;
    client.send(&frame::ping(3)).await;
    client.expect(&frame::ping(3)).await;
}

#[tokio::test]
async fn a_stream_whose_data_nobody_takes_is_reset_and_the_others_go_on() {
    let (mut client, mut streams) = Client::connect_with(Duration::from_millis(50));
    let blocks = blocks(&[&[("streamType", "data"), ("port", "80")]]);
    client.send(&open(1, &blocks[0])).await;
    client.expect(&frame::reply(1, &headers::empty_block(true))).await;
    let stalled = streams.recv().await.unwrap();
    for _ in 0..2 {
        client.send(&frame::data(1, b"nobody takes it", false)).await;
    }
    client.send(&frame::ping(3)).await;
    client.expect(&frame::reset(1, frame::CANCEL)).await;
    client.expect(&frame::ping(3)).await;
    assert!(stalled.output.send(b"x").await.is_err());
}

#[tokio::test]
async fn a_stream_that_is_reset_takes_nothing_more() {
    let (mut client, mut streams) = Client::connect();
    client.send(&open(1, &blocks(&[&[]])[0])).await;
    let Stream { mut input, output, .. } = streams.recv().await.unwrap();
    client.send(&frame::reset(1, 5)).await;
    output.given_up().cancelled().await;
    assert!(output.send(b"x").await.is_err());
    assert_eq!(input.recv().await, None);
}

#[tokio::test]
async fn a_client_that_sends_more_than_anybody_takes_has_to_wait() {
    let (mut client, mut streams) = Client::connect();
    client.send(&open(1, &blocks(&[&[]])[0])).await;
    let Stream { mut input, .. } = streams.recv().await.unwrap();
    let sending = tokio::spawn(async move {
        for _ in 0..100 {
            client.send(&frame::data(1, &[7; 1024], false)).await;
        }
        client
    });
    tokio::task::yield_now().await;
    let mut got = 0;
    while got < 100 * 1024 {
        assert!(got > 50 * 1024 || !sending.is_finished(), "all was taken in although nobody read");
        got += input.recv().await.unwrap().len();
    }
    sending.await.unwrap();
}

#[tokio::test]
async fn there_is_room_for_so_many_streams() {
    let (mut client, mut streams) = Client::connect();
    let sent: Vec<&[(&str, &str)]> = vec![&[]; MAX_STREAMS + 1];
    let blocks = blocks(&sent);
    let mut held = Vec::new();
    let mut id = 1;
    for block in &blocks[..MAX_STREAMS] {
        client.send(&open(id, block)).await;
        client.expect(&frame::reply(id, &headers::empty_block(id == 1))).await;
        held.push(streams.recv().await.unwrap());
        id += 2;
    }
    client.send(&open(id, &blocks[MAX_STREAMS])).await;
    client.expect(&frame::reset(id, frame::REFUSED)).await;
}

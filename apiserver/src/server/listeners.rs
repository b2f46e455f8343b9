//! The sockets that are listened on: our own and inherited ones.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;
/// When a silent connection is probed, how often, and how many answers may be missing.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);
/// How long sent data may stay unacknowledged: a client that vanished ends within this time.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Listens on `address`, at once after a predecessor too.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// The sockets that the parent process opened for this one (the protocol of `sd_listen_fds(3)`).
pub fn inherited() -> io::Result<Vec<TcpListener>> {
    let mut given = listenfd::ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..given.len() {
        if let Some(listener) = given.take_tcp_listener(index)? {
            listener.set_nonblocking(true)?;
            listeners.push(TcpListener::from_std(listener)?);
        }
    }
    Ok(listeners)
}

/// Small writes leave at once, and dead clients are noticed.
pub(super) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let (idle, interval, retries) = KEEPALIVE;
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(retries),
    )?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))
}

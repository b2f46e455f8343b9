//! Sending frames of our own making.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sends an Ethernet frame; its first bytes say to whom and of which protocol.
#[allow(unsafe_code, reason = "no safe wrapper sends to a link-layer address of one's own making")]
pub(crate) fn send_frame(socket: &OwnedFd, index: u32, frame: &[u8]) -> io::Result<()> {
    let header: &[u8; 14] = frame.first_chunk().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hardware = [0; 8];
    hardware[..6].copy_from_slice(&header[..6]);
    let to = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET.try_into().unwrap_or_default(),
        sll_protocol: u16::from_ne_bytes([header[12], header[13]]),
        sll_ifindex: index.try_into().unwrap_or_default(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: hardware,
    };
    let length = libc::socklen_t::try_from(size_of_val(&to)).unwrap_or_default();
    // SAFETY: the frame and the address live until the call returns, and their lengths are their own.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT,
            std::ptr::from_ref(&to).cast(),
            length,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

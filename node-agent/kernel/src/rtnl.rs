//! One rtnetlink connection, bound to the namespace it was opened in.
//!
//! A dump that was interrupted is read again and never used: half a list must not look like a short one.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's attributes are an open set: those we do not use are passed over"
)]

use std::io;

use futures::StreamExt;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use tokio::task::JoinHandle;

use crate::{KernelError, Netns};

/// How often an interrupted dump is tried again.
const DUMP_ATTEMPTS: usize = 10;

/// A connection and the task that drives it; dropping it ends both.
#[derive(Debug)]
pub(crate) struct Rtnl {
    handle: rtnetlink::Handle,
    driver: JoinHandle<()>,
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Rtnl {
    /// Connects inside `namespace`. Needs a tokio runtime.
    pub(crate) fn open(namespace: &Netns) -> Result<Self, KernelError> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|error| KernelError::Socket(io::Error::other(error)))?;
        let opened = namespace.run(|| {
            let _guard = runtime.enter();
            rtnetlink::new_connection_with_strict_check()
        })?;
        let (mut connection, handle, _unsolicited) = opened.map_err(KernelError::Socket)?;
        // Only with it does the end of a dump say whether the dump was whole.
        connection.set_forward_done(true);
        Ok(Self { handle, driver: runtime.spawn(connection) })
    }

    /// Sends one change and waits for the kernel's answer. `what` names it in the error.
    pub(crate) async fn change(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
        what: impl FnOnce() -> String,
    ) -> Result<(), KernelError> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut answers = self.handle.clone().request(request).map_err(|_| KernelError::Closed)?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(KernelError::Refused { what: what(), source: error.to_io() });
            }
        }
        if self.driver.is_finished() { Err(KernelError::Closed) } else { Ok(()) }
    }

    /// Asks one question that has one answer.
    pub(crate) async fn ask(
        &self,
        message: RouteNetlinkMessage,
        what: impl FnOnce() -> String,
    ) -> Result<RouteNetlinkMessage, KernelError> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST;
        let mut answers = self.handle.clone().request(request).map_err(|_| KernelError::Closed)?;
        while let Some(answer) = answers.next().await {
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => return Ok(message),
                NetlinkPayload::Error(error) => {
                    return Err(KernelError::Refused { what: what(), source: error.to_io() });
                }
                _ => {}
            }
        }
        Err(KernelError::Closed)
    }

    /// Reads a whole list, again when the kernel says it changed meanwhile.
    pub(crate) async fn dump(
        &self,
        message: RouteNetlinkMessage,
        subject: &'static str,
    ) -> Result<Vec<RouteNetlinkMessage>, KernelError> {
        for _ in 0..DUMP_ATTEMPTS {
            if let Some(list) = self.dump_once(message.clone(), subject).await? {
                return Ok(list);
            }
        }
        Err(KernelError::Interrupted(subject))
    }

    /// `None` when the dump was interrupted.
    async fn dump_once(
        &self,
        message: RouteNetlinkMessage,
        subject: &'static str,
    ) -> Result<Option<Vec<RouteNetlinkMessage>>, KernelError> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut answers = self.handle.clone().request(request).map_err(|_| KernelError::Closed)?;
        let mut list = Vec::new();
        let mut whole = true;
        let mut ended = false;
        while let Some(answer) = answers.next().await {
            whole &= answer.header.flags & NLM_F_DUMP_INTR == 0;
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => list.push(message),
                NetlinkPayload::Done(done) if done.code == 0 => ended = true,
                NetlinkPayload::Done(done) => {
                    let source = io::Error::from_raw_os_error(-done.code);
                    return Err(KernelError::Refused { what: format!("list {subject}"), source });
                }
                NetlinkPayload::Error(error) => {
                    return Err(KernelError::Refused {
                        what: format!("list {subject}"),
                        source: error.to_io(),
                    });
                }
                NetlinkPayload::Overrun(_) => whole = false,
                _ => {}
            }
        }
        if !ended && whole {
            return Err(KernelError::Closed);
        }
        Ok(whole.then_some(list))
    }
}

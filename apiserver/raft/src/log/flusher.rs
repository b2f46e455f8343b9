//! Who runs the writer: a thread that gathers what queued up during the last sync, or the
//! caller itself where everything has to happen in one order.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use super::writer::{Operation, Writer};

/// Operations joined in one batch at most.
const BATCH: usize = 4096;

pub(crate) enum Flusher {
    Inline(Box<Mutex<Writer>>),
    Thread { sender: Mutex<Option<Sender<Operation>>>, thread: Mutex<Option<JoinHandle<()>>> },
}

impl Flusher {
    pub(crate) fn inline(writer: Writer) -> Self {
        Self::Inline(Box::new(Mutex::new(writer)))
    }

    pub(crate) fn thread(writer: Writer) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let thread =
            std::thread::Builder::new().name("raft-log".to_owned()).spawn(move || run(writer, &receiver))?;
        Ok(Self::Thread { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn submit(&self, operation: Operation) {
        let refused = match self {
            Self::Inline(writer) => {
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                writer.process(vec![operation]);
                None
            }
            Self::Thread { sender, .. } => {
                let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
                match sender.as_ref() {
                    Some(sender) => sender.send(operation).err().map(|refused| refused.0),
                    None => Some(operation),
                }
            }
        };
        if let Some(
            Operation::Append(_, done)
            | Operation::Mark(_, done)
            | Operation::Purge(_, done)
            | Operation::Vote(_, done),
        ) = refused
        {
            done(Err(io::Error::other("the log is closed")));
        }
    }

    /// Finishes what was submitted and ends the thread.
    pub(crate) fn stop(&self) {
        if let Self::Thread { sender, thread } = self {
            drop(sender.lock().unwrap_or_else(PoisonError::into_inner).take());
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread
                && thread.join().is_err()
            {
                tracing::error!("the thread of the raft log panicked");
            }
        }
    }
}

fn run(mut writer: Writer, receiver: &Receiver<Operation>) {
    while let Ok(first) = receiver.recv() {
        let mut operations = vec![first];
        operations.extend(receiver.try_iter().take(BATCH - 1));
        writer.process(operations);
    }
}

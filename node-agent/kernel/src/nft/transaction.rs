//! One transaction: all changes, or none and what is wrong with which element.

use std::io;

use litek8s_plan::nft::Change;

use super::constants::{BATCH_BEGIN, BATCH_END, SUBSYSTEM};
use super::encode::{Sent, write_change};
use crate::KernelError;
use crate::wire::{Answer, NLM_F_ACK, NLM_F_REQUEST, NetfilterSocket, Writer, messages};

/// Commits `changes`, if the rule set is still at `generation`.
///
/// # Errors
/// [`KernelError::Changed`] when somebody else committed meanwhile; [`KernelError::Refused`] names the element.
pub(crate) fn commit(
    socket: &mut NetfilterSocket,
    changes: &[Change],
    generation: u32,
) -> Result<(), KernelError> {
    let mut writer = Writer::default();
    let mut sent = Vec::new();
    // The first sequence number is the batch's own: a transaction refused as a whole is answered with it.
    let mut sequence = 1;
    writer.message(BATCH_BEGIN, NLM_F_REQUEST, 0, (0, SUBSYSTEM), |writer| writer.be32(1, generation));
    for change in changes {
        write_change(&mut writer, change, &mut sequence, &mut sent);
    }
    let last = acknowledge_last(&mut writer.bytes);
    writer.message(BATCH_END, NLM_F_REQUEST, sequence, (0, SUBSYSTEM), |_| {});

    // Answers of an earlier transaction that failed halfway are not ours.
    while socket.receive(false)?.is_some() {}
    socket.send(&writer.bytes)?;
    let mut acknowledged = false;
    let mut refused: Option<Answer> = None;
    // The kernel works while we send: every answer is there by now.
    while let Some(datagram) = socket.receive(false)? {
        for answer in messages(datagram).filter_map(|message| Answer::of(&message)) {
            match answer.errno {
                0 => acknowledged |= answer.sequence == last,
                libc::ERESTART => return Err(KernelError::Changed),
                _ if refused.is_none() => refused = Some(answer),
                _ => {}
            }
        }
    }
    match refused {
        Some(answer) => Err(refusal(&answer, &sent)),
        None if acknowledged => Ok(()),
        None => Err(KernelError::Malformed("nftables")),
    }
}

/// Asks for an answer to the last message only; older kernels do not acknowledge the end of a batch. Returns its
/// sequence number.
fn acknowledge_last(bytes: &mut [u8]) -> u32 {
    let mut last = 0;
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + 16) {
        let length = header.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let Ok(length @ 16..) = usize::try_from(length) else { break };
        last = at;
        at += length.next_multiple_of(4);
    }
    let word = |range: std::ops::Range<usize>| bytes.get(range).and_then(|bytes| bytes.try_into().ok());
    let sequence = word(last + 8..last + 12).map_or(0, u32::from_ne_bytes);
    if let Some(flags) = bytes.get_mut(last + 6..last + 8) {
        flags.copy_from_slice(&(NLM_F_REQUEST | flag_bits(flags) | NLM_F_ACK).to_ne_bytes());
    }
    sequence
}

fn flag_bits(flags: &[u8]) -> u16 {
    flags.try_into().map_or(0, u16::from_ne_bytes)
}

fn refusal(answer: &Answer, sent: &[Sent<'_>]) -> KernelError {
    let index = usize::try_from(answer.sequence).ok().and_then(|sequence| sequence.checked_sub(1));
    let what = match index.and_then(|index| sent.get(index)) {
        None => "nftables transaction".to_owned(),
        Some(sent) => {
            // The fault is in the last element that begins before it.
            let fault = answer.offset.unwrap_or_default();
            let element = sent.elements.iter().rfind(|(start, ..)| *start <= fault && fault > 0);
            match (element, sent.change) {
                (
                    Some((_, key, value)),
                    Change::AddElements(name, set, _) | Change::DeleteElements(name, set, _),
                ) => {
                    let one = [((*key).to_vec(), (*value).clone())].into();
                    let adding = matches!(sent.change, Change::AddElements(..));
                    let change = if adding { Change::AddElements } else { Change::DeleteElements };
                    change(name.clone(), set.clone(), one).to_string()
                }
                _ => sent.change.to_string(),
            }
        }
    };
    let source = if answer.errno == 0 { io::Error::other("refused") } else { answer.error() };
    KernelError::Refused { what, source }
}

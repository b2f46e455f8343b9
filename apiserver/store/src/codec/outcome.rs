//! Objects and outcomes, as snapshots hold them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::{DecodeError, Reader, Writer, read_claims, read_key, write_claims, write_key};
use crate::command::Claim;
use crate::object::Object;
use crate::outcome::{Outcome, Rejection};

const CREATED: u8 = 1;
const UPDATED: u8 = 2;
const DELETED: u8 = 3;
const BATCH: u8 = 4;
const REJECTED: u8 = 5;

const ALREADY_EXISTS: u8 = 1;
const NOT_FOUND: u8 = 2;
const REVISION_MISMATCH: u8 = 3;
const UID_MISMATCH: u8 = 4;
const CLAIMED: u8 = 5;
const FENCED: u8 = 6;
const MALFORMED: u8 = 7;

impl Outcome {
    /// The outcome as bytes, for a server that proposed on behalf of another.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A vector takes every write.
        let _ = write_outcome(&mut Writer::new(&mut bytes), self);
        bytes
    }

    /// The outcome of these bytes, all of them.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let outcome = read_outcome(&mut from)?;
        from.finish()?;
        Ok(outcome)
    }
}

pub(crate) fn write_object(to: &mut Writer<'_>, object: &Object) -> io::Result<()> {
    write_key(to, &object.key)?;
    to.number(object.revision)?;
    to.size(object.version_at)?;
    to.bytes(&object.json)?;
    write_claims(to, &object.claims)
}

pub(crate) fn read_object(from: &mut Reader) -> Result<Object, DecodeError> {
    let key = read_key(from)?;
    let revision = from.number()?;
    let version_at = from.size()?;
    // A copy of its own, so that one object does not keep a whole snapshot in memory.
    let json = Bytes::copy_from_slice(&from.bytes()?);
    let claims = read_claims(from)?;
    Object::restore(key, revision, json, claims, version_at)
        .map_err(|what| from.error(format!("object: {what}")))
}

pub(crate) fn write_outcome(to: &mut Writer<'_>, outcome: &Outcome) -> io::Result<()> {
    match outcome {
        Outcome::Created(object) => {
            to.tag(CREATED)?;
            write_object(to, object)
        }
        Outcome::Updated(object) => {
            to.tag(UPDATED)?;
            write_object(to, object)
        }
        Outcome::Deleted(object) => {
            to.tag(DELETED)?;
            write_object(to, object)
        }
        Outcome::Batch(outcomes) => {
            to.tag(BATCH)?;
            to.size(outcomes.len())?;
            outcomes.iter().try_for_each(|outcome| write_outcome(to, outcome))
        }
        Outcome::Rejected(rejection) => {
            to.tag(REJECTED)?;
            write_rejection(to, rejection)
        }
    }
}

pub(crate) fn read_outcome(from: &mut Reader) -> Result<Outcome, DecodeError> {
    match from.tag()? {
        BATCH => {
            let count = from.size()?;
            let outcomes: Result<_, _> = (0..count)
                .map(|_| {
                    let tag = from.tag()?;
                    read_single(from, tag)
                })
                .collect();
            outcomes.map(Outcome::Batch)
        }
        tag => read_single(from, tag),
    }
}

fn read_single(from: &mut Reader, tag: u8) -> Result<Outcome, DecodeError> {
    match tag {
        CREATED => Ok(Outcome::Created(Arc::new(read_object(from)?))),
        UPDATED => Ok(Outcome::Updated(Arc::new(read_object(from)?))),
        DELETED => Ok(Outcome::Deleted(Arc::new(read_object(from)?))),
        REJECTED => read_rejection(from).map(Outcome::Rejected),
        other => Err(from.error(format!("outcome {other}"))),
    }
}

fn write_rejection(to: &mut Writer<'_>, rejection: &Rejection) -> io::Result<()> {
    match rejection {
        Rejection::AlreadyExists => to.tag(ALREADY_EXISTS),
        Rejection::NotFound => to.tag(NOT_FOUND),
        Rejection::RevisionMismatch { current } => {
            to.tag(REVISION_MISMATCH)?;
            to.number(*current)
        }
        Rejection::UidMismatch { current } => {
            to.tag(UID_MISMATCH)?;
            to.bytes(current.as_bytes())
        }
        Rejection::Claimed { claim, by } => {
            to.tag(CLAIMED)?;
            to.bytes(claim.space.as_bytes())?;
            to.bytes(claim.value.as_bytes())?;
            write_key(to, by)
        }
        Rejection::Fenced => to.tag(FENCED),
        Rejection::Malformed(what) => {
            to.tag(MALFORMED)?;
            to.bytes(what.as_bytes())
        }
    }
}

fn read_rejection(from: &mut Reader) -> Result<Rejection, DecodeError> {
    Ok(match from.tag()? {
        ALREADY_EXISTS => Rejection::AlreadyExists,
        NOT_FOUND => Rejection::NotFound,
        REVISION_MISMATCH => Rejection::RevisionMismatch { current: from.number()? },
        UID_MISMATCH => Rejection::UidMismatch { current: from.string()? },
        CLAIMED => Rejection::Claimed {
            claim: Claim { space: from.string()?, value: from.string()? },
            by: read_key(from)?,
        },
        FENCED => Rejection::Fenced,
        MALFORMED => Rejection::Malformed(from.string()?.as_ref().to_owned()),
        other => return Err(from.error(format!("rejection {other}"))),
    })
}

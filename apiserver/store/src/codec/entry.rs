//! Entries, as the log holds them.

use std::io;

use bytes::Bytes;

use super::{DecodeError, Reader, Writer};
use crate::command::{Claim, Command, Entry, Precondition};
use crate::key::{GroupResource, ObjectKey};

/// The first byte of an entry.
const VERSION: u8 = 1;

const CREATE: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const BATCH: u8 = 4;

impl Entry {
    /// The entry as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A vector takes every write.
        let _ = self.write(&mut Writer::new(&mut bytes));
        bytes
    }

    fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.tag(VERSION)?;
        to.wide(self.session)?;
        to.number(self.sequence)?;
        to.number(self.acknowledged)?;
        to.optional(self.bound_term)?;
        write_command(to, &self.command)
    }

    /// The entry of these bytes, all of them.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let version = from.tag()?;
        if version != VERSION {
            return Err(from.error(format!("entry version {version}")));
        }
        let entry = Self {
            session: from.wide()?,
            sequence: from.number()?,
            acknowledged: from.number()?,
            bound_term: from.optional()?,
            command: read_command(&mut from, true)?,
        };
        from.finish()?;
        Ok(entry)
    }
}

fn write_command(to: &mut Writer<'_>, command: &Command) -> io::Result<()> {
    match command {
        Command::Create { key, object, claims } => {
            to.tag(CREATE)?;
            write_key(to, key)?;
            to.bytes(object)?;
            write_claims(to, claims)
        }
        Command::Update { key, object, precondition, claims } => {
            to.tag(UPDATE)?;
            write_key(to, key)?;
            to.bytes(object)?;
            write_precondition(to, precondition)?;
            write_claims(to, claims)
        }
        Command::Delete { key, precondition } => {
            to.tag(DELETE)?;
            write_key(to, key)?;
            write_precondition(to, precondition)
        }
        Command::Batch(commands) => {
            to.tag(BATCH)?;
            to.size(commands.len())?;
            commands.iter().try_for_each(|command| write_command(to, command))
        }
    }
}

fn read_command(from: &mut Reader, batches: bool) -> Result<Command, DecodeError> {
    match from.tag()? {
        CREATE => {
            Ok(Command::Create { key: read_key(from)?, object: from.bytes()?, claims: read_claims(from)? })
        }
        UPDATE => Ok(Command::Update {
            key: read_key(from)?,
            object: from.bytes()?,
            precondition: read_precondition(from)?,
            claims: read_claims(from)?,
        }),
        DELETE => Ok(Command::Delete { key: read_key(from)?, precondition: read_precondition(from)? }),
        BATCH if batches => {
            let count = from.size()?;
            let commands: Result<_, _> = (0..count).map(|_| read_command(from, false)).collect();
            commands.map(Command::Batch)
        }
        other => Err(from.error(format!("command {other}"))),
    }
}

pub(crate) fn write_key(to: &mut Writer<'_>, key: &ObjectKey) -> io::Result<()> {
    to.bytes(key.resource.group.as_bytes())?;
    to.bytes(key.resource.resource.as_bytes())?;
    to.bytes(key.namespace.as_bytes())?;
    to.bytes(key.name.as_bytes())
}

pub(crate) fn read_key(from: &mut Reader) -> Result<ObjectKey, DecodeError> {
    Ok(ObjectKey {
        resource: GroupResource { group: from.string()?, resource: from.string()? },
        namespace: from.string()?,
        name: from.string()?,
    })
}

pub(crate) fn write_claims(to: &mut Writer<'_>, claims: &[Claim]) -> io::Result<()> {
    to.size(claims.len())?;
    claims.iter().try_for_each(|claim| {
        to.bytes(claim.space.as_bytes())?;
        to.bytes(claim.value.as_bytes())
    })
}

pub(crate) fn read_claims(from: &mut Reader) -> Result<Vec<Claim>, DecodeError> {
    let count = from.size()?;
    (0..count).map(|_| Ok(Claim { space: from.string()?, value: from.string()? })).collect()
}

fn write_precondition(to: &mut Writer<'_>, precondition: &Precondition) -> io::Result<()> {
    match &precondition.uid {
        None => to.tag(0)?,
        Some(uid) => {
            to.tag(1)?;
            to.bytes(uid.as_bytes())?;
        }
    }
    to.optional(precondition.revision)
}

fn read_precondition(from: &mut Reader) -> Result<Precondition, DecodeError> {
    let uid = match from.tag()? {
        0 => None,
        1 => Some(from.string()?),
        other => return Err(from.error(format!("presence {other}"))),
    };
    Ok(Precondition { uid, revision: from.optional()? })
}

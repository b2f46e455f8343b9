//! Which server of which cluster a directory belongs to: written once, never changed.

use std::io;

use crate::disk::Disk;
use crate::log::LogError;

const FILE: &str = "identity";
const MAGIC: &[u8; 8] = b"lk8s-sid";
const VERSION: u32 = 1;
const LENGTH: usize = 48;

/// The number of the server that begins a cluster; those that join get theirs from its leader.
pub(crate) const FIRST: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) node: u64,
    pub(crate) cluster: u128,
}

impl Identity {
    /// The identity of the directory, made with `cluster` if it has none yet.
    pub(crate) fn load_or_create(disk: &dyn Disk, cluster: u128) -> Result<Self, LogError> {
        let failed = |source| LogError::Io { file: FILE.to_owned(), source };
        match disk.read(FILE) {
            Ok(bytes) => Self::decode(&bytes).ok_or_else(|| LogError::Corrupt {
                file: FILE.to_owned(),
                offset: 0,
                what: "not an identity of a version this program knows".to_owned(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let identity = Self { node: FIRST, cluster };
                disk.replace(FILE, &identity.encode()).map_err(failed)?;
                Ok(identity)
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.node.to_le_bytes());
        bytes.extend_from_slice(&self.cluster.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(LENGTH, 0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, rest) = bytes.split_at_checked(40)?;
        let sound = bytes.len() == LENGTH
            && body[..8] == MAGIC[..]
            && body[8..12] == VERSION.to_le_bytes()
            && rest[..4] == crc32c::crc32c(body).to_le_bytes();
        sound.then_some(Self {
            node: u64::from_le_bytes(body[16..24].try_into().ok()?),
            cluster: u128::from_le_bytes(body[24..40].try_into().ok()?),
        })
    }
}

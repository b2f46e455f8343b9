//! The vote of this server, in a file that is replaced as a whole.

use super::LogError;
use crate::disk::Disk;

pub(crate) const FILE: &str = "vote";
const MAGIC: &[u8; 8] = b"lk8svote";
const VERSION: u32 = 1;
const LENGTH: usize = 40;

/// For whom this server voted, or whom it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    pub(crate) term: u64,
    pub(crate) node: u64,
    /// Whether a quorum elected that node.
    pub(crate) elected: bool,
}

impl Ballot {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.elected).to_le_bytes());
        bytes.extend_from_slice(&self.term.to_le_bytes());
        bytes.extend_from_slice(&self.node.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(LENGTH, 0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, rest) = bytes.split_at_checked(32)?;
        let sound = bytes.len() == LENGTH
            && body[..8] == MAGIC[..]
            && body[8..12] == VERSION.to_le_bytes()
            && rest[..4] == crc32c::crc32c(body).to_le_bytes();
        sound.then_some(Self {
            elected: body[12] == 1,
            term: u64::from_le_bytes(body[16..24].try_into().ok()?),
            node: u64::from_le_bytes(body[24..32].try_into().ok()?),
        })
    }

    /// The vote on the disk.
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>, LogError> {
        let bytes = match disk.read(FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(LogError::Io { file: FILE.to_owned(), source });
            }
        };
        let vote = Self::decode(&bytes).ok_or_else(|| LogError::Corrupt {
            file: FILE.to_owned(),
            offset: 0,
            what: "not a vote of a version this program knows".to_owned(),
        })?;
        Ok(Some(vote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_comes_back_and_a_damaged_one_does_not() {
        let vote = Ballot { term: 7, node: u64::MAX, elected: true };
        let bytes = vote.encode();
        assert_eq!(Ballot::decode(&bytes), Some(vote));
        for at in 0..36 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Ballot::decode(&damaged), None, "byte {at}");
        }
    }
}

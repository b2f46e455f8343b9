//! The files the join tokens are in: read when they are there, made when not.

use std::path::{Path, PathBuf};

use litek8s_daemon::files;
use litek8s_daemon::join_token::{JoinToken, JoinTokenError};

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read or written.
    #[error("token file {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("token file {path}: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: JoinTokenError,
    },
    /// The token is for another cluster or another purpose.
    #[error("token file {path} holds a token for {found}, expected one for {expected}")]
    Other {
        /// The file.
        path: PathBuf,
        /// What it is for.
        found: String,
        /// What it should be for.
        expected: String,
    },
}

/// The token in `path` for `user` of the cluster whose CA has this hash.
pub fn open(path: &Path, user: &str, ca_hash: &str) -> Result<JoinToken, TokenFileError> {
    let file = |source| TokenFileError::File { path: path.to_owned(), source };
    if let Some(text) = files::read_if_exists(path).map_err(file)? {
        let token: JoinToken =
            text.parse().map_err(|source| TokenFileError::Content { path: path.to_owned(), source })?;
        if token.user() != user || token.ca_hash() != ca_hash {
            return Err(TokenFileError::Other {
                path: path.to_owned(),
                found: format!("{:?} of the CA {}", token.user(), token.ca_hash()),
                expected: format!("{user:?} of the CA {ca_hash}"),
            });
        }
        return Ok(token);
    }
    let token = JoinToken::generate(ca_hash, user).map_err(file)?;
    files::write_private(path, format!("{}\n", token.reveal()).as_bytes()).map_err(file)?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_belongs_to_one_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent-token");
        let hash = "ab".repeat(32);
        let first = open(&path, "node", &hash).unwrap();
        assert!(open(&path, "node", &hash).unwrap().matches(&first));
        assert!(matches!(open(&path, "node", &"cd".repeat(32)), Err(TokenFileError::Other { .. })));
        assert!(matches!(open(&path, "server", &hash), Err(TokenFileError::Other { .. })));
        std::fs::write(&path, "hello").unwrap();
        assert!(matches!(open(&path, "node", &hash), Err(TokenFileError::Content { .. })));
    }
}

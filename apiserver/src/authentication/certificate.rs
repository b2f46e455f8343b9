//! The client certificate of a connection, read once; TLS has already checked that the cluster's CA signed it.

use std::time::{SystemTime, UNIX_EPOCH};

use litek8s_daemon::pki;

use crate::request::{AUTHENTICATED, UserInfo};

/// Who the other end of a connection is.
#[derive(Debug, Clone)]
pub struct PeerCertificate {
    user: UserInfo,
    /// Unix seconds; a connection may live longer than the certificate it began with.
    not_after: i64,
}

impl PeerCertificate {
    /// Reads a certificate that TLS accepted; `None` when it names nobody.
    pub fn read(der: &[u8]) -> Option<Self> {
        let info = pki::inspect_der(der).ok()?;
        if info.common_name.is_empty() {
            return None;
        }
        let mut user = UserInfo::new(info.common_name, info.organizations);
        user.groups.push(AUTHENTICATED.to_owned());
        user.extra.insert(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![format!("X509SHA256={}", pki::sha256_fingerprint(der))],
        );
        Some(Self { user, not_after: unix(info.not_after) })
    }

    /// The user, while the certificate is good.
    pub(crate) fn user(&self, now: i64) -> Result<&UserInfo, String> {
        if now > self.not_after {
            Err("the client certificate has expired".to_owned())
        } else {
            Ok(&self.user)
        }
    }
}

fn unix(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|d| i64::try_from(d.as_secs()).ok()).unwrap_or_default()
}

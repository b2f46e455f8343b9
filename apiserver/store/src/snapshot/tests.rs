//! Snapshots that are not what was written.

use super::*;
use crate::command::{Claim, Command, Entry};
use crate::key::{GroupResource, ObjectKey};

fn store() -> Store {
    let mut store = Store::default();
    for number in 0..5 {
        let name = format!("n{number}");
        let object = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let key = ObjectKey::new(GroupResource::new("", "services"), "default", &name);
        let claims = vec![Claim::new("service-ip", &name)];
        let command = Command::Create { key, object: object.into(), claims };
        store
            .apply(1, Entry { session: 3, sequence: number + 1, acknowledged: 0, bound_term: None, command });
    }
    store
}

fn encoded() -> Vec<u8> {
    let mut bytes = Vec::new();
    store().encode(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    let bytes = encoded();
    for length in 0..bytes.len() {
        let cut = Bytes::copy_from_slice(&bytes[..length]);
        assert!(Store::decode(cut, Limits::default()).is_err(), "{length} bytes");
    }
}

#[test]
fn no_damage_makes_decoding_panic() {
    let bytes = encoded();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            // The checksum is the raft crate's; here it only must not panic.
            let _ = Store::decode(damaged.into(), Limits::default());
        }
    }
}

#[test]
fn another_version_is_refused_by_number() {
    let mut bytes = encoded();
    bytes[0] = 9;
    let error = Store::decode(bytes.into(), Limits::default()).err().unwrap();
    assert_eq!(error.to_string(), "snapshot version 9 at byte 1");
}

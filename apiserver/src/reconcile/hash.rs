//! Short names for templates.

use serde_json::Value;

/// Ten characters at most that tell templates apart; no vowels, no look-alikes.
pub(super) fn of(template: &Value, collisions: Option<i64>) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = match collisions {
        Some(count) => format!("{template}{count}"),
        None => template.to_string(),
    };
    // FNV-1a, 32 bits.
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

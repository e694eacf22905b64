//! FNV-1a: the hash of keys and the checksum of saved tables, the same in every run and on every machine.

/// FNV-1a of bytes, 64 bits (Fowler, Noll and Vo). It keeps nobody out who looks for a collision.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

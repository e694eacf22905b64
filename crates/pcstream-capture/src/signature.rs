//! The hash that names program contexts: the Rust twin of `libpcstream/signature.h`.
//!
//! A context's signature is a hash, in order, over the identity of the executable, the entry into the
//! kernel and the (module identity, file offset) pairs of its frames. Identities come from build ids,
//! so a signature holds across address-space randomisation, restarts and machines, and changes when
//! the program is rebuilt. FAST'19 (section 3.2) sums return addresses; [`Order::Sum`] does, with
//! a number made of the module's identity in place of the address at which it happens to lie, because
//! position-independent code makes absolute addresses useless.

use pcstream_trace::Signature;

/// Digits of pi: where every hash starts.
pub const SEED: u64 = 0x243f_6a88_85a3_08d3;
/// 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Identity of executable memory that belongs to no file (just-in-time compiled code).
pub const ANONYMOUS: u64 = 1;

/// Takes one word into a hash.
pub fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(FACTOR);
    hash ^ (hash >> 32)
}

/// Hash of bytes: their number, then words of eight, the last padded with zeros.
pub fn of_bytes(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(mix(SEED, bytes.len() as u64), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash, u64::from_le_bytes(word))
    })
}

/// How the frames of a path make its signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// A hash in which the order of frames counts.
    #[default]
    Hash,
    /// Their sum (FAST'19): paths of the same frames in another order share it, and others may.
    Sum,
}

/// Signature of a context. `entry` is the system call number or one of the negative entries of
/// `bpf/wire.h`; `frames` are (module identity, file offset), innermost first.
pub fn of_context(
    order: Order,
    executable: u64,
    entry: i32,
    frames: impl ExactSizeIterator<Item = (u64, u64)>,
) -> Signature {
    let head = mix(mix(mix(SEED, executable), u64::from(entry as u32)), frames.len() as u64);
    let hash = match order {
        Order::Hash => frames.fold(head, |hash, (module, offset)| mix(mix(hash, module), offset)),
        Order::Sum => frames
            .fold(head, |sum, (module, offset)| sum.wrapping_add(mix(SEED, module)).wrapping_add(offset)),
    };
    Signature(if hash == 0 { 1 } else { hash })
}

/// Another hash of the same path, which tells paths of one signature apart.
pub fn check_of_context(
    executable: u64,
    entry: i32,
    frames: impl ExactSizeIterator<Item = (u64, u64)>,
) -> u64 {
    let head = mix(mix(!SEED, executable), u64::from(entry as u32));
    frames.fold(head, |hash, (module, offset)| mix(mix(hash, offset), module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_part_matter() {
        let of =
            |exe, entry, frames: &[(u64, u64)]| of_context(Order::Hash, exe, entry, frames.iter().copied());
        let base = of(7, 1, &[(1, 2), (3, 4)]);
        assert_eq!(base, of(7, 1, &[(1, 2), (3, 4)]));
        for other in [
            of(8, 1, &[(1, 2), (3, 4)]),
            of(7, 18, &[(1, 2), (3, 4)]),
            of(7, 1, &[(3, 4), (1, 2)]),
            of(7, 1, &[(1, 2)]),
            of(7, 1, &[(1, 2), (3, 5)]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_sum_knows_no_order() {
        let of = |exe, entry, frames: &[(u64, u64)]| {
            let frames = || frames.iter().copied();
            (of_context(Order::Sum, exe, entry, frames()), check_of_context(exe, entry, frames()))
        };
        let base = of(7, 1, &[(1, 2), (3, 4)]);
        for same in [of(7, 1, &[(3, 4), (1, 2)]), of(7, 1, &[(1, 3), (3, 3)])] {
            assert_eq!(base.0, same.0);
            assert_ne!(base.1, same.1, "which the check tells");
        }
        for other in [of(8, 1, &[(1, 2), (3, 4)]), of(7, 1, &[(1, 6)]), of(7, 1, &[(1, 2), (2, 4)])] {
            assert_ne!(base.0, other.0);
        }
    }

    #[test]
    fn bytes_hash_knows_their_length() {
        assert_ne!(of_bytes(b"abc"), of_bytes(b"abc\0"));
        assert_ne!(of_bytes(b""), of_bytes(b"\0"));
    }

    /// Fixed for ever: a change here makes all recorded signatures foreign.
    #[test]
    fn golden_value() {
        assert_eq!(
            of_context(Order::Sum, 0x11, 1, [(0x22u64, 0x33u64)].into_iter()).to_string(),
            "1ba7358546721588"
        );
        assert_eq!(
            of_context(Order::Hash, 0x11, 1, [(0x22u64, 0x33u64)].into_iter()).to_string(),
            "3f3930664eff0042"
        );
    }
}

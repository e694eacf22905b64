//! Mutation fuzzing with stable tools: saved inputs are tried as they are, then changed at random for some seconds.
//!
//! Idea: a target is a function of bytes that must not panic. Seeds are the files of its corpus directory and what the test
//! hands over. A run is determined by its seed, which is printed; how far it gets depends on the time it is given:
//! `PCSTREAM_FUZZ_SECONDS` (default 2) and `PCSTREAM_FUZZ_SEED` (default 1). An input that fails is written into the corpus,
//! so that the next run begins with it.
//!
//! Known weaknesses: nothing measures coverage, so it finds what lies near the seeds. An input that makes the process
//! abort is not saved; the same seed meets it again.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Mutated inputs are no longer than this.
const MAX_BYTES: usize = 1 << 16;
/// Numbers at whose sides programs behave differently.
const INTERESTING: [u64; 12] =
    [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 40, i64::MAX as u64, u64::MAX];
/// What text formats stumble over.
const PIECES: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e400",
    b"NaN",
    b"\0",
    b"\xff\xfe",
    b"\n",
    b"\r\n",
    b"\"",
    b",",
    b"[[",
    b"= ",
];

/// Runs a target over its corpus and over mutations of it.
///
/// `corpus` is a directory, which may be missing; `seeds` are tried beside its files.
///
/// # Panics
/// If the target panics: with the seed, and where the input was saved.
pub fn fuzz(corpus: &Path, seeds: Vec<Vec<u8>>, target: impl Fn(&[u8])) {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
    };
    let seed = number("PCSTREAM_FUZZ_SEED", 1);
    let time = Duration::from_secs(number("PCSTREAM_FUZZ_SECONDS", 2));
    let (mut pool, mut tried) = (read_corpus(corpus), 0u64);
    pool.extend(seeds);
    assert!(!pool.is_empty(), "{} has no seed", corpus.display());
    for input in &pool {
        attempt(corpus, seed, input, &target);
    }
    let (began, mut random) = (Instant::now(), Random(seed | 1 << 63));
    let mut slowest = Duration::ZERO;
    while began.elapsed() < time {
        let input = mutate(&pool, &mut random);
        let before = began.elapsed();
        attempt(corpus, seed, &input, &target);
        slowest = slowest.max(began.elapsed() - before);
        tried += 1;
    }
    let (corpus, saved) = (corpus.display(), pool.len());
    eprintln!("    {corpus}: {saved} saved, {tried} mutated inputs, slowest {slowest:.1?}, seed {seed}");
}

fn read_corpus(corpus: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(corpus).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.iter().filter_map(|file| fs::read(file).ok()).collect()
}

fn attempt(corpus: &Path, seed: u64, input: &[u8], target: &impl Fn(&[u8])) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) else { return };
    let name = format!("failed-{:016x}", hash(input));
    let saved = fs::create_dir_all(corpus).and_then(|()| fs::write(corpus.join(&name), input));
    let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    panic!(
        "seed {seed}: an input of {} bytes failed with {:?}; it is in {} ({saved:?})",
        input.len(),
        said.unwrap_or("a panic"),
        corpus.join(name).display()
    );
}

/// FNV-1a: for names only.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3))
}

/// Marsaglia's xorshift64*, never 0.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`, 0 if that is 0.
    fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { (self.next() % limit as u64) as usize }
    }
}

/// One to eight changes of a seed.
fn mutate(pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = pool[random.below(pool.len())].clone();
    for _ in 0..=random.below(8) {
        change(&mut input, pool, random);
    }
    input.truncate(MAX_BYTES.max(pool.iter().map(Vec::len).max().unwrap_or(0)));
    input
}

fn change(input: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len());
    let length = random.below(16.min(input.len() - at) + 1);
    match random.below(8) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        2 => overwrite_number(input, at, random),
        3 => drop(input.drain(at..at + length)),
        4 => {
            let again: Vec<u8> = input[at..at + length].to_vec();
            insert(input, at, &again);
        }
        5 => insert(input, at, PIECES[random.below(PIECES.len())]),
        6 => input.truncate(at),
        _ => {
            let other = &pool[random.below(pool.len())];
            let from = random.below(other.len());
            let upto = (from + random.below(64) + 1).min(other.len());
            insert(input, at, &other[from..upto]);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    let tail = input.split_off(at);
    input.extend_from_slice(piece);
    input.extend(tail);
}

/// A number that borders on something, of one to eight bytes, in either order.
fn overwrite_number(input: &mut [u8], at: usize, random: &mut Random) {
    let number =
        INTERESTING[random.below(INTERESTING.len())].wrapping_add(random.below(3) as u64).wrapping_sub(1);
    let width = 1usize << random.below(4);
    let bytes = if random.below(2) == 0 {
        number.to_le_bytes()
    } else {
        number.rotate_right(8 * width as u32).to_be_bytes()
    };
    for (place, byte) in input[at..].iter_mut().zip(&bytes[..width]) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that only a changed input reaches is found, saved, and tried first the next time.
    #[test]
    fn a_fault_is_found_and_saved() {
        let dir = std::env::temp_dir().join(format!("pcstream-fuzz-{}", std::process::id()));
        let target = |input: &[u8]| assert!(!input.starts_with(b"good\xff"), "it broke");
        let seeds = || vec![b"good and long".to_vec()];
        let found = catch_unwind(|| fuzz(&dir, seeds(), target)).expect_err("it is found");
        let message = found.downcast_ref::<String>().expect("a message").clone();
        let saved = read_corpus(&dir);
        fs::remove_dir_all(&dir).expect("it was made");
        assert!(message.contains("it broke") && message.contains("seed 1"), "{message}");
        assert_eq!(saved.len(), 1);
        assert!(saved[0].starts_with(b"good\xff"));
    }

    #[test]
    fn runs_repeat() {
        let pool = [b"one seed".to_vec(), vec![]];
        let run = || {
            let mut random = Random(1 << 63 | 7);
            (0..1000).map(|_| mutate(&pool, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}

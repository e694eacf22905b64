//! Files that are small, or something else than what was meant: rules, devices, saved tables. Never more than a little
//! memory is taken, whatever the path leads to.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use pcstream_system::trusted_file::{Untrusted, open_regular};

/// Longest text; the largest rules anybody wrote are a thousandth of that.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// The text of a file that a person wrote.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let bytes = read_bytes(path, MAX_TEXT_BYTES, "a small text file")?;
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("is not text in UTF-8"))
}

/// A file of at most `most` bytes, which should be `what`.
pub fn read_bytes(path: &Path, most: u64, what: &str) -> anyhow::Result<Vec<u8>> {
    at_most(&File::open(path)?, most, what)
}

/// The same of a regular file; other files are refused, and never waited for.
pub fn read_regular(path: &Path, most: u64, what: &str) -> anyhow::Result<Vec<u8>> {
    match open_regular(path) {
        Ok(file) => at_most(&file, most, what),
        Err(Untrusted::Io(error)) => Err(error.into()),
        Err(error) => anyhow::bail!("{error}, expected {what}: copy it into one"),
    }
}

fn at_most(file: &File, most: u64, what: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.len() as u64 <= most, "is longer than {most} bytes, expected {what}");
    Ok(bytes)
}

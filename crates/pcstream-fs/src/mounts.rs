//! What is mounted where, as a process sees it: mountinfo (proc_pid_mountinfo(5)).
//!
//! Invariants: mounts come in the kernel's order, so of several on one point the last hides the others. Lines that make
//! no sense are left out.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::extents::DeviceNumber;

/// A line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Of the file system.
    pub device: DeviceNumber,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The kernel's name of its type, such as `ext4`.
    pub fs_type: String,
    /// Options of the file system, not of this mount.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether the file system has an option, such as `user_id=0`.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|has| has == option)
    }
}

/// The mounts that this process sees. Errors: /proc is not there.
pub fn own() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The mounts that a text of mountinfo lists.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

/// The lines of a text of mountinfo, of which at most so many bytes are read: whoever made the mounts chose how long it is. A
/// line that is cut there is left out.
pub fn lines(text: impl Read, most: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut text = BufReader::new(text.take(most));
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        text.read_until(b'\n', &mut line).ok()?;
        (line.pop()? == b'\n').then_some(line)
    })
}

/// The mount that a line lists, without its end.
pub fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let device: DeviceNumber = std::str::from_utf8(fields.nth(2)?).ok()?.parse().ok()?;
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    // Options of the mount, then optional fields up to a lone hyphen.
    fields.find(|&field| field == b"-")?;
    let fs_type = String::from_utf8(fields.next()?.to_vec()).ok()?;
    // The source, then options of the file system.
    let options = fields.nth(1).unwrap_or_default();
    let options = String::from_utf8_lossy(options).split(',').map(str::to_owned).collect();
    Some(Mount { device, mount_point, fs_type, options })
}

/// Undoes the kernel's escapes: `\040` for a space and so on.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\').then(|| tail.get(..3)).flatten().and_then(octal_byte);
        out.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    out
}

fn octal_byte(digits: &[u8]) -> Option<u8> {
    let value = digits
        .iter()
        .try_fold(0u32, |value, &d| (b'0'..=b'7').contains(&d).then(|| value * 8 + u32::from(d - b'0')))?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn mountinfo_with_optional_fields_escapes_and_nonsense() {
        let mounts = parse(
            b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
              27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard,shutdown\n\
              90 27 253:3 / /mnt/my\\040disk\\134x rw,noatime - xfs /dev/zram3 rw\n\
              not a mount\n",
        );
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[1].device, DeviceNumber { major: 254, minor: 0 });
        assert_eq!(mounts[1].fs_type, "ext4");
        let shut_down: Vec<_> = mounts.iter().map(|mount| mount.has_option("shutdown")).collect();
        assert_eq!(shut_down, [false, true, false]);
        assert_eq!(mounts[2].mount_point, Path::new("/mnt/my disk\\x"));
    }

    #[test]
    fn options_are_those_of_the_file_system() {
        let line =
            b"90 27 0:50 / /home/me/a,user_id=0 rw,user_id=0 user_id=0 - fuse user_id=0 rw,user_id=1000\n";
        let mounts = parse(line);
        assert_eq!(mounts[0].options, ["rw", "user_id=1000"]);
    }

    #[test]
    fn of_a_text_without_end_only_so_much_is_read() {
        let line = b"90 27 0:50 / /a rw - fuse a rw\n";
        let endless = || line.chain(std::io::repeat(b'x'));
        let read = |most| lines(endless(), most).collect::<Vec<_>>();
        assert_eq!(read(1 << 20), [&line[..line.len() - 1]], "the second has no end");
        assert_eq!(read(line.len() as u64).len(), 1);
        assert!(read(line.len() as u64 - 1).is_empty(), "half a line may say something else");
        assert_eq!(lines(&b"\n\n"[..], 9).count(), 2);
    }

    #[test]
    fn backslashes_that_are_no_escapes_stay() {
        assert_eq!(unescape(b"a\\04"), b"a\\04");
        assert_eq!(unescape(b"a\\999b\\777"), b"a\\999b\\777");
        assert_eq!(unescape(b"\\011"), b"\t");
    }
}

//! Every way to write a file, and what each gets: the table of `docs/ways-to-write.md`, held against the real kernel.
//!
//! This program is its own writer: started with `--way NAME` it writes the file NAME in the working directory.

mod common;
#[path = "common/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

use pcstream_fs::scratch::FsKind;
use recording::{Recording, bpf, fio, fs_need, record};

const WAY: &str = "--way";
const PAGES: u64 = 100;
const BYTES: usize = 4096 * PAGES as usize;

/// A way to write, as a function of this program.
struct Way {
    name: &'static str,
    write: fn(&str) -> Result<()>,
    /// Pages that must come from each entry into the kernel, on ext4 and on XFS.
    ext4: &'static [(&'static str, u64)],
    xfs: &'static [(&'static str, u64)],
}

const fn way(
    name: &'static str,
    write: fn(&str) -> Result<()>,
    pages: &'static [(&'static str, u64)],
) -> Way {
    Way { name, write, ext4: pages, xfs: pages }
}

const WAYS: [Way; 11] = [
    way("write", write, &[("write", PAGES)]),
    way("writev", writev, &[("writev", PAGES)]),
    way("pwritev2", pwritev2, &[("pwritev2", PAGES)]),
    way("mmap", |name| mapped(name, false), &[("page fault", PAGES)]),
    way("msync", |name| mapped(name, true), &[("page fault", PAGES)]),
    way("sendfile", sendfile, &[("sendfile", PAGES)]),
    way("splice", splice, &[("splice", PAGES)]),
    // XFS shares the blocks instead of copying them; the first PAGES are the source's own.
    Way { name: "copy_file_range", write: copy_file_range, ext4: &[("copy_file_range", PAGES)], xfs: &[] },
    // The page that is cut is zeroed beyond the cut and written again.
    way("ftruncate", truncate, &[("write", 2), ("ftruncate", 1)]),
    // The pages at both ends of the range are zeroed in part and written again.
    way("zero_range", zero_range, &[("write", 8), ("fallocate", 2)]),
    // Space that is only set aside is not written.
    way("fallocate", fallocate, &[]),
];

/// Ways that fio has.
const FIO_WAYS: [(&str, &str, &[&str]); 6] = [
    ("libaio", "--ioengine=libaio --direct=0", &["io_submit"]),
    ("libaio_direct", "--ioengine=libaio --direct=1", &["io_submit"]),
    ("io_uring", "--ioengine=io_uring --direct=0", &["io_uring_enter"]),
    ("io_uring_direct", "--ioengine=io_uring --direct=1", &["io_uring_enter"]),
    // The submitter is a thread of the kernel without a user stack: the program is known, the path is not.
    ("sqpoll", "--ioengine=io_uring --sqthread_poll=1 --direct=0", &["io_uring worker"]),
    ("sqpoll_direct", "--ioengine=io_uring --sqthread_poll=1 --direct=1", &["io_uring worker"]),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, name] = &arguments[..]
        && flag == WAY
    {
        let way = WAYS.iter().find(|way| way.name == name).expect("a known way");
        (way.write)(name).expect("it can be written");
        return ExitCode::SUCCESS;
    }
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs = [fs_need(fs), common::zram, bpf];
        tests.push(common::test(format!("ways_to_write_on_{fs}"), &needs, move || own_ways(fs)));
        tests
            .push(common::test(format!("requests_of_any_length_on_{fs}"), &needs, move || long_requests(fs)));
        let needs = [fs_need(fs), common::zram, bpf, fio];
        tests.push(common::test(format!("ways_of_fio_on_{fs}"), &needs, move || fio_ways(fs)));
        let needs = [fs_need(fs), common::zram, bpf, common::loop_devices];
        tests.push(common::test(format!("ways_through_a_loop_device_on_{fs}"), &needs, move || {
            loop_device(fs)
        }));
    }
    common::run(tests)
}

/// Pages written to a file, by entry; `""` without a context.
fn by_entry(recording: &Recording, file: &str) -> BTreeMap<String, u64> {
    let mut pages = BTreeMap::new();
    for event in recording.data_writes().filter(|event| recording.path(event) == format!("/{file}")) {
        let entry = recording.context(event).map_or(String::new(), |context| context.entry.clone());
        *pages.entry(entry).or_default() += u64::from(event.pages);
    }
    pages
}

fn own_ways(fs: FsKind) {
    let program = std::env::current_exe().expect("it has a path");
    let run = |way: &Way| format!("'{}' {WAY} {} || exit 1; sync;", program.display(), way.name);
    let recording = record(fs, &WAYS.iter().map(run).collect::<String>());
    for way in &WAYS {
        let found = by_entry(&recording, way.name);
        eprintln!("    {:16} {found:?}", way.name);
        let expected = if fs == FsKind::Ext4 { way.ext4 } else { way.xfs };
        let expected: BTreeMap<String, u64> = expected.iter().map(|(e, n)| ((*e).to_string(), *n)).collect();
        assert_eq!(found, expected, "{} on {fs}", way.name);
    }
}

/// XFS sends what `dd` writes here in requests of up to 300 MiB.
fn long_requests(fs: FsKind) {
    const MIB: u64 = 300;
    let recording = record(fs, &format!("dd if=/dev/zero of=large bs=1M count={MIB} conv=fsync status=none"));
    let found = by_entry(&recording, "large");
    assert_eq!(found, BTreeMap::from([("write".to_owned(), MIB * 256)]), "on {fs}");
}

fn fio_ways(fs: FsKind) {
    let job = |(name, flags, _): &(&str, &str, &[&str])| {
        format!(
            "fio --name=x --filename={name} {flags} --rw=write --bs=4k --size={BYTES} --iodepth=8 --fallocate=none \
             --create_on_open=1 --end_fsync=1 >/dev/null || exit 1; sync;"
        )
    };
    let recording = record(fs, &FIO_WAYS.iter().map(job).collect::<String>());
    for (name, _, entries) in FIO_WAYS {
        let found = by_entry(&recording, name);
        eprintln!("    {name:16} {found:?}");
        let all: u64 = found.values().sum();
        let right: u64 = entries.iter().filter_map(|entry| found.get(*entry)).sum();
        assert!(all >= PAGES && right == all, "{name} on {fs}: {found:?}");
    }
}

/// A thread of the kernel writes the file behind a loop device; whose data they are is not known there.
fn loop_device(fs: FsKind) {
    let script = format!(
        "truncate -s {BYTES} backing && at=$(losetup -f --show backing) && trap \"losetup -d $at\" EXIT && \
         dd if=/dev/urandom of=$at bs=4k count={PAGES} conv=fsync 2>/dev/null"
    );
    let recording = record(fs, &script);
    let found = by_entry(&recording, "backing");
    eprintln!("    {found:?}");
    assert_eq!(found.values().sum::<u64>(), PAGES, "{found:?}");
    assert_eq!(found.get(""), Some(&PAGES), "no context rather than a wrong one: {found:?}");
}

fn create(name: &str) -> Result<File> {
    OpenOptions::new().create(true).truncate(true).read(true).write(true).open(name)
}

/// What a system call returned.
fn check(returned: isize) -> Result<usize> {
    usize::try_from(returned).map_err(|_| Error::last_os_error())
}

/// Calls until `BYTES` bytes went through.
fn all(mut call: impl FnMut(usize) -> isize) -> Result<()> {
    let mut left = BYTES;
    while left > 0 {
        let done = check(call(left))?;
        assert!(done > 0, "the source ended early");
        left -= done;
    }
    Ok(())
}

/// Memory with `BYTES` bytes in it, as a file.
fn source() -> Result<File> {
    // SAFETY: a valid name; the descriptor returned is owned by the file.
    let file =
        unsafe { File::from_raw_fd(check(libc::memfd_create(c"source".as_ptr(), 0) as isize)? as i32) };
    file.write_all_at(&vec![7; BYTES], 0)?;
    Ok(file)
}

fn write(name: &str) -> Result<()> {
    create(name)?.write_all(&vec![7; BYTES])
}

fn vectors(bytes: &[u8]) -> [libc::iovec; 2] {
    let (a, b) = bytes.split_at(bytes.len() / 2);
    [a, b].map(|part| libc::iovec { iov_base: part.as_ptr() as *mut c_void, iov_len: part.len() })
}

fn writev(name: &str) -> Result<()> {
    let (file, bytes) = (create(name)?, vec![7; BYTES]);
    // SAFETY: the vectors lie within `bytes`.
    assert_eq!(check(unsafe { libc::writev(file.as_raw_fd(), vectors(&bytes).as_ptr(), 2) })?, BYTES);
    Ok(())
}

fn pwritev2(name: &str) -> Result<()> {
    let (file, bytes) = (create(name)?, vec![7; BYTES]);
    // SAFETY: the vectors lie within `bytes`. The flag is what libc's `pwritev2` takes another system call without.
    let written =
        unsafe { libc::pwritev2(file.as_raw_fd(), vectors(&bytes).as_ptr(), 2, 0, libc::RWF_DSYNC) };
    assert_eq!(check(written)?, BYTES);
    Ok(())
}

fn mapped(name: &str, sync: bool) -> Result<()> {
    let file = create(name)?;
    file.set_len(BYTES as u64)?;
    let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
    // SAFETY: a new mapping, of a file that is long enough, used and removed below.
    unsafe {
        let map = libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED, fd, 0);
        assert_ne!(map, libc::MAP_FAILED, "{}", Error::last_os_error());
        for page in 0..PAGES as usize {
            map.cast::<u8>().add(4096 * page).write_volatile(1);
        }
        if sync {
            check(libc::msync(map, BYTES, libc::MS_SYNC) as isize)?;
        }
        check(libc::munmap(map, BYTES) as isize)?;
    }
    Ok(())
}

fn sendfile(name: &str) -> Result<()> {
    let (from, to) = (source()?, create(name)?);
    let mut at = 0;
    // SAFETY: open descriptors and an offset that outlives the call.
    all(|left| unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), &raw mut at, left) })
}

fn splice(name: &str) -> Result<()> {
    let (from, to) = (source()?, create(name)?);
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    check(unsafe { libc::pipe(pipe.as_mut_ptr()) } as isize)?;
    let (mut at, null) = (0, std::ptr::null_mut());
    all(|left| {
        // SAFETY: open descriptors and an offset that outlives the call.
        let filled =
            unsafe { libc::splice(from.as_raw_fd(), &raw mut at, pipe[1], null, left.min(65536), 0) };
        let Ok(filled) = usize::try_from(filled) else { return filled };
        let mut through = 0;
        while through < filled {
            // SAFETY: open descriptors.
            match unsafe { libc::splice(pipe[0], null, to.as_raw_fd(), null, filled - through, 0) } {
                done if done > 0 => through += done as usize,
                failed => return failed,
            }
        }
        filled as isize
    })
}

fn copy_file_range(name: &str) -> Result<()> {
    let from = create("copy_source")?;
    from.write_all_at(&vec![7; BYTES], 0)?;
    from.sync_all()?;
    let to = create(name)?;
    let (mut from_at, mut to_at) = (0, 0);
    // SAFETY: open descriptors and offsets that outlive the call.
    all(|left| unsafe {
        libc::copy_file_range(from.as_raw_fd(), &raw mut from_at, to.as_raw_fd(), &raw mut to_at, left, 0)
    })
}

fn truncate(name: &str) -> Result<()> {
    let mut file = create(name)?;
    file.write_all(&[7; 8192])?;
    file.sync_all()?;
    file.set_len(100)
}

fn zero_range(name: &str) -> Result<()> {
    let mut file = create(name)?;
    file.write_all(&[7; 8 * 4096])?;
    file.sync_all()?;
    // SAFETY: an open descriptor.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_ZERO_RANGE, 100, 6 * 4096) };
    check(done as isize).map(drop)
}

fn fallocate(name: &str) -> Result<()> {
    let file = create(name)?;
    // SAFETY: an open descriptor.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, BYTES as i64) } as isize).map(drop)
}

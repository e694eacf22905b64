//! Write hints of programs: what is set on a file is on the events of its pages, and a refused hint is none.
//!
//! This program is its own writer: started with `--hint`, it writes files in the working directory.

mod common;
#[path = "common/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::ExitCode;

use pcstream_capture::doctor::Verdict;
use pcstream_capture::session::{Session, SessionMemory, SessionOptions};
use pcstream_fs::scratch::FsKind;
use pcstream_trace::Life;
use recording::{Recording, bpf, fs_need, record};

const HINT: &str = "--hint";
/// Of fcntl(2): sets the hint of a file, from 8 bytes at an address.
const F_SET_RW_HINT: i32 = 1036;
const PAGES: usize = 64;
const PAGE: usize = 4096;
/// Passed in 4 bytes, with others behind them, as C does with an `enum`.
const REFUSED: &str = "refused";

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|flag| flag == HINT) {
        write_hinted_files().expect("it can be written");
        return ExitCode::SUCCESS;
    }
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs = [fs_need(fs), common::zram, bpf, common::requests_with_hints];
        tests.push(common::test(format!("write_hints_are_recorded_on_{fs}"), &needs, move || hints(fs)));
    }
    let needs = [common::ext4, common::zram, bpf, kernel_that_shows_refused_hints];
    tests.push(common::test("refused_write_hints_are_counted", &needs, refused));
    tests.push(common::test("doctor_says_whether_refused_hints_are_seen", &[bpf], doctor));
    common::run(tests)
}

/// Where they are not seen, a count of 0 says nothing.
fn doctor() {
    let checks = pcstream_capture::doctor::examine();
    let check = checks.iter().find(|check| check.name == "kernel functions").expect("it looks at them");
    match kernel_that_shows_refused_hints() {
        None => assert_eq!(check.verdict, Verdict::Good),
        Some(_) => {
            assert!(check.verdict == Verdict::Limited && check.found.contains("do_fcntl"), "{check:?}")
        }
    }
}

/// Some kernels do not let their functions be watched.
fn kernel_that_shows_refused_hints() -> Option<String> {
    let mut memory = SessionMemory::uninit();
    let session = Session::open(&SessionOptions::default(), &mut memory).ok()?;
    session.hints_unavailable().map(|why| format!("a kernel whose fcntl can be watched: {why}"))
}

/// A buffered and a direct file for each hint, and one whose hint the kernel refuses.
fn write_hinted_files() -> Result<()> {
    for life in Life::ALL {
        for (name, flags) in [("buffered", 0), ("direct", libc::O_DIRECT)] {
            let file = create(&format!("{name}-{}", life.name()), flags)?;
            set_hint(&file, life as u64)?;
            write_pages(&file)?;
        }
    }
    let file = create(REFUSED, 0)?;
    let error = set_hint(&file, 0xdead_0000_0002).expect_err("no hint has this value");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    write_pages(&file)
}

fn create(name: &str, flags: i32) -> Result<File> {
    OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(name)
}

fn set_hint(file: &File, hint: u64) -> Result<()> {
    // SAFETY: the kernel reads 8 bytes at the address.
    match unsafe { libc::fcntl(file.as_raw_fd(), F_SET_RW_HINT, &raw const hint) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

fn write_pages(file: &File) -> Result<()> {
    #[repr(align(4096))]
    struct Aligned([u8; PAGE * PAGES]);
    let pages = Box::new(Aligned([7; PAGE * PAGES]));
    file.write_all_at(&pages.0, 0)?;
    file.sync_all()
}

/// Data pages by file and hint.
fn by_hint(recording: &Recording) -> BTreeMap<(&str, &str), u64> {
    let mut pages = BTreeMap::new();
    for event in recording.data_writes() {
        let path = recording.path(event).trim_start_matches('/');
        *pages.entry((path, event.hint.life.name())).or_default() += u64::from(event.pages);
    }
    pages
}

fn hints(fs: FsKind) {
    let program = std::env::current_exe().expect("it has a path");
    let recording = record(fs, &format!("'{}' {HINT}", program.display()));
    let found = by_hint(&recording);
    let mut expected = BTreeMap::new();
    let names: Vec<_> = Life::ALL
        .iter()
        .flat_map(|life| ["buffered", "direct"].map(|how| (format!("{how}-{}", life.name()), life.name())))
        .collect();
    for (file, hint) in &names {
        expected.insert((file.as_str(), *hint), PAGES as u64);
    }
    expected.insert((REFUSED, "not_set"), PAGES as u64);
    assert_eq!(found, expected);
    assert!(recording.events.iter().all(|event| event.hint.stream == 0), "nobody named a write stream");
}

fn refused() {
    let program = std::env::current_exe().expect("it has a path");
    let recording = record(FsKind::Ext4, &format!("'{}' {HINT}", program.display()));
    let finished = recording.finished();
    assert_eq!(finished.statistics["write_hints_refused"], 1);
    assert!(finished.notes.iter().any(|note| note.contains("refused 1 write hint ")), "{:?}", finished.notes);
}

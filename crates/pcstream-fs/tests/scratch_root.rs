//! Scratch file systems on the real kernel: made, used, removed; busy, killed, in use.
//!
//! Every test looks afterwards for what it may have left: its own mounts, loop and zram devices, files.
//! Run directories lie in a temporary directory, so that other runs on the machine are neither seen nor touched.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
mod helpers;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use pcstream_fs::extents::{self, Owner};
use pcstream_fs::layout::{Layout, MetadataHint};
use pcstream_fs::scratch::{
    ExistingFs, Found, FsKind, Image, Journal, Left, Resource, Scratch, ScratchError, ScratchOptions,
    clean_stale, find_stale,
};
use pcstream_trace::event::Kind;
use pcstream_trace::ids::Lba;

use common::PATIENCE;
use helpers::{Guarded, Known, attach, detach};

const SIZE: u64 = 512 << 20;
const FILL: f64 = 0.6;
const OWNER: (u32, u32) = (1234, 5678);
/// First argument that turns this program into the one that crashes.
const CRASH_CHILD: &str = "--crash-child";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, root, fs, image] = &arguments[..]
        && flag == CRASH_CHILD
    {
        return crash_child(Path::new(root), fs, image);
    }
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        for image in ["zram", "tmpfs", "file"] {
            let needs = [fs_need(fs), image_need(image)];
            tests.push(common::test(
                format!("scratch_{fs}_{image}_is_made_used_and_removed"),
                &needs,
                move || {
                    made_used_removed(fs, image);
                },
            ));
            tests.push(common::test(format!("scratch_{fs}_{image}_busy"), &needs, move || busy(fs, image)));
            tests.push(common::test(format!("scratch_{fs}_{image}_killed"), &needs, move || {
                killed(fs, image)
            }));
        }
        let needs = [fs_need(fs), common::loop_devices];
        tests.push(common::test(format!("layout_{fs}_knows_metadata_from_data"), &needs, move || layout(fs)));
        tests.push(common::test(format!("fragmented_file_{fs}_has_all_its_extents"), &needs, move || {
            fragmented(fs);
        }));
    }
    let needs = [common::xfs as common::Need, common::loop_devices];
    tests.push(common::test("layout_xfs_is_that_of_now_after_it_has_grown", &needs, grown));
    let needs = [common::ext4 as common::Need, common::loop_devices];
    tests.push(common::test("image_in_use_is_refused", &needs, image_in_use));
    tests.push(common::test("image_is_reused_and_kept", &needs, image_reused));
    tests.push(common::test("what_others_use_by_now_is_not_cleaned", &needs, taken_over));
    tests.push(common::test("zram_of_others_is_not_cleaned", &[common::ext4, common::zram], zram_of_others));
    tests.push(common::test("journals_are_as_asked_for", &needs, journals));
    tests.push(common::test("failed_fill_leaves_nothing", &needs, failed_fill));
    tests.push(common::test("dropped_scratch_is_removed", &needs, dropped));
    tests.push(common::test("unmount_then_remove", &needs, unmount_then_remove));
    common::run(tests)
}

fn fs_need(fs: FsKind) -> common::Need {
    match fs {
        FsKind::Ext4 => common::ext4,
        _ => common::xfs,
    }
}

fn image_need(image: &str) -> common::Need {
    if image == "zram" { common::zram } else { common::loop_devices }
}

/// A place of its own for one test, which checks at the end that nothing is left.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    fn run_root(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn options(&self, fs: FsKind, image: &str) -> ScratchOptions {
        let image = match image {
            "file" => Image::File(self.dir.path().join("image")),
            name => Image::from(name),
        };
        ScratchOptions {
            fs,
            journal: Journal::default(),
            size_bytes: SIZE,
            fill: FILL,
            image,
            keep: false,
            owner: OWNER,
            run_root: self.run_root(),
            grace: PATIENCE,
        }
    }

    /// Mounts and loop devices below this place.
    fn traces(&self) -> Vec<String> {
        let here = self.dir.path().to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut found: Vec<String> = mounts.lines().filter(|l| l.contains(here)).map(Into::into).collect();
        for entry in fs::read_dir("/sys/block").unwrap().flatten() {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            if backing.contains(here) {
                found.push(format!("{} over {backing}", entry.path().display()));
            }
        }
        found
    }

    fn assert_nothing_left(&self, device: &Known) {
        assert_eq!(self.traces(), Vec::<String>::new());
        let left: Vec<_> = fs::read_dir(self.run_root()).unwrap().flatten().map(|e| e.path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "run directories");
        if device.path.to_str().unwrap().contains("zram") {
            assert!(!device.is_there(), "{} is still there", device.path.display());
        }
    }
}

fn made_used_removed(fs: FsKind, image: &str) {
    let place = Place::new();
    let options = place.options(fs, image);
    let scratch = Scratch::create(&options).unwrap();
    let device = scratch.device().clone();
    assert_eq!(device.bytes, SIZE);
    let known = Known::of(&device.path);

    let existing = ExistingFs::of(scratch.mount_point()).unwrap();
    assert_eq!((existing.fs, &existing.device), (fs, &device));
    let root = fs::metadata(scratch.mount_point()).unwrap();
    assert_eq!((root.uid(), root.gid()), OWNER);

    let filled = scratch.filled();
    assert!((filled.fraction - FILL).abs() < 0.01, "{filled:?}");
    let layout = Layout::of_mounted(scratch.mount_point(), fs).unwrap();
    let allocated: u64 = layout.allocated().iter().map(|r| r.pages).sum();
    let share = allocated as f64 * 4096.0 / SIZE as f64;
    assert!((share - FILL).abs() < 0.01, "{share} of the device is allocated");

    write_and_find(&scratch);

    let removal = scratch.remove().unwrap();
    assert_eq!(removal.users, []);
    assert!(matches!(removal.removed.first(), Some(Resource::Mount(_))), "{removal:?}");
    assert!(matches!(removal.removed.last(), Some(Resource::RunDir(_))), "{removal:?}");
    place.assert_nothing_left(&known);
    assert!(!place.dir.path().join("image").exists(), "a file that was made is removed");
}

/// Writes a file and reads it back from the device, at the pages that FIEMAP gives.
fn write_and_find(scratch: &Scratch) {
    let path = scratch.mount_point().join("file");
    let mut file = File::create(&path).unwrap();
    let contents: Vec<u8> = (0..1_000_000u32).flat_map(|i| i.to_le_bytes()).collect();
    file.write_all(&contents).unwrap();
    let map = extents::fiemap(&file).unwrap();
    assert_eq!(map.skipped, []);
    assert_eq!(map.pages(), contents.len().div_ceil(4096) as u64);
    file.sync_all().unwrap();
    let device = File::open(&scratch.device().path).unwrap();
    for extent in &map.extents {
        let mut page = [0; 4096];
        device.read_exact_at(&mut page, extent.physical_page * 4096).unwrap();
        let at = extent.logical_page as usize * 4096;
        let expected = &contents[at..contents.len().min(at + 4096)];
        assert_eq!(&page[..expected.len()], expected, "{extent:?}");
    }
    let root = File::open(scratch.mount_point()).unwrap();
    let ranges = extents::getfsmap(&root, scratch.device().number, SIZE / 4096).unwrap();
    let covered: u64 = ranges.iter().map(|r| r.pages).sum();
    assert_eq!(covered, SIZE / 4096, "every page has an owner");
    for extent in &map.extents {
        let owner =
            ranges.iter().find(|r| (r.start_page..r.start_page + r.pages).contains(&extent.physical_page));
        assert!(matches!(owner.unwrap().owner, Owner::Unknown | Owner::Inode(_)), "{owner:?}");
    }
}

/// A process whose working directory and open file are on the mount.
fn user_of(dir: &Path) -> Guarded {
    // Standard error is not the test's, or a leaked process would keep the test's reader waiting.
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "exec 9>held; echo ready; exec sleep 1000000"])
        .current_dir(dir)
        .stderr(Stdio::null());
    Guarded::spawn(&mut command).0
}

fn busy(fs: FsKind, image: &str) {
    let place = Place::new();
    // It stays busy, so there is nothing to wait for.
    let grace = Duration::from_millis(300);
    let scratch = Scratch::create(&ScratchOptions { grace, ..place.options(fs, image) }).unwrap();
    let device = Known::of(&scratch.device().path);
    let mut child = user_of(scratch.mount_point());
    assert_eq!(scratch.users().iter().map(|u| u.pid).collect::<Vec<_>>(), [child.id()]);

    let error = scratch.remove().unwrap_err();
    let ScratchError::NotRemoved { left, users } = &error else { panic!("{error}") };
    assert!(!left.is_empty());
    let user = users.iter().find(|u| u.pid == child.id()).expect("the process is named");
    assert!(user.how.contains(&"cwd".into()) && user.how.contains(&"fd 9".into()), "{user}");
    let text = error.to_string();
    assert!(text.contains("sleep") && text.contains("pcstream doctor --clean"), "{text}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let still = mounts.lines().any(|l| l.contains(place.run_root().to_str().unwrap()) && l.contains("/mnt "));
    assert!(!still, "detached from the name space");

    // While it is busy, a cleaner says so and takes nothing away from the process.
    let report = clean_stale(&place.run_root()).unwrap();
    assert!(report.left().count() > 0, "{report:?}");
    assert!(child.0.try_wait().unwrap().is_none());

    child.kill();
    clean_all(&place.run_root());
    place.assert_nothing_left(&device);
}

/// Cleans up as often as it takes on a busy machine, where a device may be looked at by others for a while.
fn clean_all(root: &Path) -> Vec<Resource> {
    let (began, mut removed) = (Instant::now(), Vec::new());
    loop {
        let report = clean_stale(root).unwrap();
        removed.extend(report.removed().cloned());
        if report.left().count() == 0 {
            return removed;
        }
        assert!(began.elapsed() < PATIENCE, "{report:?}");
    }
}

/// Makes a scratch file system, says where, and is killed without a chance to remove anything.
fn crash_child(root: &Path, fs: &str, image: &str) -> ExitCode {
    let image = Image::from(image);
    let options = ScratchOptions {
        fs: FsKind::from_name(fs).expect("the test names one"),
        size_bytes: SIZE,
        fill: FILL,
        image,
        run_root: root.into(),
        ..Default::default()
    };
    let scratch = Scratch::create(&options).unwrap();
    println!("{}", scratch.device().path.display());
    std::mem::forget(scratch);
    std::thread::sleep(Duration::from_secs(1_000_000));
    ExitCode::SUCCESS
}

/// The child, and its device.
fn crashing(root: &Path, fs: FsKind, image: &str) -> (Guarded, Known) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CRASH_CHILD, root.to_str().unwrap(), fs.name(), image]);
    let (child, device) = Guarded::spawn(&mut command);
    (child, Known::of(device))
}

fn killed(fs: FsKind, image: &str) {
    let place = Place::new();
    let path = place.dir.path().join("image");
    let image = if image == "file" { path.to_str().unwrap() } else { image };
    let (mut child, device) = crashing(&place.run_root(), fs, image);

    let report = clean_stale(&place.run_root()).unwrap();
    assert_eq!((report.cleaned.len(), report.alive.len()), (0, 1), "its owner lives");
    assert_eq!(find_stale(&place.run_root()).unwrap(), Found::default());

    child.kill();
    assert!(!place.traces().is_empty(), "the crash left something");
    let stale = find_stale(&place.run_root()).unwrap().stale;
    assert_eq!(stale.iter().map(|s| s.pid).collect::<Vec<_>>(), [child.id()]);
    let removed = clean_all(&place.run_root());
    assert!(removed.iter().any(|r| matches!(r, Resource::Mount(_))), "{removed:?}");
    place.assert_nothing_left(&device);
    assert!(!path.exists());
}

/// Changes what the only run below a root has recorded.
fn edit_state(root: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let run = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let mut state = serde_json::from_slice(&fs::read(run.join("state.json")).unwrap()).unwrap();
    change(&mut state);
    fs::write(run.join("state.json"), state.to_string()).unwrap();
}

/// The image of a killed run, unmounted, is attached by somebody else under the number of the run's loop device, and then used by
/// another run.
fn taken_over() {
    let place = Place::new();
    let (image, root) = (place.dir.path().join("image"), place.dir.path().join("killed"));
    let (mut child, _) = crashing(&root, FsKind::Ext4, image.to_str().unwrap());
    child.kill();
    let run = fs::read_dir(&root).unwrap().next().unwrap().unwrap().path();
    assert!(Command::new("umount").arg(run.join("mnt")).status().unwrap().success());
    let began = Instant::now();
    while !place.traces().is_empty() {
        assert!(began.elapsed() < PATIENCE, "{:?}", place.traces());
    }
    let node = attach(&image);
    let number: u64 = node.trim_start_matches("/dev/loop").parse().unwrap();
    edit_state(&root, |state| state["loop_device"]["number"] = number.into());
    let report = clean_stale(&root).unwrap();
    let traces = place.traces();
    detach(&node);
    assert_eq!(traces.len(), 1, "{traces:?}");
    let left: Vec<_> = report.left().collect();
    assert!(matches!(&left[..], [Left { resource: Resource::Image(_), reason }] if reason.contains(&node)));

    let scratch = Scratch::create(&place.options(FsKind::Ext4, "file")).unwrap();
    let report = clean_stale(&root).unwrap();
    assert_eq!((report.left().count(), image.exists()), (1, true), "{report:?}");
    write_and_find(&scratch);
    scratch.remove().unwrap();
    assert_eq!(clean_stale(&root).unwrap().left().count(), 0);
    assert!(image.exists(), "another run has taken it for one that was there");
}

fn zram_of_others() {
    let place = Place::new();
    let (mut child, device) = crashing(&place.run_root(), FsKind::Ext4, "zram");
    child.kill();
    edit_state(&place.run_root(), |state| state["zram"]["sequence"] = 1.into());
    let removed = clean_all(&place.run_root());
    assert!(device.is_there() && removed.iter().all(|r| !matches!(r, Resource::Zram(_))), "{removed:?}");
    let name = device.path.file_name().unwrap().to_str().unwrap();
    fs::write(format!("/sys/block/{name}/reset"), "1").unwrap();
    fs::write("/sys/class/zram-control/hot_remove", name.trim_start_matches("zram")).unwrap();
    place.assert_nothing_left(&device);
}

/// Every block of a directory, found by FIEMAP or by its bytes, is distinguished from data, and the static ranges hold
/// what they say: checked against the bytes on the device.
fn layout(fs: FsKind) {
    let place = Place::new();
    let mut scratch = Scratch::create(&place.options(fs, "tmpfs")).unwrap();
    let directory = scratch.mount_point().join("directory");
    fs::create_dir(&directory).unwrap();
    for i in 0..3000 {
        File::create(directory.join(format!("a-file-with-a-rather-long-name-{i:06}"))).unwrap();
    }
    let layout = Layout::of_mounted(scratch.mount_point(), fs).unwrap();
    assert_eq!(layout.static_kind(Lba(0)), Some(Kind::OtherMetadata), "the superblock");
    let kinds: BTreeSet<Kind> = layout.static_ranges().iter().map(|r| r.kind).collect();
    let expected: &[Kind] = match fs {
        FsKind::Ext4 => &[Kind::Journal, Kind::Inode, Kind::Bitmap, Kind::OtherMetadata],
        _ => &[Kind::Journal, Kind::Bitmap, Kind::OtherMetadata],
    };
    assert_eq!(kinds, expected.iter().copied().collect());
    for range in layout.static_ranges() {
        let inside = layout
            .allocated()
            .iter()
            .any(|a| a.start <= range.start && range.start.0 + range.pages <= a.start.0 + a.pages);
        assert!(inside, "{range:?} is allocated");
    }
    assert_eq!(scratch.unmount().unwrap(), []);

    // The image outlives the loop device: look at it directly.
    let image =
        fs::read_dir(place.run_root()).unwrap().flatten().next().unwrap().path().join("backing/image");
    let image = File::open(image).unwrap();
    let page_at = |lba: u64| {
        let mut page = [0; 4096];
        image.read_exact_at(&mut page, lba * 4096).unwrap();
        page
    };
    // The places themselves: jbd2's and the XFS log's magic numbers, an AGF behind its superblock.
    let journal = layout.static_ranges().iter().find(|r| r.kind == Kind::Journal).unwrap();
    let magic: [u8; 4] = match fs {
        FsKind::Ext4 => [0xC0, 0x3B, 0x39, 0x98],
        _ => [0xFE, 0xED, 0xBA, 0xBE],
    };
    assert_eq!(page_at(journal.start.0)[..4], magic);
    if fs == FsKind::Xfs {
        assert_eq!((&page_at(1)[..4], layout.static_kind(Lba(1))), (&b"XAGF"[..], Some(Kind::Bitmap)));
    }
    let (mut directories, mut inodes) = (0, 0);
    for range in layout.allocated() {
        for lba in range.start.0..range.start.0 + range.pages {
            let page = page_at(lba);
            if page == [0; 4096] {
                continue; // Never written; most of the fill.
            }
            let is_directory = page.windows(31).any(|w| w == b"a-file-with-a-rather-long-name-");
            let head = page[..16].try_into().unwrap();
            let tail = page[4084..].try_into().unwrap();
            let kind = layout.classify(Lba(lba), MetadataHint::Block { head, tail });
            if is_directory && kind != Kind::Journal {
                assert_eq!(kind, Kind::Directory, "page {lba}");
            }
            directories += u32::from(kind == Kind::Directory);
            inodes += u32::from(kind == Kind::Inode);
        }
    }
    // 3000 entries of 48 bytes and more take 36 blocks; 3000 inodes of 256 (ext4) or 512 bytes (XFS) 188 or 375.
    assert!(directories >= 36, "{directories} directory blocks");
    assert!(inodes >= 188, "{inodes} inode blocks");
    drop(image);
    let device = Known::of(&scratch.device().path);
    scratch.remove().unwrap();
    place.assert_nothing_left(&device);
}

/// A superblock that was read before XFS grew says the old size.
fn grown() {
    let place = Place::new();
    let scratch = Scratch::create(&place.options(FsKind::Xfs, "file")).unwrap();
    let read = || Layout::of_mounted(scratch.mount_point(), FsKind::Xfs).unwrap();
    let end = |layout: &Layout| layout.allocated().last().map(|last| last.start.0 + last.pages).unwrap();
    // It stays in the page cache as long as it is open.
    let reader = File::open(&scratch.device().path).unwrap();
    assert!(end(&read()) <= SIZE / 4096);
    File::options().write(true).open(place.dir.path().join("image")).unwrap().set_len(2 * SIZE).unwrap();
    let node = scratch.device().path.to_str().unwrap();
    let mount = scratch.mount_point().to_str().unwrap();
    for words in [&["losetup", "--set-capacity", node][..], &["xfs_growfs", mount]] {
        let done = Command::new(words[0]).args(&words[1..]).stdout(Stdio::null()).status().unwrap();
        assert!(done.success(), "{words:?}");
    }
    let layout = read();
    let is_new = |lba: u64| lba >= SIZE / 4096;
    assert!(is_new(end(&layout)), "the headers of new groups are allocated: {:?}", layout.allocated());
    assert!(layout.static_ranges().iter().any(|range| is_new(range.start.0) && range.kind == Kind::Bitmap));
    drop(reader);
    scratch.remove().unwrap();
}

/// More extents than one call of FIEMAP returns, and a map of the file system to match.
fn fragmented(fs: FsKind) {
    const EXTENTS: u64 = 3000;
    let place = Place::new();
    let scratch = Scratch::create(&place.options(fs, "tmpfs")).unwrap();
    let file = File::create(scratch.mount_point().join("holes")).unwrap();
    // XFS allocates ahead of writes at the end of a file, but not within it.
    file.set_len(EXTENTS * 2 * 4096).unwrap();
    for i in 0..EXTENTS {
        file.write_all_at(&i.to_le_bytes(), i * 2 * 4096).unwrap();
    }
    let map = extents::fiemap(&file).unwrap();
    assert_eq!(map.skipped, []);
    assert_eq!(map.extents.len() as u64, EXTENTS);
    assert!(map.extents.iter().zip(0..).all(|(e, i)| e.logical_page == i * 2 && e.pages == 1));
    let pages: BTreeSet<u64> = map.extents.iter().map(|e| e.physical_page).collect();
    assert_eq!(pages.len() as u64, EXTENTS, "no page twice");

    // Free every second page by address: thousands of ranges in the map of the file system.
    let mut by_address = map.extents.clone();
    by_address.sort_by_key(|e| e.physical_page);
    for extent in by_address.iter().step_by(2) {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, extent.logical_page * 4096, 4096).unwrap();
    }
    let kept: BTreeSet<u64> =
        extents::fiemap(&file).unwrap().extents.iter().map(|e| e.physical_page).collect();
    assert_eq!(kept, by_address.iter().skip(1).step_by(2).map(|e| e.physical_page).collect());
    let layout = Layout::of_mounted(scratch.mount_point(), fs).unwrap();
    assert!(layout.allocated().len() > 1024, "{} ranges", layout.allocated().len());
    let allocated =
        |lba: u64| layout.allocated().iter().any(|r| (r.start.0..r.start.0 + r.pages).contains(&lba));
    assert!(kept.iter().all(|&page| allocated(page)));
    // The file system may have taken some of the freed pages for its own trees.
    let taken = pages.iter().filter(|page| !kept.contains(page) && allocated(**page)).count();
    assert!(taken < 32, "{taken} freed pages are still in use");
    drop(file);
    scratch.remove().unwrap();
}

fn image_in_use() {
    let place = Place::new();
    let options = place.options(FsKind::Ext4, "file");
    let scratch = Scratch::create(&options).unwrap();
    let error = Scratch::create(&options).unwrap_err();
    assert!(matches!(error, ScratchError::ImageInUse { .. }), "{error}");
    assert!(error.to_string().contains("/dev/loop"), "{error}");
    let runs = fs::read_dir(place.run_root()).unwrap().count();
    assert_eq!(runs, 1, "the refused run left no directory");
    scratch.remove().unwrap();

    // Attached by somebody else, who does not lock it.
    let image = place.dir.path().join("image");
    File::create(&image).unwrap().set_len(SIZE).unwrap();
    let node = attach(&image);
    let error = Scratch::create(&options).unwrap_err();
    detach(&node);
    assert!(error.to_string().contains(&node), "{error}");
    assert!(image.exists(), "a refused image is not touched");
}

fn image_reused() {
    let place = Place::new();
    let options = place.options(FsKind::Ext4, "file");
    let image = place.dir.path().join("image");
    File::create(&image).unwrap();
    for fs in [FsKind::Ext4, FsKind::Ext4] {
        let scratch = Scratch::create(&ScratchOptions { fs, ..options.clone() }).unwrap();
        let device = Known::of(&scratch.device().path);
        scratch.remove().unwrap();
        place.assert_nothing_left(&device);
        assert_eq!(fs::metadata(&image).unwrap().len(), SIZE, "an image that was there stays");
    }
    std::os::unix::fs::chown(&image, Some(65534), None).unwrap();
    let error = Scratch::create(&options).unwrap_err();
    assert!(matches!(error, ScratchError::ImageOfOthers { .. }), "{error}");
    std::os::unix::fs::chown(&image, Some(0), None).unwrap();
    fs::write(&image, "precious").unwrap();
    let error = Scratch::create(&options).unwrap_err();
    assert!(matches!(error, ScratchError::ImageForeign { .. }), "{error}");
    assert_eq!(fs::read(&image).unwrap(), b"precious");
}

fn journals() {
    for (journal, there, data) in
        [(Journal::Metadata, true, false), (Journal::Off, false, false), (Journal::Data, true, true)]
    {
        let place = Place::new();
        let options = ScratchOptions { journal, ..place.options(FsKind::Ext4, "file") };
        let scratch = Scratch::create(&options).unwrap();
        let layout = Layout::of_mounted(scratch.mount_point(), FsKind::Ext4).unwrap();
        let found = layout.static_ranges().iter().any(|range| range.kind == Kind::Journal);
        assert_eq!(found, there, "{journal:?}");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let point = scratch.mount_point().to_str().unwrap();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(point)).unwrap();
        assert_eq!(line.contains("data=journal"), data, "{line}");
        write_and_find(&scratch);
        scratch.remove().unwrap();
    }
}

/// An error halfway, with everything already mounted.
fn failed_fill() {
    let place = Place::new();
    let options = ScratchOptions { fill: 0.9999, ..place.options(FsKind::Ext4, "file") };
    let error = Scratch::create(&options).unwrap_err();
    assert!(matches!(error, ScratchError::FillFull { .. }), "{error}");
    place.assert_nothing_left(&Known::of("/dev/loop"));
    assert!(!place.dir.path().join("image").exists());
}

fn dropped() {
    let place = Place::new();
    let scratch = Scratch::create(&place.options(FsKind::Ext4, "tmpfs")).unwrap();
    let device = Known::of(&scratch.device().path);
    drop(scratch);
    place.assert_nothing_left(&device);
}

fn unmount_then_remove() {
    let place = Place::new();
    let mut scratch = Scratch::create(&place.options(FsKind::Ext4, "tmpfs")).unwrap();
    fs::write(scratch.mount_point().join("file"), "x").unwrap();
    assert_eq!(scratch.unmount().unwrap(), []);
    assert!(!scratch.mount_point().join("file").exists());
    assert_eq!(scratch.unmount().unwrap(), [], "once more changes nothing");
    let device = Known::of(&scratch.device().path);
    scratch.remove().unwrap();
    place.assert_nothing_left(&device);
}

//! The emulated device on the real kernel: file systems on it, power cuts, and the end of its server.
//!
//! Every test works in a directory of its own and looks afterwards for mounts that it may have left.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use pcstream_emulator::mount::{MountedDevice, clean_stale, find_stale};
use pcstream_emulator::process::{self, Assigned, Beginning, DeviceProcess};
use pcstream_emulator::{DeviceOptions, EmulatedDevice, Loss, PAGE, PowerCut};
use pcstream_fs::scratch::{FsKind, Image, Scratch, ScratchOptions};
use pcstream_ssd::{DeviceSettings, LogicalPage, StreamId};

const SIZE: u64 = 512 << 20;
/// First argument that turns this program into a server that is killed.
const SERVE: &str = "--serve";
/// The same for a server that takes requests.
const REQUESTS: &str = "--serve-requests";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, root] = &arguments[..]
        && flag == SERVE
    {
        return serve(Path::new(root));
    }
    if arguments.get(1).is_some_and(|flag| flag == REQUESTS) {
        return match process::serve(BufReader::new(std::io::stdin()), std::io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs =
            [if fs == FsKind::Ext4 { common::ext4 } else { common::xfs }, common::loop_devices, common::fuse];
        tests.push(common::test(format!("device_{fs}_keeps_its_files"), &needs, move || keeps_files(fs)));
        tests.push(common::test(format!("device_{fs}_survives_power_cuts"), &needs, move || power_cuts(fs)));
        tests.push(common::test(format!("device_{fs}_survives_its_server"), &needs, move || killed(fs)));
        tests.push(common::test(format!("device_{fs}_in_a_process"), &needs, move || in_a_process(fs)));
    }
    tests.push(common::test("device_that_is_dropped_ends_for_who_uses_it", &[common::fuse], dropped));
    common::run(tests)
}

fn settings() -> DeviceSettings {
    DeviceSettings {
        logical_pages: SIZE / PAGE as u64,
        superblock_pages: 256,
        streams: 4,
        ..DeviceSettings::default()
    }
}

fn device() -> EmulatedDevice {
    let options = DeviceOptions { settings: settings(), buffer_pages: 1024, expects_streams: false };
    EmulatedDevice::new(&options).expect("legal settings")
}

/// All pages of the device.
fn whole() -> Vec<(LogicalPage, u64)> {
    vec![(LogicalPage(0), SIZE / PAGE as u64)]
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("emulator")
    }

    /// A device in a process of its own: this one waits for its file systems, and would wait for itself.
    fn device(&self) -> DeviceProcess {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg(REQUESTS);
        DeviceProcess::start(command, &settings(), 16384, &self.root()).expect("it starts")
    }

    fn scratch(&self, fs: FsKind, file: &Path) -> Scratch {
        Scratch::create(&ScratchOptions {
            fs,
            size_bytes: SIZE,
            fill: 0.0,
            image: Image::File(file.to_owned()),
            run_root: self.dir.path().join("scratch"),
            ..ScratchOptions::default()
        })
        .expect("a scratch file system on the emulated device")
    }

    fn assert_nothing_mounted(&self) {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("it can be read");
        let ours = self.dir.path().to_str().expect("UTF-8");
        assert!(!mounts.contains(ours), "{mounts}");
    }
}

/// A test that fails leaves nothing either.
impl Drop for Place {
    fn drop(&mut self) {
        let _ = clean_stale(&self.root());
    }
}

/// The file system is sound, and needs no repair.
fn check(fs: FsKind, file: &Path) {
    let mut command = match fs {
        FsKind::Ext4 => Command::new("e2fsck"),
        _ => Command::new("xfs_repair"),
    };
    match fs {
        FsKind::Ext4 => command.arg("-fn"),
        _ => command.args(["-n", "-f"]),
    };
    let output = command.arg(file).output().expect("e2fsprogs and xfsprogs are installed");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{fs}: {}\n{out}\n{err}", output.status);
}

/// A mount that ends with the test.
struct Mount(PathBuf);

impl Mount {
    fn new(file: &Path, at: PathBuf) -> Mount {
        fs::create_dir_all(&at).expect("a mount point");
        let status =
            Command::new("mount").args(["-o", "loop"]).args([file, &at]).status().expect("mount runs");
        assert!(status.success(), "mount {}", file.display());
        Mount(at)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn contents(n: u32) -> Vec<u8> {
    (0u32..16 * 1024).flat_map(|i| (i.wrapping_mul(2_654_435_761) ^ n).to_le_bytes()).collect()
}

/// Overwrites files until garbage is collected, unmounts, and finds the last contents again.
fn keeps_files(fs: FsKind) {
    let place = Place::new();
    let device = place.device();
    let mut scratch = place.scratch(fs, device.file());
    let path = |n: u32| scratch.mount_point().join(format!("file{}", n % 600));
    let mut n = 0;
    while n < 1200 || device.status().expect("it lives").counters.erases < 500 {
        let mut file = File::create(path(n)).expect("it can be made");
        file.write_all(&contents(n)).expect("it can be written");
        if n % 8 == 0 {
            file.sync_all().expect("it can be synced");
        }
        n += 1;
    }
    assert_eq!(scratch.unmount().expect("it is not in use"), []);
    let status = device.status().expect("it lives");
    assert!(status.counters.discarded_pages > 0 && status.flushes > 0, "{status:?}");
    check(fs, device.file());
    let again = Mount::new(device.file(), place.dir.path().join("again"));
    for last in n - 600..n {
        let mut found = Vec::new();
        let file = File::open(again.0.join(format!("file{}", last % 600)));
        file.and_then(|mut file| file.read_to_end(&mut found)).expect("it can be read");
        assert!(found == contents(last), "file {last}");
    }
    drop(again);
    scratch.remove().expect("nothing uses it");
    device.end().expect("nothing uses it");
    place.assert_nothing_mounted();
}

/// What was synced before the power was cut is there afterwards, and the file system is sound.
fn power_cuts(fs: FsKind) {
    for (after_pages, loss) in
        [(300, Loss::All), (1500, Loss::Half(1)), (2011, Loss::Half(2)), (2500, Loss::Nothing)]
    {
        let place = Place::new();
        let device = place.device();
        let mut scratch = place.scratch(fs, device.file());
        rustix::fs::sync();
        let power_cut = Some(PowerCut { after_pages, loss });
        let beginning = Beginning { prefill: whole(), power_cut, ..Beginning::default() };
        device.begin(&beginning).expect("in range");
        let mut synced = Vec::new();
        for n in 0u32.. {
            let made = File::create(scratch.mount_point().join(format!("file{n}")));
            let result = made.and_then(|mut file| {
                file.write_all(&contents(n))?;
                file.sync_all()
            });
            if result.is_err() {
                break;
            }
            synced.push(n);
        }
        let status = device.status().expect("it lives");
        assert_eq!(status.power_cuts, 1, "{fs} {loss:?}: {status:?}");
        scratch.unmount().expect("an unmount needs no power");
        device.power_on().expect("it lives");
        // The journal or log is replayed.
        let again = Mount::new(device.file(), place.dir.path().join("again"));
        for &n in &synced {
            let found = fs::read(again.0.join(format!("file{n}"))).expect("a synced file is there");
            assert!(found == contents(n), "{fs} {loss:?}: file {n} of {}", synced.len());
        }
        drop(again);
        check(fs, device.file());
        scratch.remove().expect("nothing uses it");
        device.end().expect("nothing uses it");
        place.assert_nothing_mounted();
    }
}

fn serve(root: &Path) -> ExitCode {
    let mounted = MountedDevice::mount(std::process::id(), root, device()).expect("root may mount");
    println!("{}", mounted.file().display());
    // Until the parent is gone, or kills this.
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

/// Whoever still uses the file of a device that is dropped gets errors, and nobody waits for them.
fn dropped() {
    let place = Place::new();
    let mounted = MountedDevice::mount(std::process::id(), &place.root(), device()).expect("root may mount");
    let mut file = File::options().write(true).open(mounted.file()).expect("it is a file");
    file.write_all(&[7; PAGE]).and_then(|()| file.sync_all()).expect("it is served");
    drop(mounted);
    file.sync_all().expect_err("nobody serves it");
    place.assert_nothing_mounted();
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server is killed while the file system is written: errors, no hang; everything can be removed.
fn killed(fs: FsKind) {
    let place = Place::new();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([SERVE.as_ref(), place.root().as_os_str()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Server(command.spawn().expect("it starts"));
    let mut file = String::new();
    BufReader::new(server.0.stdout.take().expect("piped")).read_line(&mut file).expect("it says where");
    let scratch = place.scratch(fs, Path::new(file.trim_end()));
    let directory = scratch.mount_point().to_owned();
    assert_eq!(clean_stale(&place.root()).expect("it can be listed"), Default::default(), "it lives");
    let writer = std::thread::spawn(move || {
        for n in 0u32.. {
            let made = File::create(directory.join(format!("file{}", n % 100)));
            let result = made.and_then(|mut file| {
                file.write_all(&contents(n))?;
                file.sync_all()
            });
            if result.is_err() {
                return n;
            }
        }
        0
    });
    while !writer.is_finished() && !scratch.mount_point().join("file50").exists() {
        std::thread::yield_now();
    }
    server.0.kill().expect("it can be killed");
    assert!(writer.join().expect("it ends") >= 50, "writes fail once the server is gone, and not before");
    scratch.remove().expect("a file system without a device can be removed");
    assert_eq!(clean_stale(&place.root()).expect("it can be listed").removed.len(), 1);
    place.assert_nothing_mounted();
}

/// All memory of its process is locked, and none of its threads waits for writes to get some. In a container root may lack the
/// right to the second.
fn waits_for_no_memory(device: &DeviceProcess) {
    /// A thread's allocations start no writes (`PF_MEMALLOC_NOIO`).
    const NO_IO: u64 = 0x0008_0000;
    let may = rustix::thread::capabilities(None).expect("it knows its own");
    let may = may.effective.contains(rustix::thread::CapabilitySet::SYS_RESOURCE);
    match device.lacks() {
        None => assert!(may),
        Some(lack) => assert!(!may && lack.contains("CAP_SYS_RESOURCE"), "{lack}"),
    }
    let process = PathBuf::from(format!("/proc/{}", device.pid()));
    let status = fs::read_to_string(process.join("status")).expect("it lives");
    let kib_of = |key: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("each process has it");
        line.trim().strip_suffix(" kB").and_then(|kib| kib.parse().ok()).expect("a number")
    };
    assert!(kib_of("VmLck:") > SIZE >> 10 && kib_of("VmRSS:") > SIZE >> 10, "{status}");
    for thread in fs::read_dir(process.join("task")).expect("it lives").flatten() {
        let stat = fs::read_to_string(thread.path().join("stat")).expect("it lives");
        let (_, fields) = stat.rsplit_once(") ").expect("after the name");
        let flags: u64 = fields.split(' ').nth(6).and_then(|flags| flags.parse().ok()).expect("a number");
        assert_eq!(flags & NO_IO != 0, may, "{stat}");
    }
}

/// A device in a child: files, streams by address, an image, and its end with that of who started it.
fn in_a_process(fs: FsKind) {
    let place = Place::new();
    let image = place.dir.path().join("image");
    let device = place.device();
    assert_eq!(find_stale(&place.root()).expect("it can be listed"), Vec::<PathBuf>::new(), "it lives");
    waits_for_no_memory(&device);
    {
        let mut scratch = place.scratch(fs, device.file());
        let file = scratch.mount_point().join("file");
        fs::write(&file, contents(1)).expect("it can be written");
        assert_eq!(scratch.unmount().expect("it is not in use"), []);
        scratch.remove().expect("nothing uses it");
    }
    File::create(&image).expect("it can be made");
    device.save(&image).expect("it can be saved");
    let link = place.dir.path().join("link");
    symlink(&image, &link).expect("linked");
    let refused = device.save(&link).expect_err("it is not followed").to_string();
    assert!(refused.contains("is not a regular file"), "{refused}");
    let beginning = Beginning { prefill: whole(), expects_streams: true, ..Beginning::default() };
    device.begin(&beginning).expect("in range");
    // One request: what goes by the page cache may be cut where a page of the program's is not in memory.
    let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(device.file());
    let (mut raw, memory) = (direct.expect("it is a file"), vec![7; 9 * PAGE]);
    let at = memory.as_ptr().align_offset(PAGE);
    raw.write_all(&memory[at..at + 8 * PAGE]).expect("it can be written");
    raw.sync_all().expect("it can be synced");
    assert_eq!(device.status().expect("it lives").buffered_pages, 8);
    let part = |first, stream| Assigned { first: LogicalPage(first), pages: 4, stream: StreamId(stream) };
    device.assign(&[part(0, 3), part(4, 1)]).expect("it lives");
    let status = device.settle().expect("it lives");
    let streams: Vec<u64> = status.counters.streams.iter().map(|stream| stream.host_pages).collect();
    assert_eq!((streams, status.unassigned_pages), (vec![0, 4, 0, 4], 0));
    device.assign(&[part(0, 200)]).expect("it lives");
    device.status().expect("a look judges nothing");
    let refused = device.settle().expect_err("there is no such stream").to_string();
    assert!(refused.contains("S200"), "{refused}");
    drop(raw);
    device.end().expect("nothing uses it");

    let device = place.device();
    device.load(&image).expect("just saved");
    let again = Mount::new(device.file(), place.dir.path().join("again"));
    assert!(fs::read(again.0.join("file")).expect("it is there") == contents(1));
    drop(again);
    drop(device);
    assert_eq!(clean_stale(&place.root()).expect("it can be listed"), Default::default(), "it ended itself");
    place.assert_nothing_mounted();
}

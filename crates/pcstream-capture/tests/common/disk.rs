//! A file system of a test's own, on a loop device: made by name, removed by name, whatever happens.
// Each test binary compiles this module and uses its own part of it.
#![allow(dead_code)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A mounted file system. Unmounted, detached and deleted when dropped.
pub struct Disk {
    /// Holds the image and the mount point.
    dir: TempDir,
    device: String,
    mounted: bool,
    /// Its number, if the device was made for it.
    made: Option<u32>,
}

/// Where loop devices are made and removed by number.
const CONTROL: &str = "/dev/loop-control";
/// `LOOP_CTL_ADD` and `LOOP_CTL_REMOVE`.
const ADD_AND_REMOVE: [libc::Ioctl; 2] = [0x4c80, 0x4c81];

impl Disk {
    /// An ext4 of this many MiB, mounted with discard.
    pub fn ext4(mib: u64) -> Disk {
        // Small file systems would get blocks of 1 KiB, which a capture refuses.
        Disk::made(mib, &["mkfs.ext4", "-q", "-F", "-b", "4096"], "discard")
    }

    /// Made by this command, to which the device is added, and mounted with these options.
    pub fn made(mib: u64, mkfs: &[&str], options: &str) -> Disk {
        let mut disk = Disk::unformatted(mib);
        let mut arguments = mkfs[1..].to_vec();
        arguments.push(&disk.device);
        succeed(mkfs[0], &arguments);
        disk.mount(options);
        disk
    }

    /// Without a file system.
    pub fn unformatted(mib: u64) -> Disk {
        let dir = TempDir::new().expect("a temporary directory");
        let mut disk = Disk { dir, device: String::new(), mounted: false, made: None };
        File::create(disk.image()).and_then(|file| file.set_len(mib << 20)).expect("an image");
        disk.device = succeed("losetup", &["--find", "--show", text(&disk.image())]).trim().to_owned();
        std::fs::create_dir(disk.mount_point()).expect("a mount point");
        disk
    }

    /// The same on a loop device of a number so high that nobody else is given it once it is detached.
    pub fn apart(mib: u64) -> Disk {
        let dir = TempDir::new().expect("a temporary directory");
        let number = (2000..3000).find(|&number| control(ADD_AND_REMOVE[0], number)).expect("a free number");
        let disk = Disk { dir, device: format!("/dev/loop{number}"), mounted: false, made: Some(number) };
        File::create(disk.image()).and_then(|file| file.set_len(mib << 20)).expect("an image");
        succeed("losetup", &[&disk.device, text(&disk.image())]);
        disk
    }

    /// Takes the device away from whoever uses it, as soon as nobody has it open.
    pub fn detach(&self) {
        succeed("losetup", &["--detach", &self.device]);
    }

    pub fn mount(&mut self, options: &str) {
        succeed("mount", &["-o", options, &self.device, text(&self.mount_point())]);
        self.mounted = true;
    }

    /// As soon as nobody uses it.
    pub fn unmount(&mut self) {
        assert!(unmount(&self.mount_point()), "something still uses {}", self.device);
        self.mounted = false;
    }

    /// Somebody else did so.
    pub fn is_unmounted(&mut self) {
        self.mounted = false;
    }

    pub fn device(&self) -> &str {
        &self.device
    }

    /// What the device keeps its data in.
    pub fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    pub fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mount")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let still_mounted = self.mounted && !unmount(&self.mount_point());
        let detached = Command::new("losetup").args(["--detach", &self.device]).output();
        if let Some(number) = self.made {
            // A test may have detached it before.
            let removed = until(|| control(ADD_AND_REMOVE[1], number));
            assert!(removed || std::thread::panicking(), "{} is still in use", self.device);
        } else if !detached.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("    cannot detach {}: {detached:?}", self.device);
        }
        assert!(!still_mounted || std::thread::panicking(), "something still used {}", self.device);
    }
}

/// Makes or removes a loop device. False: it is there already, or in use.
fn control(request: libc::Ioctl, number: u32) -> bool {
    let control = File::options().read(true).write(true).open(CONTROL).expect("loop devices are there");
    // SAFETY: both requests take a number.
    unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&control), request, number) >= 0 }
}

/// Unmounts as soon as nobody uses it: killed processes of a test may end after whoever was waited for. False: somebody
/// still did after a long while; then it is gone when they end.
pub fn unmount(mount_point: &Path) -> bool {
    let unmount = |flags: &[&str]| Command::new("umount").args(flags).arg(mount_point).output();
    let unmounted = until(|| unmount(&[]).is_ok_and(|output| output.status.success()));
    if !unmounted {
        let _ = unmount(&["-l"]);
    }
    unmounted
}

/// Tries again while others, such as udev, still use something; false: they did for too long.
fn until(mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > crate::common::PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are plain")
}

/// Runs a program that must succeed. Returns what it printed.
pub fn succeed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it can be started");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("plain output")
}

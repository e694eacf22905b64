//! Removing a scratch file system, by its owner or, after a crash, by anybody.
//!
//! Idea: one function, `release`, works from the recorded state alone, so the owner's way out and the repair after
//! a kill are the same code. Order: file system, loop device, tmpfs, zram, image, run directory. No step stops
//! the later ones that are still safe; what could not be removed is reported with its reason, and the
//! state stays until nothing is left.
//!
//! Safety: numbers of devices and inodes are used again by others. So each loop and zram device is checked to be the recorded one
//! (`diskseq`) right before it is touched, and an image by its birth and what it holds. Users of the mount are never
//! killed: after `grace` the mount is detached lazily, they keep what they have open, and the device follows when they
//! end (loop: by itself; zram: with the next `clean_stale`).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pcstream_system::run_dir;
use rustix::mount::UnmountFlags;

use super::device;
use super::error::ScratchError;
use super::image::remove_image;
use super::mounts::{mounted_at, namespaces_with, read_mounts, users_of};
use super::resource::{Left, MountUser, Resource};
use super::state::{Disk, RunDir, State, boot_id};

/// How long `clean_stale` waits for a device that is busy for a moment (udev looks at new devices).
const STALE_GRACE: Duration = Duration::from_secs(1);
/// Devices are not left alone by udev at once: how much longer to wait for them if nobody is known to use them.
const DEVICE_GRACE: Duration = Duration::from_secs(20);

/// What a removal came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// What is gone, in order.
    pub removed: Vec<Resource>,
    /// What is not, and why.
    pub left: Vec<Left>,
    /// Who still used the mount when `grace` was over; it was then detached lazily.
    pub users: Vec<MountUser>,
}

impl Removal {
    fn record(&mut self, resource: Resource, result: Result<bool, String>) {
        match result {
            Ok(true) => self.removed.push(resource),
            Ok(false) => {}
            Err(reason) => self.left.push(Left { resource, reason }),
        }
    }
}

/// Unmounts the scratch file system. `Ok(users)`: it is gone from the name space; if there are users, lazily.
pub(super) fn unmount(
    run: &RunDir,
    state: &State,
    grace: Duration,
) -> Result<Option<Vec<MountUser>>, String> {
    let point = run.mount_dir();
    let mounts = read_mounts().map_err(|e| e.to_string())?;
    let Some(mount) = mounted_at(&mounts, &point) else { return Ok(None) };
    if Some(mount.device) != state.device {
        return Err(format!("device {} is mounted there, which is not ours", mount.device));
    }
    let deadline = Instant::now() + grace;
    let plain = || rustix::mount::unmount(&point, UnmountFlags::NOFOLLOW).map_err(io::Error::from);
    let busy = match device::retry_while_busy(deadline, plain) {
        Ok(()) => return Ok(Some(Vec::new())),
        Err(error) => error,
    };
    if busy.raw_os_error() != Some(libc::EBUSY) {
        return Err(busy.to_string());
    }
    let users = users_of(mount.device);
    rustix::mount::unmount(&point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
        .map_err(|e| io::Error::from(e).to_string())?;
    Ok(Some(users))
}

/// Removes everything that a state names. The caller holds the run directory's lock, and perhaps that of the image.
pub(super) fn release(run: &RunDir, state: &State, grace: Duration, held: Option<&File>) -> Removal {
    let mut removal = Removal::default();
    // Mounts and devices do not outlive a boot; files do.
    if boot_id().is_ok_and(|current| current == state.boot_id) {
        release_devices(run, state, grace, &mut removal);
    }
    if let Some(image) = &state.image {
        // An image that is still attached stays, or another run could take it.
        if image.created && removal.left.is_empty() {
            let result = remove_image(image, state, held).map_err(|e| e.to_string());
            removal.record(Resource::Image(image.path.clone()), result);
        }
    }
    if removal.left.is_empty() {
        let result = run.remove().map(|()| true).map_err(|e| e.to_string());
        removal.record(Resource::RunDir(run.path.clone()), result);
    }
    removal
}

fn release_devices(run: &RunDir, state: &State, grace: Duration, removal: &mut Removal) {
    match unmount(run, state, grace) {
        Ok(None) => {}
        Ok(Some(users)) => {
            removal.removed.push(Resource::Mount(run.mount_dir()));
            removal.users = users;
        }
        Err(reason) => removal.left.push(Left { resource: Resource::Mount(run.mount_dir()), reason }),
    }
    // Who holds a detached file system will not let go within seconds.
    let wait = if removal.users.is_empty() { grace } else { Duration::ZERO };
    let mut devices: Vec<_> = devices_of(run, state)
        .into_iter()
        .map(|device| (remove_device(&device, state, Instant::now() + wait), device))
        .collect();
    if removal.users.is_empty()
        && devices.iter().any(|(result, _)| result.is_err())
        && let Some(device) = state.device
    {
        removal.users = users_of(device);
        if removal.users.is_empty() {
            removal.users = namespaces_with(device);
        }
        if removal.users.is_empty() {
            let deadline = Instant::now() + DEVICE_GRACE;
            for (result, device) in devices.iter_mut().filter(|(result, _)| result.is_err()) {
                *result = remove_device(device, state, deadline);
            }
        }
    }
    devices.into_iter().for_each(|(result, device)| removal.record(device, result));
}

/// What a file system lies on, from top to bottom.
fn devices_of(run: &RunDir, state: &State) -> Vec<Resource> {
    let tmpfs = state.tmpfs.then(|| Resource::Tmpfs(run.backing_dir()));
    let loop_device = state.loop_device.map(|disk| Resource::Loop(disk.number));
    let zram = state.zram.map(|disk| Resource::Zram(disk.number));
    [loop_device, tmpfs, zram].into_iter().flatten().collect()
}

fn remove_device(device: &Resource, state: &State, deadline: Instant) -> Result<bool, String> {
    match device {
        Resource::Loop(_) => state.loop_device.map_or(Ok(false), |disk| remove_loop(disk, deadline)),
        Resource::Tmpfs(point) => remove_tmpfs(point, deadline),
        Resource::Zram(_) => state.zram.map_or(Ok(false), |disk| remove_zram(disk, state, deadline)),
        Resource::Mount(_) | Resource::Image(_) | Resource::RunDir(_) => Ok(false),
    }
}

/// Detaches the loop device if it still is ours. `Ok(false)`: there was nothing to do.
fn remove_loop(disk: Disk, deadline: Instant) -> Result<bool, String> {
    if !device::loop_is_attached(disk.number) {
        // Auto-clear did it with the unmount.
        return Ok(true);
    }
    device::loop_detach(disk, deadline).map_err(|e| e.to_string())
}

fn remove_tmpfs(point: &Path, deadline: Instant) -> Result<bool, String> {
    let mounts = read_mounts().map_err(|e| e.to_string())?;
    match mounted_at(&mounts, point) {
        None => return Ok(false),
        Some(mount) if mount.fs_type != "tmpfs" => return Err(format!("{} is mounted there", mount.fs_type)),
        Some(_) => {}
    }
    let plain = || rustix::mount::unmount(point, UnmountFlags::NOFOLLOW).map_err(io::Error::from);
    match device::retry_while_busy(deadline, plain) {
        // Only a loop device that is still in use holds it. It stays mounted, because by its name the loop
        // device's file is identified.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err("the loop device uses it".into()),
        result => result.map(|()| true).map_err(|e| e.to_string()),
    }
}

fn remove_zram(disk: Disk, state: &State, deadline: Instant) -> Result<bool, String> {
    if !device::zram_is_ours(disk, state)? {
        return Ok(false);
    }
    device::zram_remove(disk.number, deadline).map(|()| true).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => "still in use".to_string(),
        _ => error.to_string(),
    })
}

/// A run whose owner is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleRun {
    /// Its run directory.
    pub path: PathBuf,
    /// The process that made it.
    pub pid: u32,
}

/// An entry that is not, or no longer, a run directory, or of another version, with what is wrong.
pub type Problem = (PathBuf, String);

/// What `find_stale` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Runs of dead owners.
    pub stale: Vec<StaleRun>,
    /// What cannot be judged, and so stays.
    pub problems: Vec<Problem>,
}

/// What `clean_stale` found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Runs of dead owners, each with what became of it.
    pub cleaned: Vec<(StaleRun, Removal)>,
    /// Run directories of living owners, untouched.
    pub alive: Vec<PathBuf>,
    /// What cannot be judged, and so stays.
    pub problems: Vec<Problem>,
}

impl CleanReport {
    /// Everything that was removed.
    pub fn removed(&self) -> impl Iterator<Item = &Resource> {
        self.cleaned.iter().flat_map(|(_, removal)| &removal.removed)
    }

    /// Everything that should have been removed and was not.
    pub fn left(&self) -> impl Iterator<Item = &Left> {
        self.cleaned.iter().flat_map(|(_, removal)| &removal.left)
    }
}

/// Removes what killed runs have left below `run_root`, and nothing else.
///
/// Errors: `run_root` can be changed by others than its owner. A missing `run_root` is an empty report.
pub fn clean_stale(run_root: &Path) -> Result<CleanReport, ScratchError> {
    let mut report = CleanReport::default();
    for (path, pid) in run_dirs(run_root)? {
        match take_stale(&path, pid) {
            Ok(Some((run, state))) => {
                let removal = match &state {
                    Some(state) => release(&run, state, STALE_GRACE, None),
                    None => remove_bare(&run),
                };
                if let Some(mut state) = state
                    && !removal.left.is_empty()
                {
                    state.abandoned = true;
                    // The report says what is left; the old record finds it again just as well.
                    let _ = run.write_state(&state);
                }
                report.cleaned.push((StaleRun { path, pid }, removal));
            }
            Ok(None) => report.alive.push(path),
            Err(error) => report.problems.extend(problem(path, &error)),
        }
    }
    Ok(report)
}

/// Lists what `clean_stale` would remove, without touching it.
pub fn find_stale(run_root: &Path) -> Result<Found, ScratchError> {
    let mut found = Found::default();
    for (path, pid) in run_dirs(run_root)? {
        match take_stale(&path, pid) {
            Ok(Some(_)) => found.stale.push(StaleRun { path, pid }),
            Ok(None) => {}
            Err(error) => found.problems.extend(problem(path, &error)),
        }
    }
    Ok(found)
}

/// None if the run directory was removed meanwhile.
fn problem(path: PathBuf, error: &ScratchError) -> Option<Problem> {
    path.symlink_metadata().is_ok().then(|| (path, error.to_string()))
}

/// Run directories by name (`PID-N`), sorted.
fn run_dirs(run_root: &Path) -> Result<Vec<(PathBuf, u32)>, ScratchError> {
    match run_dir::check(run_root) {
        Ok(()) => {}
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let entries = fs::read_dir(run_root)
        .map_err(|source| ScratchError::Io { doing: format!("list {}", run_root.display()), source })?;
    let mut dirs: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), owner_of(entry.file_name().to_str()?)?)))
        .collect();
    dirs.sort();
    Ok(dirs)
}

fn owner_of(name: &str) -> Option<u32> {
    let (pid, n) = name.split_once('-')?;
    n.parse::<u32>().ok()?;
    pid.parse().ok()
}

/// Opens and locks a run directory if its owner is gone. The state is missing if the owner was killed
/// before it wrote one, and so before it made anything.
fn take_stale(path: &Path, pid: u32) -> Result<Option<(RunDir, Option<State>)>, ScratchError> {
    let run = RunDir::open(path)?;
    if !run.lock()? {
        return Ok(None);
    }
    let state = run.read_state()?;
    let runs = match &state {
        Some(state) => state.owner_runs(&boot_id()?),
        None => Path::new("/proc").join(pid.to_string()).exists(),
    };
    Ok((!runs).then_some((run, state)))
}

fn remove_bare(run: &RunDir) -> Removal {
    let mut removal = Removal::default();
    let result = run.remove().map(|()| true).map_err(|e| e.to_string());
    removal.record(Resource::RunDir(run.path.clone()), result);
    removal
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::format::Identity;
    use super::super::mounts::FsKind;
    use super::super::state::{FileId, ImageState};
    use super::*;

    /// A process id that no process has.
    const DEAD_PID: u32 = 0x3FFF_FFFF;

    fn run_of_dead_process(root: &Path) -> (RunDir, State) {
        let run = RunDir::create(root).unwrap();
        let mut state = State::begin(FsKind::Ext4, 64 << 20).unwrap();
        state.pid = DEAD_PID;
        run.write_state(&state).unwrap();
        run.make_dir(super::super::state::MOUNT_DIR, 0o755).unwrap();
        (run, state)
    }

    #[test]
    fn a_living_run_is_left_alone_and_a_dead_one_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("run");
        assert_eq!(clean_stale(&root).unwrap(), CleanReport::default(), "nothing was ever made");
        let (run, _) = run_of_dead_process(&root);
        let report = clean_stale(&root).unwrap();
        assert_eq!(report.alive, [run.path.as_path()], "its lock is held");
        let path = run.path.clone();
        drop(run);
        let stale = vec![StaleRun { path: path.clone(), pid: std::process::id() }];
        assert_eq!(find_stale(&root).unwrap(), Found { stale, problems: Vec::new() });
        let report = clean_stale(&root).unwrap();
        assert_eq!(report.removed().cloned().collect::<Vec<_>>(), [Resource::RunDir(path.clone())]);
        assert!(!path.exists());
    }

    #[test]
    fn only_the_image_that_was_made_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("run");
        let image = dir.path().join("image");
        let at_birth = |state: &mut State| state.image.as_mut().unwrap().id.born = Some(UNIX_EPOCH);
        type Change<'a> = (&'a str, &'a dyn Fn(&mut State));
        let changes: [Change<'_>; 6] = [
            ("", &|_| {}),
            ("it was there before", &|state| state.image.as_mut().unwrap().created = false),
            ("another file has its name", &|_| {
                fs::rename(&image, dir.path().join("moved")).unwrap();
                fs::write(&image, "").unwrap();
            }),
            ("another file has its inode number", &at_birth),
            ("it was written over", &|_| fs::write(&image, "another").unwrap()),
            ("another run has made a file system in it", &|state| {
                fs::write(&image, ext4_head()).unwrap();
                state.formatted = true;
            }),
        ];
        for (why, change) in changes {
            fs::write(&image, "").unwrap();
            let (run, mut state) = run_of_dead_process(&root);
            let id = FileId::of(&fs::metadata(&image).unwrap());
            state.image = Some(ImageState { path: image.clone(), id, created: true });
            change(&mut state);
            run.write_state(&state).unwrap();
            drop(run);
            let report = clean_stale(&root).unwrap();
            assert_eq!(report.left().count(), 0);
            assert_eq!(image.exists(), !why.is_empty(), "{why}");
        }
    }

    /// Of some ext4.
    fn ext4_head() -> Vec<u8> {
        let mut head = vec![0; Identity::HEAD_BYTES];
        head[1024 + 0x38..1024 + 0x3A].copy_from_slice(&[0x53, 0xEF]);
        head
    }

    #[test]
    fn an_image_that_is_in_use_stays_until_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (root, path) = (dir.path().join("run"), dir.path().join("image"));
        let (run, mut state) = run_of_dead_process(&root);
        let user = File::create(&path).unwrap();
        let id = FileId::of(&user.metadata().unwrap());
        state.image = Some(ImageState { path: path.clone(), id, created: true });
        run.write_state(&state).unwrap();
        drop(run);
        rustix::fs::flock(&user, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let report = clean_stale(&root).unwrap();
        let left: Vec<_> = report.left().collect();
        assert!(matches!(&left[..], [Left { resource: Resource::Image(_), .. }]), "{left:?}");
        assert!(path.exists());
        drop(user);
        assert_eq!(clean_stale(&root).unwrap().left().count(), 0);
        assert!(!path.exists());
    }

    #[test]
    fn foreign_files_in_a_run_directory_keep_it_and_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("run");
        let (run, _) = run_of_dead_process(&root);
        fs::write(run.path.join("notes"), "mine").unwrap();
        drop(run);
        let report = clean_stale(&root).unwrap();
        let left: Vec<_> = report.left().collect();
        assert!(matches!(&left[..], [Left { resource: Resource::RunDir(_), .. }]), "{left:?}");
    }

    #[test]
    fn entries_that_are_no_run_directories_are_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("run");
        let (run, _) = run_of_dead_process(&root);
        let elsewhere = dir.path().join("1-0");
        fs::rename(&run.path, &elsewhere).unwrap();
        drop(run);
        std::os::unix::fs::symlink(&elsewhere, root.join("1-0")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        let report = clean_stale(&root).unwrap();
        assert_eq!(report.cleaned, []);
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(find_stale(&root).unwrap(), Found { stale: Vec::new(), problems: report.problems });
        assert!(elsewhere.join("state.json").exists());
    }

    #[test]
    fn devices_of_an_earlier_boot_are_not_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("run");
        let (run, mut state) = run_of_dead_process(&root);
        state.boot_id = "earlier".into();
        let disk = Disk { number: 0, sequence: 0 };
        (state.zram, state.loop_device) = (Some(disk), Some(disk));
        run.write_state(&state).unwrap();
        drop(run);
        let report = clean_stale(&root).unwrap();
        assert!(matches!(report.removed().collect::<Vec<_>>()[..], [Resource::RunDir(_)]), "{report:?}");
    }
}

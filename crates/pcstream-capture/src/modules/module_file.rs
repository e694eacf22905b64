//! Opens the file of a module as the process that mapped it sees it: a container's paths mean nothing elsewhere.
//!
//! Idea: the BPF program names a mapped file by path, device, inode and generation. The path is tried here first. If
//! it does not lead to that file, the file is asked for by its inode (which also works after the process has ended),
//! then by the process's own root, and at last by the process's mappings.
//!
//! Invariants: what is opened is a regular file, never a device or a pipe to hang on; and it is the file
//! that the kernel named, which is known before it is opened (`Handle`). Device and inode must agree, the device as stat or
//! as mountinfo shows it: overlay file systems, btrfs and bcachefs have two. Behind an overlay that no user made, the
//! inode or the name in the process's own mappings decides. No file is opened on a file system that a user may have mounted
//! (FUSE, or in a user namespace), and no path is walked that may lead into one: its owner decides whether it ever answers.
//! What a process is asked for itself has a limit of time (`Looks`).
//!
//! Known weaknesses: a file that was removed, or lies on a file system that is mounted nowhere here, cannot be opened
//! once its process has ended. On btrfs, files of two subvolumes may have the same numbers. File systems that an administrator
//! mounted are trusted to answer.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pcstream_fs::file_handle::FileHandle;
use pcstream_fs::mounts::{self, Mount};
use rustix::fs::ResolveFlags;

use crate::modules::file_handles::{Facts, Handle, Process, is_on_foreign_fuse, name_in_link};
use crate::modules::looks::Looks;
use crate::wire::{self, PathRecord};

/// Mappings that are looked at for one module.
const LOOKS_OF_A_MODULE: usize = 4096;
/// Steps of `Looks` that it takes to look at a file.
const STEPS_OF_A_FILE: u64 = 3;

/// Opens a module's file.
pub fn open(record: &PathRecord, looks: &mut Looks) -> Option<File> {
    if record.of_user != 0 {
        return None;
    }
    let path = wire::path(record);
    let wanted = Wanted::new(record, &path);
    let own = Process::own()?;
    if let Some(file) = wanted.at_its_path(&own).or_else(|| wanted.by_inode(&own)) {
        return Some(file);
    }
    let record = *record;
    // Memory has no name that others of its mappings could be known by.
    let among_mappings = (!is_memory(&path)).then_some(move |process: &Process| {
        let path = wire::path(&record);
        Wanted::new(&record, &path).among_mappings(process)
    });
    looks.look(record.pid, |process| wanted.by_a_link(process), among_mappings)
}

/// Whether the module never had a file with a name: memory that a program wrote its code to.
pub fn is_memory(path: &[u8]) -> bool {
    let beginnings: [&[u8]; 3] = [b"/memfd:", b"/SYSV", b"/anon_hugepage"];
    path == b"/dev/zero" || beginnings.iter().any(|beginning| path.starts_with(beginning))
}

/// Opens a regular file at a path that no traced program chose. What is found is looked at before it is opened: opening a
/// device may do something, opening a pipe may wait for ever.
pub fn open_regular(path: &Path) -> Option<File> {
    let found = Handle::of_path(path, 0)?;
    (found.facts.is_regular && !is_on_foreign_fuse(&found.facts)).then(|| found.open(0))?
}

/// Opens a regular file that lies beside a module which was opened here, or below it, if the module itself lies at its path.
/// The walk stays on the module's file system and follows no links, so it leads to nothing that a user could not have named.
pub fn open_beside(module: &File, path: &Path, name: &Path) -> Option<File> {
    let (own, module) = (Process::own()?, Facts::of(module)?);
    let mount_point = own.mount(module.mount)?.mount_point;
    let top = own.cached(&mount_point).filter(|top| top.facts.mount == module.mount)?;
    let below = path.strip_prefix(&mount_point).ok()?;
    let find = |path: &Path| top.below(path, ResolveFlags::NO_XDEV);
    find(below).filter(|found| found.facts.is_same_file(&module))?;
    let found = find(&below.parent()?.join(name)).filter(|found| found.facts.is_regular)?;
    found.open(0)
}

struct Wanted<'a> {
    record: &'a PathRecord,
    path: &'a Path,
}

impl<'a> Wanted<'a> {
    fn new(record: &'a PathRecord, path: &'a [u8]) -> Wanted<'a> {
        Wanted { record, path: Path::new(OsStr::from_bytes(path)) }
    }

    /// Where the process sees its path, or as its program. The kernel answers this at once.
    fn by_a_link(&self, process: &Process) -> Option<File> {
        self.at_its_path(process).or_else(|| self.mapped(process, &process.in_proc("exe")))
    }

    fn at_its_path(&self, process: &Process) -> Option<File> {
        let found = process.cached(self.path)?;
        self.is(&found.facts, process, false).then(|| found.open(0))?
    }

    /// Whether this is the file. An overlay's numbers may be others than those of the file beneath, so there its name in the
    /// process's mappings decides, too.
    fn is(&self, found: &Facts, process: &Process, same_name: bool) -> bool {
        let same_inode = found.inode == self.record.inode;
        if !found.is_regular || !same_inode && !same_name {
            return false;
        }
        if same_inode && found.device == self.record.dev {
            return true;
        }
        let Some(mount) = process.mount(found.mount) else { return false };
        same_inode && mount.device.kernel_dev_t() == self.record.dev
            || mount.fs_type == "overlay" && process.vouches_for(&mount)
    }

    /// A file that the kernel says the process has mapped.
    fn mapped(&self, process: &Process, link: &Path) -> Option<File> {
        let found = Handle::of_path(link, 0)?;
        let same_name = self.path.file_name().is_some_and(|name| name_in_link(link) == name.as_bytes());
        self.is(&found.facts, process, same_name).then(|| found.open(0))?
    }

    /// The process may keep the kernel from answering this.
    fn among_mappings(&self, process: &Process) -> Option<File> {
        let name = self.path.file_name()?.as_bytes();
        let entries = std::fs::read_dir(process.in_proc("map_files")).ok()?.take(LOOKS_OF_A_MODULE);
        let affordable = entries.flatten().take_while(|_| process.spend(1));
        let named =
            affordable.map(|entry| entry.path()).filter(|entry| name_in_link(entry).starts_with(name));
        named.take_while(|_| process.spend(STEPS_OF_A_FILE)).find_map(|entry| self.mapped(process, &entry))
    }

    /// By its inode and generation on a mount of its file system.
    fn by_inode(&self, own: &Process) -> Option<File> {
        let mount = self.mount(own)?;
        let file = FileHandle::new(self.record.inode, self.record.generation).open(&mount).ok()?;
        let found = Handle::new(file)?;
        self.is(&found.facts, own, false).then(|| found.open(0))?
    }

    /// A mount of its file system.
    fn mount(&self, own: &Process) -> Option<File> {
        let open = |mount: Mount| {
            let top = own.cached(&mount.mount_point)?;
            (top.facts.device == self.record.dev).then(|| top.open(libc::O_DIRECTORY))?
        };
        let mounts = mounts::own().ok()?.into_iter();
        mounts.filter(|mount| mount.device.kernel_dev_t() == self.record.dev).find_map(open)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::mem::MaybeUninit;
    use std::os::unix::fs::MetadataExt;

    use pcstream_fs::extents::DeviceNumber;
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

    use super::*;
    use crate::modules::looks::STEPS_OF_A_PROCESS;

    fn open(record: &PathRecord) -> Option<File> {
        super::open(record, &mut Looks::default())
    }

    fn record_of(path: &Path, file: &File) -> PathRecord {
        let metadata = file.metadata().unwrap();
        let mut record = PathRecord {
            pid: std::process::id(),
            inode: metadata.ino(),
            dev: DeviceNumber::from_stat(metadata.dev()).kernel_dev_t(),
            ..Default::default()
        };
        let mut at = 0;
        for (n, part) in path.components().rev().filter(|part| part.as_os_str() != "/").enumerate() {
            let name = part.as_os_str().as_bytes();
            record.length[n] = name.len() as u8;
            record.text[at..at + name.len()].copy_from_slice(name);
            at += name.len();
            record.components = n as u32 + 1;
        }
        record
    }

    #[test]
    fn only_the_file_that_was_mapped_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("module");
        std::fs::write(&path, "code").unwrap();
        let file = File::open(&path).unwrap();
        let record = record_of(&path, &file);
        assert!(open(&record).is_some());
        std::fs::write(dir.path().join("other"), "other").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        // By its inode, where the file system can.
        let is_it = |found: &File| found.metadata().unwrap().ino() == record.inode;
        assert!(open(&record).as_ref().is_none_or(is_it), "replaced");
        std::fs::remove_file(&path).unwrap();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(open(&record).as_ref().is_none_or(is_it));
        assert!(open_regular(&path).is_none(), "a pipe is not waited for");
        assert!(open_regular(Path::new("/dev/null")).is_none(), "nor is a device opened");
    }

    #[test]
    fn the_program_that_runs_is_found_whatever_its_path_says() {
        let link = Path::new("/proc/self/exe");
        let real = std::fs::read_link(link).unwrap();
        let file = File::open(link).unwrap();
        let elsewhere = Path::new("/nowhere").join(real.file_name().unwrap());
        assert!(open(&record_of(&elsewhere, &file)).is_some());
        assert!(open(&PathRecord { inode: 1, ..record_of(&elsewhere, &file) }).is_none());
    }

    /// A file at the path of another one, as the traced program would have it that has mounts of its own.
    #[test]
    fn another_file_at_the_path_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("secret"), dir.path().join("other"));
        for file in [&path, &other] {
            std::fs::write(file, "text").unwrap();
        }
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, &path, WatchFlags::OPEN).unwrap();
        let opened = || inotify::Reader::new(&watch, &mut [MaybeUninit::uninit(); 256]).next().is_ok();
        let record = PathRecord {
            inode: other.metadata().unwrap().ino(),
            ..record_of(&path, &File::open(&other).unwrap())
        };
        let found = open(&record);
        assert!(found.is_none_or(|found| found.metadata().unwrap().ino() == record.inode));
        assert!(!opened());
        drop(File::open(&path).unwrap());
        assert!(opened(), "an open is seen");
    }

    #[test]
    fn a_file_of_a_users_file_system_is_not_opened() {
        let program = Path::new("/proc/self/exe");
        let path = std::fs::read_link(program).unwrap();
        let record = record_of(&path, &File::open(program).unwrap());
        assert!(open(&record).is_some());
        assert!(open(&PathRecord { of_user: 1, ..record }).is_none());
    }

    /// A file that is not this program's, and of which each look at its mappings comes to nothing.
    fn mapped_under_another_name(name: &str) -> PathRecord {
        let program = File::open("/proc/self/exe").unwrap();
        PathRecord { inode: 1, ..record_of(&Path::new("/nowhere").join(name), &program) }
    }

    #[test]
    fn mappings_are_looked_at_only_so_often() {
        let pid = std::process::id();
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        let record = mapped_under_another_name(own.file_name().unwrap().to_str().unwrap());
        let mut looks = Looks::default();
        assert!(super::open(&record, &mut looks).is_none());
        let cost = STEPS_OF_A_PROCESS - looks.left_for(pid);
        assert!(cost > STEPS_OF_A_FILE, "{cost}");
        looks.spend(pid, looks.left_for(pid) - 3 * cost);
        while looks.left_for(pid) > 0 {
            let before = looks.left_for(pid);
            assert!(super::open(&record, &mut looks).is_none());
            assert!(looks.left_for(pid) < before, "no look is free");
        }
        // Other ways are still tried.
        let record = record_of(&own, &File::open(&own).unwrap());
        assert!(super::open(&record, &mut looks).is_some());
    }

    #[test]
    fn memory_is_not_looked_for_among_mappings() {
        let mut looks = Looks::default();
        for name in ["memfd:code", "SYSV00000000", "anon_hugepage"] {
            let mut record = mapped_under_another_name(name);
            record.components = 1;
            assert!(super::open(&record, &mut looks).is_none());
        }
        assert!(STEPS_OF_A_PROCESS - looks.left_for(std::process::id()) < 10, "no mapping");
    }

    /// What the debug link of a program names.
    #[test]
    fn only_what_lies_beside_a_module_itself_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("below")).unwrap();
        for name in ["module", "module.debug", "below/module.debug"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::os::unix::fs::symlink(at("below"), at("link")).unwrap();
        let module = File::open(at("module")).unwrap();
        let beside = |path: &str, name: &str| open_beside(&module, &at(path), Path::new(name)).is_some();
        assert!(beside("module", "module.debug"));
        assert!(beside("module", "below/module.debug"));
        assert!(!beside("module", "link/module.debug"), "a link");
        assert!(!beside("module", "below"), "no file");
        assert!(!beside("below/module", "module.debug"), "the module is not there");
        assert!(!beside("module.debug", "module.debug"), "another file is there");
    }
}

//! A control group of a test's own. Whoever includes this has `common` of `pcstream-capture` as a module, too.
// Each test binary compiles this module and uses its own part of it.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::wait_for;

/// Its directory, removed when dropped.
pub struct Group(PathBuf);

impl Group {
    /// One of version 2. `None`: there are none, or they cannot be made.
    pub fn make(name: &str) -> Option<Group> {
        Group::own(&mount_of(|line| line.contains(" - cgroup2 "))?, name)
    }

    /// One that can limit processes, of either version.
    pub fn of_pids(name: &str) -> Option<Group> {
        let counts = |line: &str| line.contains(" - cgroup ") && line.ends_with(",pids");
        let group =
            Group::own(&mount_of(counts).or_else(|| mount_of(|line| line.contains(" - cgroup2 ")))?, name)?;
        group.0.join("pids.max").exists().then_some(group)
    }

    fn own(parent: &Path, name: &str) -> Option<Group> {
        Group::below(parent, &format!("pcstream-test-{}-{name}", std::process::id()))
    }

    pub fn below(parent: &Path, name: &str) -> Option<Group> {
        let path = parent.join(name);
        fs::create_dir(&path).ok()?;
        Some(Group(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Who writes its process id there becomes a member.
    pub fn members(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    pub fn enter(&self, pid: u32) {
        fs::write(self.members(), pid.to_string()).expect("it can be moved");
    }

    pub fn set(&self, name: &str, value: &str) {
        fs::write(self.0.join(name), value).expect("it can be set");
    }

    pub fn remove(&self) {
        // It is in use until its last process is reaped.
        wait_for("an empty cgroup", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Where the first of these lines of `mountinfo` is mounted.
fn mount_of(is: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    Some(mounts.lines().find(|line| is(line))?.split(' ').nth(4)?.into())
}

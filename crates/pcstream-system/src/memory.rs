//! How much memory a simulation may take: what the flag says, or three quarters of what is free, within the limits of the
//! control groups that this process is in (version 2, and version 1).

use std::fs;
use std::path::{Path, PathBuf};

/// The share of the free memory that is taken unless a flag says otherwise: the rest is for the page cache, which reads
/// the trace, and for others.
const SHARE_OF_FREE: (u64, u64) = (3, 4);

/// Where the system describes itself.
const ROOT: &str = "/";

/// Bytes that may be taken. Where the system does not say what is free, everything.
pub fn allowed(flag: Option<u64>) -> u64 {
    flag.unwrap_or_else(|| {
        free_for_process().map_or(u64::MAX, |free| free / SHARE_OF_FREE.1 * SHARE_OF_FREE.0)
    })
}

/// Bytes that are free for this process, if the system says so: on the machine, and within the limits of its control groups.
pub fn free_for_process() -> Option<u64> {
    free(Path::new(ROOT))
}

/// Bytes that are free on the machine, if it says so: for what is charged to no control group, as zram is.
pub fn free_on_machine() -> Option<u64> {
    on_machine(Path::new(ROOT))
}

fn on_machine(root: &Path) -> Option<u64> {
    mem_available(&fs::read_to_string(root.join("proc/meminfo")).ok()?)
}

/// Bytes that are free for this process; `root` is `/` but in tests.
fn free(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| group_free(root, line));
    limits.chain(on_machine(root)).min()
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the groups of one hierarchy leave, from the process's group up; `line` is `ID:CONTROLLERS:PATH`.
fn group_free(root: &Path, line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (mount, limit, usage) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
        _ if controllers.split(',').any(|c| c == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return None,
    };
    let mount = root.join(mount);
    let number = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    // In a container the path may be that of the host: then only the mount's top is there.
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    let free = groups.filter_map(|group| {
        let group = mount.join(group);
        let limit = number(group.join(limit))?;
        // Pages of the page cache count as used, but make way.
        let cache = inactive_file(&fs::read_to_string(group.join("memory.stat")).unwrap_or_default());
        let used = number(group.join(usage)).unwrap_or(0).saturating_sub(cache);
        Some(limit.saturating_sub(used))
    });
    free.min()
}

fn inactive_file(stat: &str) -> u64 {
    let value = |name: &str| {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    value("total_inactive_file").or_else(|| value("inactive_file")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:  2000 kB\nMemAvailable:   1000 kB\n");

    #[test]
    fn without_groups_the_system_decides() {
        assert_eq!(free(system(&[MEMINFO]).path()), Some(1_024_000));
        assert_eq!(free(system(&[]).path()), None);
        assert_eq!(allowed(Some(5)), 5);
    }

    #[test]
    fn the_tightest_group_of_version_2_decides() {
        let root = system(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "500000\n"),
            ("sys/fs/cgroup/a/memory.current", "150000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 50000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ]);
        assert_eq!(free(root.path()), Some(400_000));
    }

    #[test]
    fn version_1_and_a_path_of_the_host() {
        let root = system(&[
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "300000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n"),
        ]);
        assert_eq!(free(root.path()), Some(200_000));
    }
}

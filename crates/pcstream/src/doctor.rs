//! `doctor`: what this machine can do, what it lacks, and what killed captures left.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use pcstream_capture::doctor::{self, Check, Verdict};
use pcstream_emulator::mount;
use pcstream_fs::scratch::{self, RUN_ROOT};
use pcstream_place::device::{self, MODULE};
use pcstream_ublk::{Control, Served, link};

use crate::args::DoctorArgs;
use crate::failure::{Failure, Status};
use crate::ui::{self, Ui};

/// `pcstream doctor`.
pub fn doctor(args: DoctorArgs, ui: Ui) -> Result<Status, Failure> {
    if args.clean {
        return clean(ui);
    }
    let mut checks = doctor::examine();
    let (served, dead) = link::all();
    checks.push(write_streams(&device::disks_with_streams(), device::kernel_can_choose(), &served));
    let stale = scratch::find_stale(Path::new(RUN_ROOT)).map_or(0, |stale| stale.len());
    let devices = mount::find_stale(Path::new(mount::RUN_ROOT)).map_or(0, |stale| stale.len());
    let mut text = String::new();
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in &checks {
        let mark = match check.verdict {
            Verdict::Good => "ok     ",
            Verdict::Limited => "limited",
            Verdict::Missing => "MISSING",
        };
        text += &format!("{mark}  {:width$}  {}\n", check.name, check.found);
        if !check.remedy.is_empty() {
            text += &format!("         {:width$}  -> {}\n", "", check.remedy);
        }
    }
    if stale + devices + dead.len() > 0 {
        text += &format!(
            "limited  {:width$}  {} of killed processes; remove: pcstream doctor --clean\n",
            "leftovers",
            stale + devices + dead.len()
        );
    }
    ui::print(&text)?;
    if doctor::can_capture(&checks) {
        return Ok(Status::Done);
    }
    Err(anyhow!("this machine cannot capture; `simulate`, `contexts` and `generate` work all the same")
        .into())
}

/// What `place` can give to writes of ext4 and XFS.
fn write_streams(disks: &[(String, u32)], module: bool, served: &[Served]) -> Check {
    let name = |(name, streams): &(String, u32)| match served.iter().find(|server| server.disk == *name) {
        Some(server) => format!("{name} has {streams}, served as /dev/{}", server.device),
        None => format!("{name} has {streams}"),
    };
    let names: Vec<_> = disks.iter().map(name).collect();
    let all_served = disks.iter().all(|(name, _)| served.iter().any(|server| server.disk == *name));
    let (verdict, found, remedy) = match (names.is_empty(), module) {
        (true, _) => (Verdict::Good, "no disk has any; `place` gives files hints".to_owned(), String::new()),
        (false, true) => {
            (Verdict::Good, format!("{}; the module {MODULE} is loaded", names.join(", ")), String::new())
        }
        (false, false) if all_served => (Verdict::Good, names.join(", "), String::new()),
        (false, false) => (
            Verdict::Limited,
            format!("{}, but the module {MODULE} is not loaded", names.join(", ")),
            format!(
                "`place` cannot use them: build it (kmod/{MODULE}), then modprobe {MODULE}; or, without a module of \
                 ours, let `pcstream serve` serve the disk (modprobe ublk_drv)"
            ),
        ),
    };
    Check { name: "write streams", verdict, found, remedy }
}

/// Removes devices of servers that were killed.
fn clean_served() -> anyhow::Result<Vec<String>> {
    if link::all().1.is_empty() {
        return Ok(Vec::new());
    }
    let mut control = Control::open().context("cannot remove devices of killed servers")?;
    Ok(pcstream_ublk::remove_stale(&mut control))
}

fn clean(ui: Ui) -> Result<Status, Failure> {
    let report = scratch::clean_stale(Path::new(RUN_ROOT)).map_err(Failure::failed)?;
    // The file systems on them are gone by now.
    let devices = mount::clean_stale(Path::new(mount::RUN_ROOT)).context("cannot remove emulated devices")?;
    let devices = devices.iter().map(|path| format!("removed emulated device {}\n", path.display()));
    let served = clean_served()?;
    let served = served.iter().map(|device| format!("removed /dev/{device}, whose server was killed\n"));
    let removed: Vec<_> = report
        .removed()
        .map(|resource| format!("removed {resource}\n"))
        .chain(devices)
        .chain(served)
        .collect();
    ui::print(&removed.concat())?;
    if removed.is_empty() {
        ui.remark("nothing to remove");
    }
    let left: Vec<_> = report.left().map(|left| format!("{}: {}", left.resource, left.reason)).collect();
    if left.is_empty() {
        Ok(Status::Done)
    } else {
        Err(anyhow!("could not remove {}", left.join("; ")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_without_the_module_are_said_to_be_unused() {
        let disks = [("nvme0n1".to_owned(), 8)];
        let verdicts = [(&disks[..0], false), (&disks, true), (&disks, false)].map(|(disks, module)| {
            let check = write_streams(disks, module, &[]);
            (
                check.verdict,
                check.found.contains("nvme0n1 has 8"),
                check.remedy.contains("modprobe pcstream_bio"),
            )
        });
        let (good, limited) = (Verdict::Good, Verdict::Limited);
        assert_eq!(verdicts, [(good, false, false), (good, true, false), (limited, true, true)]);
        let server = Served { device: "ublkb3".into(), disk: "nvme0n1".into(), streams: 8 };
        let check = write_streams(&disks, false, &[server]);
        assert_eq!((check.verdict, check.found.as_str()), (good, "nvme0n1 has 8, served as /dev/ublkb3"));
    }
}

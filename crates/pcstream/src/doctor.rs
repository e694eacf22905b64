//! `doctor`: what this machine can do, what it lacks, and what killed captures left.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use pcstream_capture::doctor::{self, Check, Verdict};
use pcstream_emulator::mount;
use pcstream_fs::scratch::{self, RUN_ROOT};
use pcstream_place::device::{self, MODULE};

use crate::args::DoctorArgs;
use crate::failure::{Failure, Status};
use crate::ui::{self, Ui};

/// `pcstream doctor`.
pub fn doctor(args: DoctorArgs, ui: Ui) -> Result<Status, Failure> {
    if args.clean {
        return clean(ui);
    }
    let mut checks = doctor::examine();
    checks.push(write_streams(&device::disks_with_streams(), device::kernel_can_choose()));
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
    if stale + devices > 0 {
        text += &format!(
            "limited  {:width$}  {} of killed captures; remove: pcstream doctor --clean\n",
            "leftovers",
            stale + devices
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
fn write_streams(disks: &[(String, u32)], module: bool) -> Check {
    let names: Vec<_> = disks.iter().map(|(name, streams)| format!("{name} has {streams}")).collect();
    let (verdict, found, remedy) = match (names.is_empty(), module) {
        (true, _) => (Verdict::Good, "no disk has any; `place` gives files hints".to_owned(), String::new()),
        (false, true) => {
            (Verdict::Good, format!("{}; the module {MODULE} is loaded", names.join(", ")), String::new())
        }
        (false, false) => (
            Verdict::Limited,
            format!("{}, but the module {MODULE} is not loaded", names.join(", ")),
            format!("`place` cannot use them: build it (kmod/{MODULE}), then modprobe {MODULE}"),
        ),
    };
    Check { name: "write streams", verdict, found, remedy }
}

fn clean(ui: Ui) -> Result<Status, Failure> {
    let report = scratch::clean_stale(Path::new(RUN_ROOT)).map_err(Failure::failed)?;
    // The file systems on them are gone by now.
    let devices = mount::clean_stale(Path::new(mount::RUN_ROOT)).context("cannot remove emulated devices")?;
    let devices = devices.iter().map(|path| format!("removed emulated device {}\n", path.display()));
    let removed: Vec<_> =
        report.removed().map(|resource| format!("removed {resource}\n")).chain(devices).collect();
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
            let check = write_streams(disks, module);
            (
                check.verdict,
                check.found.contains("nvme0n1 has 8"),
                check.remedy.contains("modprobe pcstream_bio"),
            )
        });
        let (good, limited) = (Verdict::Good, Verdict::Limited);
        assert_eq!(verdicts, [(good, false, false), (good, true, false), (limited, true, true)]);
    }
}

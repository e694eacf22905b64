//! `doctor`: what this machine can do, what it lacks, and what killed captures left.

mod path;

use std::io;
use std::path::Path;

use anyhow::anyhow;
use pcstream_capture::doctor::{self, Check, Verdict};
use pcstream_emulator::mount;
use pcstream_fs::scratch::{self, directory_on};
use pcstream_place::device::{self, LOAD_MODULE, MODULE};
use pcstream_place::instance;
use pcstream_report::Layout;
use pcstream_system::run_dir::{RUN, Removed};
use pcstream_ublk::{Control, Served, link};

use crate::args::DoctorArgs;
use crate::failure::{Failure, Status};
use crate::place::site;
use crate::temporary;
use crate::ui::{self, Ui};

/// `pcstream doctor`.
pub fn doctor(args: DoctorArgs, ui: Ui) -> Result<Status, Failure> {
    if args.clean {
        return clean(ui);
    }
    let mut checks = doctor::examine();
    let machine_can = doctor::can_capture(&checks);
    let (served, dead) = link::all();
    match &args.path {
        Some(path) => checks.extend(path::examine(path)?),
        None => {
            checks.push(write_streams(&device::disks_with_streams(), device::kernel_can_choose(), &served))
        }
    }
    checks.extend(leftovers(dead.len()).into_iter().chain(hints_left()).map(|found| Check {
        name: "leftovers",
        verdict: Verdict::Limited,
        found,
        remedy: String::new(),
    }));
    ui::print(&text(&checks, ui.layout(false)))?;
    if doctor::can_capture(&checks) {
        return Ok(Status::Done);
    }
    Err(match args.path.filter(|_| machine_can) {
        Some(path) => anyhow!("nothing can be captured on {}; a scratch device works", path.display()),
        None => {
            anyhow!("this machine cannot capture; `simulate`, `contexts` and `generate` work all the same")
        }
    }
    .into())
}

/// What was found, and below it what to do about it.
fn text(checks: &[Check], layout: Layout) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let indent = "limited".len() + width + 4;
    let mut text = String::new();
    for check in checks {
        let mark = match check.verdict {
            Verdict::Good => "ok",
            Verdict::Limited => "limited",
            Verdict::Missing => "MISSING",
        };
        text += &layout.fit(&format!("{mark:7}  {:width$}  {}\n", check.name, check.found), indent);
        for remedy in check.remedy.lines() {
            text += &layout.fit(&format!("{:indent$}-> {remedy}\n", ""), indent + 3);
        }
    }
    text
}

/// What killed processes left, and what cannot be judged. `dead`: devices of servers.
fn leftovers(dead: usize) -> Vec<String> {
    if !rustix::process::geteuid().is_root() && Path::new(RUN).exists() {
        return vec!["needs root to look".to_owned()];
    }
    let mut problems = Vec::new();
    let found = scratch::find_stale(Path::new(RUN)).unwrap_or_else(|error| {
        problems.push(error.to_string());
        scratch::Found::default()
    });
    problems.extend(found.problems.iter().map(unjudged));
    let devices = mount::find_stale(Path::new(mount::RUN_ROOT)).unwrap_or_else(|error| {
        problems.push(format!("cannot look for emulated devices: {error}"));
        Vec::new()
    });
    let recordings = temporary::find_stale().unwrap_or_else(|error| {
        problems.push(format!("cannot look for recordings: {error}"));
        0
    });
    let stale = found.stale.len() + devices.len() + dead + recordings;
    let stale = (stale > 0).then(|| format!("{stale} of killed processes; remove: pcstream doctor --clean"));
    let problems = problems.into_iter().map(|problem| format!("not looked at: {problem}"));
    stale.into_iter().chain(problems).collect()
}

/// Mounted file systems on which killed placers left hints.
fn hints_left() -> Vec<String> {
    let mounted = |device| directory_on(device, Path::new("/"));
    instance::left_with_hints().into_iter().filter_map(mounted).map(|at| site::hints_left(&at)).collect()
}

fn unjudged((path, why): &scratch::Problem) -> String {
    format!("{}: {why}", path.display())
}

/// What `place` can give to writes of ext4, XFS and F2FS.
fn write_streams(disks: &[(String, u32)], module: bool, served: &[Served]) -> Check {
    let name = |(name, streams): &(String, u32)| match served.iter().find(|server| server.disk == *name) {
        Some(server) => format!("{name} has {streams}, served as /dev/{}", server.device),
        None => format!("{name} has {streams}"),
    };
    let names: Vec<_> = disks.iter().map(name).collect();
    let all_served = disks.iter().all(|(name, _)| served.iter().any(|server| server.disk == *name));
    let (verdict, found, remedy) = match (names.is_empty(), module) {
        (true, _) => (
            Verdict::Limited,
            "no disk has any".to_owned(),
            "only `place` uses them: pcstream doctor DIR says what it can do there".to_owned(),
        ),
        (false, true) => {
            (Verdict::Good, format!("{}; BPF can choose among them", names.join(", ")), String::new())
        }
        (false, false) if all_served => (Verdict::Good, names.join(", "), String::new()),
        (false, false) => (
            Verdict::Limited,
            format!("{}, but the module {MODULE} is not loaded", names.join(", ")),
            format!(
                "`place` cannot use them: {LOAD_MODULE}; or, without a module of ours, let `pcstream serve` serve the \
                 disk (modprobe ublk_drv)"
            ),
        ),
    };
    Check { name: "write streams", verdict, found, remedy }
}

/// What was removed, and what was not, with the reason.
#[derive(Default)]
struct Cleaned {
    removed: Vec<String>,
    left: Vec<String>,
}

impl Cleaned {
    fn scratch(&mut self) {
        match scratch::clean_stale(Path::new(RUN)) {
            Ok(report) => {
                self.removed.extend(report.removed().map(ToString::to_string));
                self.left.extend(report.left().map(|left| format!("{}: {}", left.resource, left.reason)));
                self.left.extend(report.problems.iter().map(unjudged));
            }
            Err(error) => self.left.push(error.to_string()),
        }
    }

    fn directories(&mut self, what: &str, cleaned: io::Result<Removed>) {
        match cleaned {
            Ok(Removed { removed, left }) => {
                self.removed.extend(removed.iter().map(|path| format!("{what} {}", path.display())));
                self.left.extend(left);
            }
            Err(error) => self.left.push(format!("{what}s: {error}")),
        }
    }

    /// Devices of servers that were killed.
    fn served(&mut self) {
        let said = |device: &String| format!("/dev/{device}, whose server was killed");
        let dead = link::all().1;
        if dead.is_empty() {
            return;
        }
        match Control::open() {
            Ok(mut control) => {
                match pcstream_ublk::remove_stale(&mut control) {
                    Ok(removed) => self.removed.extend(removed.iter().map(said)),
                    Err(error) => self.left.push(error.to_string()),
                }
                self.left.extend(link::all().1.iter().map(said));
            }
            Err(error) => self.left.extend(dead.iter().map(|device| format!("{}: {error}", said(device)))),
        }
    }
}

/// Each kind is tried, whatever became of the others.
fn clean(ui: Ui) -> Result<Status, Failure> {
    let mut cleaned = Cleaned::default();
    cleaned.scratch();
    // The file systems on them are gone by now.
    cleaned.directories("emulated device", mount::clean_stale(Path::new(mount::RUN_ROOT)));
    cleaned.served();
    cleaned.directories("recording", temporary::clean());
    let Cleaned { removed, left } = cleaned;
    ui::print(&removed.iter().map(|what| format!("removed {what}\n")).collect::<String>())?;
    if !left.is_empty() {
        return Err(anyhow!("could not remove {}", left.join("; ")).into());
    }
    let hints = hints_left();
    hints.iter().for_each(|left| ui.remark(left));
    if removed.is_empty() && hints.is_empty() {
        ui.remark("nothing to remove");
    }
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_a_terminal() {
        let long = "a remedy of many words ".repeat(9);
        let check = |name, verdict, found: &str| Check {
            name,
            verdict,
            found: found.to_owned(),
            remedy: long.clone(),
        };
        let checks =
            [check("kernel", Verdict::Good, "new"), check("task accounting", Verdict::Missing, &long)];
        let narrow = text(&checks, Layout { width: Some(80), ..Layout::PLAIN });
        assert!(narrow.lines().all(|line| line.len() <= 80), "{narrow}");
        let lines: Vec<&str> = narrow.lines().collect();
        assert_eq!(lines[0], "ok       kernel           new");
        assert!(lines[1].starts_with(&format!("{:26}-> a remedy", "")), "{narrow}");
        assert!(lines[2].starts_with(&format!("{:29}", "")), "{narrow}");
        assert_eq!(text(&checks, Layout::PLAIN).lines().count(), 4, "one line each into a file");
    }

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
        assert_eq!(verdicts, [(limited, false, false), (good, true, false), (limited, true, true)]);
        let server = Served { device: "ublkb3".into(), disk: "nvme0n1".into(), streams: 8 };
        let check = write_streams(&disks, false, &[server]);
        assert_eq!((check.verdict, check.found.as_str()), (good, "nvme0n1 has 8, served as /dev/ublkb3"));
    }
}

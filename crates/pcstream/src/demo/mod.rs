//! `pcstream demo`: `pcstream run` of a workload for which placement matters, on a machine with nothing but this binary.
//!
//! Ratios as in the PCStream paper (FAST'19, section 6.1), scaled down: the superblock is 0.2 % of the device (paper
//! 0.23 %), 9 streams, S0 included, spare factor 7 %; about 90 % of the device holds data. Most of that is written once
//! (55 % fill), as on a server; the store that updates in place has 28 %, the one that merges sorted runs 8 %.
//!
//! Both workloads do a given number of operations, so nothing depends on the machine's speed. The databases' background
//! threads make their numbers vary; the built-in workload has none.

mod in_place;
mod random;
mod sorted_runs;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, anyhow};

use crate::args::{self, Cli, DemoArgs, DemoWorkloadArgs, RunArgs, Workload};
use crate::failure::{Failure, Status};
use crate::ui::Ui;

const DATABASES: &str = include_str!("databases.sh");
/// What `databases.sh` calls, and the Debian packages that have it.
const TOOLS: [(&str, &str); 2] = [("db_bench", "rocksdb-tools"), ("sqlite3", "sqlite3")];
const DEVICE: [&str; 12] = [
    "--fs",
    "ext4",
    "--size",
    "1G",
    "--fill",
    "0.55",
    "--spare-factor",
    "0.07",
    "--superblock-pages",
    "512",
    "--streams",
    "9",
];

/// `pcstream demo`: the arguments of the `pcstream run` that it stands for.
pub fn run_args(args: DemoArgs, ui: Ui) -> Result<RunArgs, Failure> {
    let missing = || TOOLS.iter().filter(|(tool, _)| !installed(tool));
    let databases = match args.workload {
        Workload::BuiltIn => false,
        Workload::Auto => missing().next().is_none(),
        Workload::Databases => {
            if let Some((tool, package)) = missing().next() {
                return Err(Failure::failed(anyhow!(
                    "{tool} is not installed: apt install {package}, or use --workload built-in"
                )));
            }
            true
        }
    };
    ui.remark(match (databases, args.workload) {
        (true, _) => "SQLite updates rows in place, with a write-ahead log; RocksDB overwrites keys beside it",
        (false, Workload::Auto) => {
            "a table updated in place with a log, and sorted runs with compaction beside it: the built-in workload, \
             for db_bench or sqlite3 is not installed"
        }
        (false, _) => {
            "a table updated in place with a log, and sorted runs with compaction beside it: the built-in workload"
        }
    });
    let mut words: Vec<OsString> = vec!["pcstream".into(), "run".into()];
    let mut drive: Vec<&str> = Vec::new();
    for (flag, value) in DEVICE.chunks(2).map(|pair| (pair[0], pair[1])) {
        // What the user gives replaces it.
        let scratch = ["--fs", "--size", "--fill"].contains(&flag);
        let replaced = by_others(flag).iter().chain([&flag]).any(|flag| gives(&args.flags, flag));
        if !replaced {
            words.extend([flag.into(), value.into()]);
        }
        if !replaced && !scratch {
            drive.extend([flag, value]);
        }
    }
    if let Some(output) = args.output {
        let drive = match (drive.join(" "), args.flags.is_empty()) {
            (drive, true) => drive,
            (drive, false) if drive.is_empty() => "yours of the drive".to_owned(),
            (drive, false) => format!("{drive}, and yours of the drive"),
        };
        ui.remark(&format!(
            "flags of this drive, for `simulate`, `report` and `advise` of {}: {drive}",
            output.display()
        ));
        words.extend(["--output".into(), output.into()]);
    }
    if args.force {
        words.push("--force".into());
    }
    words.extend(args.flags);
    let this = std::env::current_exe().context("cannot find the program itself, which is the workload")?;
    words.extend(["--".into(), this.into(), "demo-workload".into()]);
    if databases {
        words.push("--databases".into());
    } else {
        words.push(format!("--part={}", args.part).into());
    }
    match Cli::of_words(words) {
        Ok(Cli { command: args::Command::Run(args), .. }) => Ok(args),
        Ok(_) => Err(Failure::wrong_arguments(anyhow!("what follows -- must be flags of `pcstream run`"))),
        Err(error) => {
            Err(Failure::wrong_arguments(anyhow!("what follows --: {}", error.render().to_string().trim())))
        }
    }
}

/// The flags that say what this one of the demo would, or leave nothing for it to say.
fn by_others(flag: &str) -> &'static [&'static str] {
    match flag {
        // There is a place already.
        "--fs" | "--size" | "--fill" => &["--on"],
        "--spare-factor" => &["--overprovision", "--op", "--profile", "--device"],
        _ => &["--profile", "--device"],
    }
}

/// Whether a flag, or with a value after `=`, is among the words.
fn gives(words: &[OsString], flag: &str) -> bool {
    words.iter().filter_map(|word| word.to_str()).any(|word| word.split('=').next() == Some(flag))
}

fn installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

/// `pcstream demo-workload`: writes into the current directory.
pub fn workload(args: &DemoWorkloadArgs) -> Result<Status, Failure> {
    if args.databases {
        // Only returns if it fails.
        let error = Command::new("sh").args(["-c", DATABASES]).exec();
        return Err(Failure::failed(anyhow!(error).context("sh")));
    }
    let (table, runs) = std::thread::scope(|scope| {
        let spawn = |name: &str, work: fn(&Path, f64) -> anyhow::Result<()>| {
            let builder = std::thread::Builder::new().name(name.to_owned());
            builder.spawn_scoped(scope, move || work(Path::new("."), args.part))
        };
        let table = spawn("table", in_place::workload);
        let runs = spawn("sorted-runs", sorted_runs::workload);
        (table.map(|thread| thread.join()), runs.map(|thread| thread.join()))
    });
    for ended in [table, runs] {
        let result = ended.context("cannot start a thread")?;
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn what_the_user_gives_replaces_the_device() {
        let parse = |flags: &[&str]| {
            let words = ["pcstream", "-q", "demo", "--workload=built-in", "--"].iter().chain(flags);
            let cli = Cli::try_parse_from(words).expect("it parses");
            let args::Command::Demo(demo) = cli.command else { panic!("it is a demo") };
            run_args(demo, Ui::new(&cli.global))
        };
        assert_eq!(parse(&[]).expect("flags of run").capture.size, 1 << 30);
        let run = parse(&["--size=2G", "--streams", "5"]).expect("flags of run");
        assert_eq!((run.capture.size, run.simulation.device.streams), (2 << 30, Some(5)));
        assert!(parse(&["--on", "/tmp"]).expect("flags of run").capture.on().is_some());
        assert!(parse(&["--no-such-flag"]).is_err());
        for flag in ["--overprovision", "--op"] {
            let device = parse(&[flag, "0.14"]).expect("flags of run").simulation.device;
            assert_eq!((device.overprovision, device.spare_factor), (Some(0.14), None));
            assert_eq!((device.superblock_pages, device.streams), (Some(512), Some(9)));
        }
        for flag in ["--profile=fdp-3.84t", "--device=my.toml"] {
            let device = parse(&[flag, "--streams=5"]).expect("flags of run").simulation.device;
            assert_eq!((device.spare_factor, device.superblock_pages), (None, None), "{flag}");
            assert_eq!(device.streams, Some(5), "{flag}");
            assert_eq!(parse(&[flag]).expect("flags of run").simulation.device.streams, None, "{flag}");
        }
    }
}

//! From a profile, a file and flags to devices: the profile is scaled to the trace, what the file gives replaces
//! it, and what flags give replaces both.

use anyhow::anyhow;
use pcstream_replay::Clock;
use pcstream_ssd::request::{DEFAULT_LOGICAL_PAGES, paper_superblock_pages};
use pcstream_ssd::{Base, DeviceRequest, DeviceSettings, Devices, GcDestination, Profile, Spare};
use pcstream_trace::PAGE_BYTES;

use crate::args::{DeviceArgs, MeasureArgs};
use crate::device_file::DeviceFile;
use crate::failure::Failure;

/// All that can be known of a device before its size is.
pub struct Template<'a> {
    args: &'a DeviceArgs,
    profile: Option<Profile>,
    file: Option<DeviceFile>,
}

impl<'a> Template<'a> {
    /// Finds the profile and reads the file.
    pub fn load(args: &'a DeviceArgs) -> Result<Template<'a>, Failure> {
        let profile = args.profile.map(Profile::named).transpose().map_err(Failure::wrong_arguments)?;
        let file = args.device.as_deref().map(DeviceFile::read).transpose()?;
        Ok(Template { args, profile, file })
    }

    /// Where the device comes from, for a report; none if only flags and defaults make it.
    pub fn origin(&self) -> Option<String> {
        let profile = self.args.profile.map(|name| format!("profile {name}"));
        let file = self.args.device.as_ref().map(|path| format!("file {}", path.display()));
        let parts: Vec<String> = profile.into_iter().chain(file).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Logical pages, if a flag or the file says how many.
    pub fn capacity_pages(&self) -> Option<u64> {
        let flag = self.args.capacity.map(|bytes| bytes / PAGE_BYTES);
        flag.or_else(|| self.file.as_ref().and_then(DeviceFile::logical_pages))
    }

    /// The devices for a trace of `trace_pages`, if there is one.
    pub fn devices(&self, trace_pages: Option<u64>) -> Result<Devices, Failure> {
        request(self.args).devices(self.base(trace_pages)?).map_err(Failure::wrong_arguments)
    }

    /// The GC destinations of these devices, whether they can be or not.
    pub fn destinations(&self, trace_pages: Option<u64>) -> Result<Vec<GcDestination>, Failure> {
        Ok(request(self.args).destinations(&self.base(trace_pages)?))
    }

    /// Whether the file gives relative sizes of pools.
    pub fn has_pools(&self) -> Result<bool, Failure> {
        Ok(!self.base(None)?.profile.device.pools.is_empty())
    }

    fn base(&self, trace_pages: Option<u64>) -> Result<Base, Failure> {
        let mut base = self.sized(trace_pages)?;
        if let Some(file) = &self.file {
            let pages = base.profile.device.logical_pages;
            let own =
                file.logical_pages().filter(|own| *own != pages && self.gives("device", "superblock_pages"));
            base.profile = match own {
                // A whole drive, of which --capacity asks for another size.
                Some(own) => {
                    let whole = self.profile.clone().unwrap_or_else(|| Base::defaults(own).profile);
                    file.over(&whole)?.scaled_to(pages)
                }
                None => file.over(&base.profile)?,
            };
            // --capacity is a flag, and replaces what the file says.
            base.profile.device.logical_pages = pages;
        }
        base.gives_superblock |= self.gives("device", "superblock_pages");
        base.gives_gc_destination |= self.gives("device", "gc_destination");
        base.gives_erase |= self.gives("timing", "erase_ns");
        base.gives_buffer |= self.gives("timing", "buffer_pages");
        Ok(base)
    }

    /// The profile (or the defaults) at the size asked for: by flag, file, trace, profile.
    fn sized(&self, trace_pages: Option<u64>) -> Result<Base, Failure> {
        if let Some(bytes) = self.args.capacity.filter(|bytes| *bytes < PAGE_BYTES) {
            let error = anyhow!("--capacity {bytes}: expected at least a page of {PAGE_BYTES} bytes");
            return Err(Failure::wrong_arguments(error));
        }
        let given = self.capacity_pages();
        if let Some((given, trace)) = given.zip(trace_pages).filter(|(given, trace)| given < trace) {
            let error = anyhow!(
                "the device has {given} logical pages, but the trace is of one with {trace}: expected at least as \
                 many (--capacity, or logical_pages in the device file)"
            );
            return Err(Failure::wrong_arguments(error));
        }
        let pages = given.or(trace_pages);
        Ok(match (&self.profile, pages) {
            (Some(whole), None) => Base::known(whole.clone()),
            (Some(whole), Some(pages)) => Base::known(whole.scaled_to(pages)),
            (None, pages) => Base::defaults(pages.unwrap_or(DEFAULT_LOGICAL_PAGES)),
        })
    }

    fn gives(&self, table: &str, key: &str) -> bool {
        self.file.as_ref().is_some_and(|file| file.gives(table, key))
    }
}

/// What the flags ask for.
fn request(args: &DeviceArgs) -> DeviceRequest {
    let overprovisioning = args.overprovision.map(Spare::Overprovisioning);
    DeviceRequest {
        spare: args.spare_factor.map(Spare::SpareFactor).or(overprovisioning),
        superblock_pages: args.superblock_pages,
        streams: args.streams,
        gc_destinations: args.gc.as_ref().map(|destinations| destinations.0.clone()),
        victim: args.victim,
        pools: args.pools.as_ref().map(|pools| pools.0.clone()),
        background_gc: args.background_gc,
        seed: args.seed,
    }
}

/// The clock that the flags ask for.
pub fn clock(args: &MeasureArgs, profile: &Profile) -> Option<Clock> {
    args.timing.then(|| Clock::new(&profile.timing, args.queue_depth, args.open_loop))
}

/// A device on which any number of streams fits and garbage collection costs little: for questions
/// that do not depend on the device.
pub fn roomy(logical_pages: u64, streams: u8, seed: u64) -> DeviceSettings {
    let superblock_pages = paper_superblock_pages(logical_pages);
    let data = logical_pages.div_ceil(u64::from(superblock_pages));
    let superblocks = data + data / 2 + u64::from(streams) + 2;
    DeviceSettings {
        logical_pages,
        spare: Spare::Superblocks(u32::try_from(superblocks).unwrap_or(u32::MAX)),
        superblock_pages,
        streams,
        gc_destination: GcDestination::Own,
        seed,
        ..DeviceSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use pcstream_ssd::Geometry;

    use super::*;
    use crate::args::{Cli, Command};

    fn try_device(flags: &[&str], logical_pages: u64) -> Result<Devices, Failure> {
        let cli = Cli::try_parse_from([&["pcstream", "simulate", "x"], flags].concat()).unwrap();
        let Command::Simulate(args) = cli.command else { panic!("parsed as {:?}", cli.command) };
        Template::load(&args.simulation.device)?.devices(Some(logical_pages))
    }

    #[track_caller]
    fn device(flags: &[&str], logical_pages: u64) -> Vec<DeviceSettings> {
        try_device(flags, logical_pages).unwrap_or_else(|e| panic!("{flags:?}: {e:?}")).settings
    }

    fn refusal(flags: &[&str], logical_pages: u64) -> String {
        match try_device(flags, logical_pages) {
            Err(Failure::WrongArguments(error)) => format!("{error:#}"),
            other => panic!("{flags:?}: {other:?}"),
        }
    }

    #[test]
    fn the_default_superblock_keeps_the_papers_ratio() {
        assert_eq!(paper_superblock_pages(1), 1);
        assert_eq!(paper_superblock_pages(1 << 21), 4096, "8 GiB: 16 MiB, 0.195 %");
        assert_eq!(paper_superblock_pages(480_000_000_000 / 4096), 262_144, "480 GB: 1.07 GB");
        assert_eq!(paper_superblock_pages(u64::MAX / 4096), 1 << 20);
    }

    #[test]
    fn every_device_of_some_size_gets_a_legal_default() {
        for pages in [1_000u64, 10_000, 65_536, 1 << 20, 1 << 31] {
            for streams in ["1", "9", "17"] {
                let devices = device(&["--streams", streams, "--gc", "own,internal,shared"], pages);
                assert_eq!(devices.len(), 3);
                assert!(devices.iter().all(|d| d.superblock_pages == devices[0].superblock_pages));
            }
        }
        let crowded = device(&["--streams", "33", "--spare-factor", "0.07"], 1 << 20);
        assert!(crowded[0].superblock_pages < paper_superblock_pages(1 << 20));
    }

    #[test]
    fn no_room_is_refused() {
        let refused = |flags: &[&str], pages| refusal(flags, pages).contains("no room for GC");
        assert!(refused(&["--spare-factor", "0"], 1 << 20));
        assert!(refused(&["--superblock-pages", "64K"], 1 << 20));
        assert!(refused(&[], 8));
    }

    #[test]
    fn spare_is_given_once() {
        let sf = device(&["--spare-factor", "0.2"], 1 << 20);
        let op = device(&["--overprovision", "0.25"], 1 << 20);
        let geometry = |d: &[DeviceSettings]| Geometry::new(&d[0]).unwrap();
        assert_eq!(geometry(&sf), geometry(&op));
        let both = ["pcstream", "simulate", "x", "--spare-factor", "0.2", "--overprovision", "0.25"];
        assert!(Cli::try_parse_from(both).is_err());
    }

    #[test]
    fn a_profile_is_scaled_and_flags_replace_it() {
        let whole = Profile::named("pm963-480g").unwrap();
        let devices = try_device(&["--profile", "pm963-480g"], 1 << 20).unwrap();
        let legacy = whole.scaled_to(1 << 20).device;
        let internal = DeviceSettings { gc_destination: GcDestination::Internal, ..legacy.clone() };
        assert_eq!(
            devices.settings,
            [legacy, internal],
            "a legacy SSD, and the same one with internal streams"
        );
        let shared = try_device(&["--profile", "fdp-3.84t"], 1 << 30).unwrap().settings;
        assert_eq!(shared.len(), 1, "a device that says what it does is not compared with another");
        assert_eq!(devices.profile.timing, whole.scaled_to(1 << 20).timing);
        let flags =
            ["--profile", "pm963-480g", "--streams", "4", "--gc", "own,shared", "--spare-factor", "0.3"];
        let changed = device(&flags, 1 << 20);
        assert_eq!(changed.len(), 2);
        assert_eq!((changed[0].streams, changed[0].spare), (4, Spare::SpareFactor(0.3)));
        assert_eq!(changed[1].superblock_pages, devices.settings[0].superblock_pages);
    }

    #[test]
    fn a_file_replaces_the_profile_and_flags_the_file() {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        let path = file.path().to_str().unwrap();
        let give = |text: &str| std::fs::write(file.path(), text).unwrap();
        give("[device]\nstreams = 5\nspare = { overprovisioning = 0.4 }\n[timing]\nread_ns = 1\n");
        let devices =
            try_device(&["--profile", "femu", "--device", path, "--victim", "fifo"], 1 << 20).unwrap();
        let (merged, femu) = (&devices.settings[0], Profile::named("femu").unwrap());
        assert_eq!((merged.streams, merged.spare), (5, Spare::Overprovisioning(0.4)));
        assert_eq!((merged.victim.name(), merged.gc_destination), ("fifo", femu.device.gc_destination));
        assert_eq!(
            (devices.profile.timing.read_ns, devices.profile.timing.program_ns),
            (1, femu.timing.program_ns)
        );
        assert_eq!(device(&["--device", path, "--streams", "7"], 1 << 20)[0].streams, 7);

        give("[device]\nlogical_pages = 4194304\n");
        assert_eq!(device(&["--device", path], 1 << 20)[0].logical_pages, 4 << 20);
        let flags = ["--device", path, "--capacity", "8G"];
        assert_eq!(device(&flags, 1 << 20)[0].logical_pages, 2 << 20);
        assert!(refusal(&["--device", path, "--capacity", "1G"], 1 << 20).contains("262144 logical pages"));

        let pm963 = Profile::named("pm963-480g").unwrap();
        give(&toml::to_string(&pm963).unwrap());
        let scaled = device(&["--device", path, "--capacity", "4G"], 1 << 20);
        assert_eq!(
            scaled[0],
            pm963.scaled_to(1 << 20).device,
            "a file of a whole drive is scaled as its profile is"
        );

        give("[device]\nspare = { overprovisioning = 14.0 }\n");
        let text = refusal(&["--device", path], 1 << 20);
        assert!(text.contains("overprovision 14: ") && text.contains("0.14 for 14 %"), "{text}");

        give("[resources]\npower_loss_bytes = 524288\n");
        let text = refusal(&["--device", path], 1 << 20);
        assert!(text.contains("can afford 2 streams"), "{text}");

        for (wrong, words) in [
            ("[device]\nstream = 4\n", "line 2"),
            ("[device]\nstreams = 400\n", "line 2"),
            ("[device\n", "line 1"),
            ("[devices]\n", "unknown field"),
        ] {
            give(wrong);
            let text = refusal(&["--device", path], 1 << 20);
            assert!(text.contains(path) && text.contains(words), "{text}");
        }
        assert!(refusal(&["--device", "/nonexistent.toml"], 1 << 20).contains("/nonexistent.toml"));
    }

    #[test]
    fn roomy_devices_are_legal_for_any_number_of_streams() {
        for pages in [1, 10, 1000, 1 << 22, 1 << 31] {
            for streams in [1, 9, 255] {
                Geometry::new(&roomy(pages, streams, 1)).unwrap();
            }
        }
    }
}

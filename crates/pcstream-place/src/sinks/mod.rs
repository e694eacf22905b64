//! The sinks. A new one is one file here and one line in [`REGISTRY`].

pub mod fdp_server;
pub mod given;
pub mod hints;
pub mod kfunc;
pub mod none;
pub mod program;
pub mod stream_table;

use thiserror::Error;

use crate::device::Device;
use crate::sink::{ByRequest, SinkInfo};

/// Every sink, the best first. The last one is never chosen by itself.
pub const REGISTRY: &[SinkInfo] = &[kfunc::INFO, fdp_server::INFO, program::INFO, hints::INFO, DRY_RUN];

/// It has the streams of what would be chosen without it.
const DRY_RUN: SinkInfo = SinkInfo { streams: as_the_best, ..none::INFO };

fn as_the_best(device: &Device) -> u8 {
    let real = &REGISTRY[..REGISTRY.len() - 1];
    let best = real.iter().find(|sink| (sink.usable)(device).is_ok());
    best.map_or((none::INFO.streams)(device), |sink| (sink.streams)(device))
}

/// A sink that was chosen, and why.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Which.
    pub sink: SinkInfo,
    /// Why this one.
    pub why: String,
    /// Of a sink that `auto` chose: what each better one lacks, and what to do.
    pub against: Vec<String>,
    /// The same in a few words.
    pub lacks: Option<String>,
}

impl Choice {
    /// In one short sentence.
    pub fn in_short(&self) -> String {
        self.lacks.as_ref().map_or_else(|| self.why.clone(), |lacks| format!("{}; {lacks}", self.why))
    }

    /// With all that was not chosen.
    pub fn in_full(&self) -> String {
        [vec![self.why.clone()], self.against.clone()].concat().join("; ")
    }
}

/// What to say of a name that is no sink.
pub fn unknown(name: &str) -> String {
    let there_are = format!("no such sink; there are auto, {}", names().join(", "));
    match name {
        "emulated" => format!("{there_are}. `pcstream run --live` runs a command on an emulated drive"),
        _ => there_are,
    }
}

/// Why no sink was chosen.
#[derive(Debug, Error)]
pub enum ChoiceError {
    /// No such sink.
    #[error("--sink {0}: {error}", error = unknown(.0))]
    Unknown(String),
    /// The one that was asked for does not work here.
    #[error("--sink {name}: {why}")]
    Unusable {
        /// Which.
        name: &'static str,
        /// Why not, and what to do.
        why: String,
    },
}

/// The names of all sinks.
pub fn names() -> Vec<&'static str> {
    REGISTRY.iter().map(|sink| sink.name).collect()
}

/// The sink of this name; of `auto`, the first that works on the device.
pub fn choose(name: &str, device: &Device) -> Result<Choice, ChoiceError> {
    if name == "auto" {
        return Ok(best(device));
    }
    let known = REGISTRY.iter().find(|sink| sink.name == name);
    let sink = *known.ok_or_else(|| ChoiceError::Unknown(name.to_owned()))?;
    let why = (sink.usable)(device).map_err(|why| ChoiceError::Unusable { name: sink.name, why })?;
    Ok(Choice { sink, why, against: Vec::new(), lacks: None })
}

fn best(device: &Device) -> Choice {
    let mut against = Vec::new();
    for &sink in REGISTRY {
        match (sink.usable)(device) {
            Ok(why) => {
                let none = sink.by_request == ByRequest::No && !device.has_streams_of_its_file_system();
                let lacks = none.then(|| lacks(device));
                return Choice { sink, why, against, lacks };
            }
            Err(why) => against.push(format!("not {}: {why}", sink.name)),
        }
    }
    unreachable!("a dry run works anywhere")
}

/// Why no request gets a write stream.
fn lacks(device: &Device) -> String {
    let name = &device.name;
    match device.write_streams {
        streams @ 0..=1 => format!("{name} has {}", stream_table::too_few(streams)),
        streams => format!("doctor says how to use the {streams} write streams of {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_fs::extents::DeviceNumber;
    use pcstream_fs::scratch::FsKind;

    fn device() -> Device {
        Device {
            number: DeviceNumber { major: 7, minor: 3 },
            name: "loop3".into(),
            file_system: Some(FsKind::Ext4),
            ..Device::default()
        }
    }

    #[test]
    fn the_best_sink_that_works_is_chosen_and_says_why() {
        let device =
            |write_streams, kernel_can_choose| Device { write_streams, kernel_can_choose, ..device() };
        for (streams, module, sink, why) in [
            (8, true, "kfunc", "8 write streams"),
            (8, false, "hints", "the module pcstream_bio is not loaded"),
            (0, true, "hints", "loop3 has no write streams"),
            (1, true, "hints", "loop3 has 1 write stream"),
        ] {
            let choice = choose("auto", &device(streams, module)).expect("there always is one");
            assert_eq!(choice.sink.name, sink);
            assert!(choice.in_full().contains(why), "{}", choice.in_full());
            let demanded = choose("kfunc", &device(streams, module));
            match demanded {
                Ok(choice) => {
                    assert_eq!((choice.sink.name, (choice.sink.streams)(&device(200, true))), (sink, 16))
                }
                Err(error) => assert!(error.to_string().contains(why), "{error}"),
            }
        }
    }

    #[test]
    fn the_reason_is_short_and_the_rest_is_for_who_asks() {
        let device =
            |write_streams, kernel_can_choose| Device { write_streams, kernel_can_choose, ..device() };
        let hints = "a hint for each file, which only SCSI and UFS disks with streams act on";
        for (streams, module, short) in [
            (0, false, format!("{hints}; loop3 has no write streams")),
            (8, false, format!("{hints}; doctor says how to use the 8 write streams of loop3")),
            (8, true, "loop3 has 8 write streams, and BPF can choose among them".to_owned()),
        ] {
            let choice = choose("auto", &device(streams, module)).expect("there always is one");
            assert_eq!(choice.in_short(), short);
        }
        let asked = choose("hints", &device(0, false)).expect("it works");
        assert_eq!((asked.in_short(), asked.in_full()), (asked.why.clone(), asked.why.clone()));
    }

    /// On a device without a file system: files have no hints there, and without the module its owner asks.
    #[test]
    fn a_device_without_a_file_system_has_sinks_of_its_own() {
        let raw = |write_streams, kernel_can_choose| Device {
            write_streams,
            kernel_can_choose,
            linux: (6, 18),
            file_system: None,
            ..device()
        };
        for (streams, module, sink, why) in [
            (8, true, "kfunc", "BPF can choose among them"),
            (8, false, "program", "which its owner asks for"),
            (0, true, "none", "not hints: loop3 has no file system"),
        ] {
            let device = raw(streams, module);
            let choice = choose("auto", &device).expect("there always is one");
            assert_eq!(choice.sink.name, sink, "{}", choice.in_full());
            assert!(choice.in_full().contains(why), "{}", choice.in_full());
            // A dry run names streams only where no request can have them.
            assert!((choice.sink.answers)(&device));
        }
        let dry = choose("none", &raw(8, false)).expect("it is there");
        assert!(!(dry.sink.answers)(&raw(8, false)), "a dry run does nothing");
        let error = choose("program", &device()).expect_err("it has a file system").to_string();
        assert!(error.contains("--sink program") && error.contains("name a device without one"), "{error}");
        assert!(REGISTRY.iter().all(|sink| sink.name == "program" || !(sink.answers)(&device())));
    }

    /// The kernel refuses streams of programs on a partition and on a volume, so their owners are given none.
    #[test]
    fn owners_of_a_part_of_a_disk_are_given_no_streams() {
        for (name, kernel_can_choose, sink) in
            [("nvme0n1p1", false, "none"), ("nvme0n1p1", true, "kfunc"), ("dm-0", false, "none")]
        {
            let disk = Some("nvme0n1".to_owned());
            let own = Device {
                name: name.into(),
                disk,
                write_streams: 8,
                file_system: None,
                kernel_can_choose,
                ..device()
            };
            let choice = choose("auto", &own).expect("there always is one");
            assert_eq!(choice.sink.name, sink, "{name}: {}", choice.in_full());
            assert!(!(choice.sink.answers)(&own), "{name}");
            let error = choose("program", &own).expect_err("the kernel refuses them").to_string();
            assert!(error.contains(&format!("{name} is no whole disk")), "{error}");
            assert!(error.contains("name /dev/nvme0n1"), "{error}");
        }
    }

    #[test]
    fn a_device_of_a_server_takes_its_streams_to_it() {
        let server = pcstream_ublk::Served { device: "ublkb0".into(), disk: "nvme0n1".into(), streams: 8 };
        let choice =
            choose("auto", &Device { server: Some(Ok(server)), kernel_can_choose: true, ..device() });
        let choice = choice.expect("there always is one");
        assert_eq!((choice.sink.name, choice.sink.by_request), ("fdp-server", ByRequest::Server));
        let error = choose("fdp-server", &device()).expect_err("not served").to_string();
        assert!(error.contains("--sink fdp-server: loop3 is no device of pcstream serve"), "{error}");
    }

    #[test]
    fn a_sink_is_found_by_its_name() {
        let choice = choose("none", &device()).expect("it is there");
        assert_eq!(choice.sink.name, "none");
        // A dry run has the streams of what would be chosen: hints, streams, nothing.
        let with_streams = Device { write_streams: 16, kernel_can_choose: true, ..device() };
        for (device, of) in [(device(), "hints"), (with_streams, "kfunc")] {
            let real = choose("auto", &device).expect("there always is one").sink;
            assert_eq!((real.name, (choice.sink.streams)(&device)), (of, (real.streams)(&device)));
        }
        assert_eq!(
            (choice.sink.streams)(&Device { file_system: None, ..device() }),
            (none::INFO.streams)(&device())
        );
        let error = choose("all", &device()).expect_err("no such sink").to_string();
        assert!(error.contains("--sink all") && error.contains("auto") && error.ends_with("none"), "{error}");
        assert!(unknown("emulated").contains("pcstream run --live"));
    }
}

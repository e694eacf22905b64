//! The raw disk: claimed for nobody else, and what it can do, so that the device in front of it can do the same.
//!
//! Units: bytes, unless a name says sectors (of 512 bytes).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::abi::{self, Parameters};
use crate::error::UblkError;

/// What it takes to have several write streams.
pub const IT_TAKES: &str =
    "it takes an NVMe drive with FDP whose namespace has several placement handles, and Linux 6.16 or newer";
/// The largest request: more than disks take at once.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// The largest discard: what the block layer asks for at once.
const SECTORS_MAX: u32 = u32::MAX >> 9;

/// A disk that is this process's alone.
#[derive(Debug)]
pub struct Disk {
    /// Opened for direct I/O, exclusively: it cannot be mounted meanwhile.
    pub file: File,
    /// What it is.
    pub limits: Limits,
}

/// What the kernel says of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Its name, such as `nvme0n1`.
    pub name: String,
    /// The size.
    pub sectors: u64,
    /// Write streams, from 1; the first is where writes without one go.
    pub streams: u32,
    logical_block: u64,
    physical_block: u64,
    io_min: u64,
    io_opt: u64,
    request_max: u64,
    /// It has a cache that is to be flushed.
    volatile_cache: bool,
    rotational: bool,
    dma_alignment: u64,
    discard_granularity: u64,
    discard_max: u64,
    zeroes_max: u64,
}

impl Disk {
    /// Claims a whole disk with streams.
    pub fn claim(path: &Path) -> Result<Disk, UblkError> {
        let open = |source| UblkError::Open { path: path.to_owned(), source };
        let unfit = |why: &str| UblkError::Unfit { path: path.to_owned(), why: why.to_owned() };
        let kind = std::fs::metadata(path).map_err(open)?;
        if !kind.file_type().is_block_device() {
            return Err(unfit("this is no block device; name a whole disk, such as /dev/nvme0n1"));
        }
        let flags = libc::O_DIRECT | libc::O_EXCL | libc::O_CLOEXEC;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(flags).open(path).map_err(|source| {
            match source.raw_os_error() {
                Some(libc::EBUSY) => UblkError::Busy(path.to_owned()),
                _ => open(source),
            }
        })?;
        // Of what was opened, should the name mean something else by now.
        let number = file.metadata().map_err(open)?.rdev();
        let sys = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
        let limits = Limits::read(&sys).map_err(|why| UblkError::Unfit { path: path.to_owned(), why })?;
        Ok(Disk { file, limits })
    }
}

impl Limits {
    /// Reads a disk's directory in sysfs. The error says what to do.
    fn read(sys: &Path) -> Result<Limits, String> {
        let own =
            std::fs::canonicalize(sys).map_err(|error| format!("cannot read {}: {error}", sys.display()))?;
        if own.join("partition").exists() {
            return Err(
                "this is a partition, which has no streams; name the whole disk: the device that serves it \
                        has its partitions"
                    .to_owned(),
            );
        }
        let queue = own.join("queue");
        // What older kernels may not say.
        let text = |name: &str| std::fs::read_to_string(queue.join(name)).unwrap_or_default();
        let number = |name: &str| text(name).trim().parse::<u64>().unwrap_or(0);
        let limits = Limits {
            name: own.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            sectors: needed_number(&own.join("size"))?,
            streams: number("max_write_streams") as u32,
            logical_block: needed_number(&queue.join("logical_block_size"))?,
            physical_block: number("physical_block_size"),
            io_min: number("minimum_io_size"),
            io_opt: number("optimal_io_size"),
            request_max: number("max_sectors_kb") * 1024,
            volatile_cache: needed(&queue.join("write_cache"))? != "write through",
            rotational: number("rotational") == 1,
            dma_alignment: number("dma_alignment"),
            discard_granularity: number("discard_granularity"),
            discard_max: number("discard_max_bytes"),
            zeroes_max: number("write_zeroes_max_bytes"),
        };
        if limits.streams < 2 {
            return Err(format!("{} has {} write streams; {IT_TAKES}", limits.name, limits.streams));
        }
        if !text("zoned").trim().is_empty() && text("zoned").trim() != "none" {
            return Err("this disk has zones, which are not passed on".to_owned());
        }
        Ok(limits)
    }

    /// The same, for the device in front of it.
    pub fn parameters(&self) -> Parameters {
        let shift = |bytes: u64| bytes.max(512).ilog2() as u8;
        let optimum = if self.io_opt.is_power_of_two() { self.io_opt } else { self.physical_block };
        let sectors = |bytes: u64| (bytes >> 9).min(SECTORS_MAX.into()) as u32;
        let discards = self.discard_max > 0 && self.discard_granularity > 0;
        let aligned = (self.dma_alignment + 1).is_power_of_two() && self.dma_alignment < 4096;
        let attribute = |set: bool, flag| if set { flag } else { 0 };
        Parameters {
            bytes: size_of::<Parameters>() as u32,
            types: abi::BASIC
                | attribute(discards || self.zeroes_max > 0, abi::DISCARDS)
                | attribute(aligned, abi::DMA_ALIGNMENT),
            attributes: attribute(self.volatile_cache, abi::VOLATILE_CACHE | abi::ATTR_FUA)
                | attribute(self.rotational, abi::ROTATIONAL),
            logical_block_shift: shift(self.logical_block),
            physical_block_shift: shift(self.physical_block.max(self.logical_block)),
            io_opt_shift: shift(optimum),
            io_min_shift: shift(self.io_min),
            sectors_max: sectors(self.request_max.clamp(4096, REQUEST_BYTES_MAX.into())),
            sectors: self.sectors,
            discard_granularity: self.discard_granularity.max(self.logical_block) as u32,
            discard_sectors_max: if discards { sectors(self.discard_max) } else { 0 },
            zero_sectors_max: sectors(self.zeroes_max),
            discard_segments_max: 1,
            dma_alignment: if aligned { self.dma_alignment as u32 } else { 0 },
            ..Parameters::default()
        }
    }
}

/// What the device in front must not get wrong. The error says what cannot be read.
fn needed(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path);
    text.map(|text| text.trim().to_owned()).map_err(|error| {
        format!("cannot read {}, without which it cannot be served: {error}", path.display())
    })
}

fn needed_number(path: &Path) -> Result<u64, String> {
    let text = needed(path)?;
    text.parse().map_err(|_| format!("{} says '{text}', expected a number", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A disk as sysfs shows it.
    fn disk(streams: &str) -> tempfile::TempDir {
        let sys = tempfile::tempdir().expect("a directory");
        fs::create_dir(sys.path().join("queue")).expect("a directory");
        fs::write(sys.path().join("size"), "20971520\n").expect("written");
        for (name, value) in [
            ("max_write_streams", streams),
            ("logical_block_size", "4096"),
            ("physical_block_size", "4096"),
            ("minimum_io_size", "4096"),
            ("optimal_io_size", "0"),
            ("max_sectors_kb", "512"),
            ("write_cache", "write back"),
            ("dma_alignment", "3"),
            ("discard_granularity", "4096"),
            ("discard_max_bytes", "2199023255040"),
            ("write_zeroes_max_bytes", "0"),
            ("zoned", "none"),
        ] {
            fs::write(sys.path().join("queue").join(name), format!("{value}\n")).expect("written");
        }
        sys
    }

    #[test]
    fn a_device_can_do_what_its_disk_can() {
        let sys = disk("8");
        let limits = Limits::read(sys.path()).expect("it is fit");
        assert_eq!((limits.sectors, limits.streams), (20_971_520, 8));
        let parameters = limits.parameters();
        assert_eq!(parameters.types, abi::BASIC | abi::DISCARDS | abi::DMA_ALIGNMENT);
        assert_eq!(parameters.attributes, abi::VOLATILE_CACHE | abi::ATTR_FUA);
        assert_eq!([parameters.logical_block_shift, parameters.io_opt_shift], [12, 12]);
        assert_eq!((parameters.sectors_max, parameters.sectors), (1024, 20_971_520));
        assert_eq!((parameters.discard_sectors_max, parameters.zero_sectors_max), (SECTORS_MAX, 0));
        fs::write(sys.path().join("queue/write_cache"), "write through\n").expect("written");
        fs::write(sys.path().join("queue/discard_max_bytes"), "0\n").expect("written");
        let parameters = Limits::read(sys.path()).expect("it is fit").parameters();
        assert_eq!((parameters.attributes, parameters.types), (0, abi::BASIC | abi::DMA_ALIGNMENT));
    }

    #[test]
    fn what_cannot_be_read_is_not_guessed() {
        for name in ["size", "queue/logical_block_size", "queue/write_cache"] {
            let sys = disk("8");
            fs::remove_file(sys.path().join(name)).expect("it is there");
            let error = Limits::read(sys.path()).expect_err("it is needed");
            assert!(error.contains(name) && error.contains("cannot read"), "{error}");
        }
        let sys = disk("8");
        fs::write(sys.path().join("queue/write_cache"), "something new\n").expect("written");
        let parameters = Limits::read(sys.path()).expect("it is fit").parameters();
        assert_eq!(parameters.attributes, abi::VOLATILE_CACHE | abi::ATTR_FUA);
        fs::write(sys.path().join("size"), "\n").expect("written");
        let error = Limits::read(sys.path()).expect_err("no number");
        assert!(error.contains("size says ''") && error.contains("a number"), "{error}");
    }

    #[test]
    fn what_has_no_streams_is_refused_and_why() {
        let error = Limits::read(disk("0").path()).expect_err("no streams");
        assert!(error.contains("0 write streams") && error.contains("FDP"), "{error}");
        let partition = disk("8");
        fs::write(partition.path().join("partition"), "1\n").expect("written");
        assert!(Limits::read(partition.path()).expect_err("a partition").contains("name the whole disk"));
        let error = Disk::claim(Path::new("/dev/null")).expect_err("no block device").to_string();
        assert!(error.contains("/dev/null") && error.contains("no block device"), "{error}");
        let error = Disk::claim(Path::new("/nonexistent/nvme0n1")).expect_err("no such file").to_string();
        assert!(error.contains("cannot open /nonexistent/nvme0n1"), "{error}");
    }
}

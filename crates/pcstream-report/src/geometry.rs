//! What the settings of a device amount to: derived sizes, speeds, and how many streams it can afford.

use pcstream_ssd::resources::Budget;
use pcstream_ssd::{DeviceSettings, GcDestination, Geometry, Profile};
use pcstream_trace::PAGE_BYTES;
use serde::Serialize;

use crate::VERSION;
use crate::human::{bytes, count, counted, page_bytes, percent};
use crate::timing::duration;

/// Said where superblocks of the default size, `first` pages, leave no room for garbage collection, and are of `pages` now.
pub fn smaller_superblocks(first: u32, pages: u32) -> String {
    format!(
        "superblocks of {pages} pages: the default size, {first} pages, leaves no room for garbage collection here. WAF \
         depends on the size; compare with other devices at --superblock-pages {pages}"
    )
}

/// The result of `geometry` for programs.
#[derive(Clone, Debug, Serialize)]
pub struct GeometryJson {
    /// Version of pcstream.
    pub pcstream: &'static str,
    /// The profile or file that the device comes from; null for none.
    pub origin: Option<String>,
    /// U.
    pub logical_pages: u64,
    /// Pages of a superblock.
    pub superblock_pages: u32,
    /// Streams, S0 included.
    pub streams: u8,
    /// Victim policy.
    pub victim: String,
    /// By GC destination.
    pub derived: Vec<DerivedJson>,
    /// Parallelism and speeds.
    pub timing: SpeedsJson,
    /// What limits streams.
    pub budgets: Vec<BudgetJson>,
    /// Streams that the budgets pay for, S0 included; null where nothing limits them.
    pub affordable_streams: Option<u64>,
}

/// Sizes that follow from the settings.
#[derive(Clone, Debug, Serialize)]
pub struct DerivedJson {
    /// `own`, `internal` or `shared`.
    pub gc_destination: &'static str,
    /// T.
    pub physical_pages: u64,
    /// Number of superblocks.
    pub superblocks: u32,
    /// Sf = (T-U)/T.
    pub spare_factor: f64,
    /// OP = (T-U)/U.
    pub overprovisioning: f64,
    /// Superblocks that the logical pages fill.
    pub data_superblocks: u64,
    /// Superblocks that can be open at once.
    pub open_superblocks: u32,
    /// Sf without the superblocks that can be open and the one of GC.
    pub worst_case_spare_factor: f64,
}

/// What the dies that a superblock lies on can do together, without GC.
#[derive(Clone, Debug, Serialize)]
pub struct SpeedsJson {
    /// Dies.
    pub dies: u32,
    /// Dies that a superblock lies on: fewer where it is smaller than a stripe.
    pub superblock_dies: u32,
    /// Pages that all dies program together.
    pub stripe_pages: u64,
    /// Bytes per second of writes, limited by programs or channels.
    pub write_bytes_per_second: f64,
    /// Reads of single pages per second, limited by sensing or channels.
    pub read_iops: f64,
    /// Erasing a superblock, in nanoseconds.
    pub erase_ns: u64,
}

/// A budget for streams.
#[derive(Clone, Debug, Serialize)]
pub struct BudgetJson {
    /// Its name.
    pub name: &'static str,
    /// Bytes; null: unlimited.
    pub bytes: Option<u64>,
    /// Bytes for each external stream.
    pub bytes_per_stream: u64,
    /// Streams that it pays for, S0 included; null: any number.
    pub affordable_streams: Option<u64>,
}

/// Derives everything from legal settings, one per GC destination; `profile` has the speeds and budgets.
pub fn json(origin: Option<String>, settings: &[DeviceSettings], profile: &Profile) -> GeometryJson {
    let derived = settings.iter().map(|one| derive(&Geometry::new(one).expect("settings were checked")));
    let budget = |b: &Budget| BudgetJson {
        name: b.name,
        bytes: b.bytes,
        bytes_per_stream: b.bytes_per_stream,
        affordable_streams: b.affordable_streams(),
    };
    let device = &settings[0];
    GeometryJson {
        pcstream: VERSION,
        origin,
        logical_pages: device.logical_pages,
        superblock_pages: device.superblock_pages,
        streams: device.streams,
        victim: device.victim.to_string(),
        derived: derived.collect(),
        timing: speeds(profile, device.superblock_pages),
        budgets: profile.resources.budgets(&profile.timing).iter().map(budget).collect(),
        affordable_streams: profile.resources.affordable_streams(&profile.timing),
    }
}

fn derive(geometry: &Geometry) -> DerivedJson {
    DerivedJson {
        gc_destination: geometry.gc_destination().name(),
        physical_pages: geometry.physical_pages(),
        superblocks: geometry.superblocks(),
        spare_factor: geometry.spare_factor(),
        overprovisioning: geometry.overprovisioning(),
        data_superblocks: geometry.data_superblocks(),
        open_superblocks: geometry.open_superblocks(),
        worst_case_spare_factor: geometry.worst_case_spare_factor(),
    }
}

fn speeds(profile: &Profile, superblock_pages: u32) -> SpeedsJson {
    let timing = &profile.timing;
    let dies = timing.channels * timing.dies_per_channel;
    // As the clock has it: larger superblocks take turns, so that all dies are busy.
    let used = dies.min(superblock_pages.div_ceil(timing.pages_per_program.max(1)));
    let per_program = f64::from(timing.pages_per_program);
    // A die cannot receive the next pages while it programs.
    let occupied = timing.transfer_ns as f64 * per_program + timing.program_ns as f64;
    let per_second = |dies_limit: f64, page_ns: u64| {
        let channels_limit = f64::from(timing.channels.min(used)) / (page_ns as f64 / 1e9);
        if page_ns == 0 { dies_limit } else { dies_limit.min(channels_limit) }
    };
    let programs = f64::from(used) * per_program / (occupied / 1e9);
    let reads = f64::from(used) / ((timing.read_ns + timing.transfer_ns) as f64 / 1e9);
    SpeedsJson {
        dies,
        superblock_dies: used,
        stripe_pages: u64::from(dies) * u64::from(timing.pages_per_program),
        write_bytes_per_second: per_second(programs, timing.transfer_ns) * PAGE_BYTES as f64,
        read_iops: per_second(reads, timing.transfer_ns),
        erase_ns: timing.erase_ns,
    }
}

/// The same for people.
pub fn text(json: &GeometryJson) -> String {
    let mut lines = Vec::new();
    if let Some(origin) = &json.origin {
        lines.push(format!("from        {origin}"));
    }
    let first = &json.derived[0];
    lines.push(format!(
        "capacity    {} logical on {} of flash: spare factor Sf {}, overprovisioning OP {}",
        page_bytes(json.logical_pages),
        page_bytes(first.physical_pages),
        percent(first.spare_factor),
        percent(first.overprovisioning),
    ));
    lines.push(format!(
        "superblocks {} of {} ({} pages, {} of the flash); the data fill {}; victims {}",
        first.superblocks,
        page_bytes(u64::from(json.superblock_pages)),
        json.superblock_pages,
        percent(f64::from(json.superblock_pages) / first.physical_pages as f64),
        first.data_superblocks,
        json.victim,
    ));
    for derived in &json.derived {
        lines.push(format!(
            "gc {:8} up to {} open: Sf {} without them and the one that GC keeps free",
            derived.gc_destination,
            counted(u64::from(derived.open_superblocks), "superblock"),
            percent(derived.worst_case_spare_factor),
        ));
    }
    let timing = &json.timing;
    let dies = match timing.superblock_dies {
        used if used < timing.dies => format!("{} dies, of which superblocks use {used}", timing.dies),
        _ => format!("{} dies", timing.dies),
    };
    lines.push(format!(
        "speed       {dies}, {} programmed together; at most {}/s written and {} reads/s; a superblock is erased in {}",
        page_bytes(timing.stripe_pages),
        bytes(timing.write_bytes_per_second as u64),
        count(timing.read_iops as u64),
        duration(timing.erase_ns),
    ));
    lines.push(format!("streams     {}, S0 included", json.streams));
    for budget in &json.budgets {
        let affords = match (budget.bytes, budget.affordable_streams) {
            (Some(all), Some(streams)) => format!("{} in all: {streams} streams", bytes(all)),
            (Some(all), None) => format!("{} in all: any number of streams", bytes(all)),
            (None, _) => "no limit given".to_owned(),
        };
        lines.push(format!(
            "            {}: {} a stream, {affords}",
            budget.name,
            bytes(budget.bytes_per_stream)
        ));
    }
    if json.derived.iter().any(|d| d.gc_destination == GcDestination::Internal.name()) {
        lines.push("            internal streams take none of these".to_owned());
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_smaller_than_a_stripe_are_as_fast_as_their_dies() {
        let profile = Profile::named("pm963-480g").unwrap();
        let of = |pages| speeds(&profile, pages);
        let (whole, quarter, die) = (of(256), of(64), of(8));
        assert_eq!((whole.superblock_dies, quarter.superblock_dies, die.superblock_dies), (32, 8, 1));
        assert_eq!(of(264).write_bytes_per_second, whole.write_bytes_per_second);
        assert!((whole.write_bytes_per_second / quarter.write_bytes_per_second - 4.0).abs() < 1e-9);
        // A die programs eight pages in 600 us, and receives each in 7.7 us.
        let least = 8.0 * 4096.0 / (600e-6 + 8.0 * 7.7e-6);
        assert!((die.write_bytes_per_second / least - 1.0).abs() < 1e-9, "{}", die.write_bytes_per_second);
        assert!(quarter.read_iops < whole.read_iops);
    }
}

//! Arguments of `sweep`: the flags of `simulate`, several values each.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use pcstream_replay::space::{Pack, SpaceSettings};
use pcstream_ssd::{GcDestination, VictimPolicy, Watermarks};

use super::simulation::{DeviceArgs, MeasureArgs, SchemeOptions, profiles_help, schemes_help};
use crate::lists::{self, List};
use crate::values::{self, Prefill, Schemes};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("spare-grid").args(["spare_factor", "overprovision"])), after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o hot.pctrace
  pcstream sweep hot.pctrace --streams 2..5 --spare-factor .07,.125 -o all.csv
  pcstream sweep hot.pctrace --scheme all --utilisation 1 --gc own -o full.json
  pcstream sweep hot.pctrace --pack .7,.8,.9,.95 -o fullness.csv
  pcstream sweep hot.pctrace --timing --queue-depth 1,8,32 -o depth.csv
  pcstream sweep hot.pctrace --set pcstream.mapper.distance=linear,log -o d.csv

Every combination is a run and becomes a row. Values are separated by commas. Whole numbers take ranges, both ends \
included. --set takes several values, too: separated by commas, or by repeating the flag where a value has commas \
itself. NAME:best stands for every reading of the scheme. A sweep that was killed goes on where it was when the same command is given again.")]
pub struct SweepArgs {
    /// The trace: a directory NAME.pctrace
    pub trace: PathBuf,
    /// Where the results go: NAME.parquet, NAME.csv or NAME.json, replaced only by a whole one; '-' is stdout, as CSV
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: PathBuf,
    /// Schemes, separated by commas, or 'all'
    #[arg(long, value_name = "LIST", default_value = "baseline,pcstream", help_heading = "Schemes", long_help = schemes_help())]
    pub scheme: Schemes,
    #[command(flatten)]
    pub scheme_options: SchemeOptions,
    #[command(flatten)]
    pub grid: GridArgs,
    /// Memory that the sweep may take [default: three quarters of what is free]
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    pub memory: Option<u64>,
}

/// Devices and how they are used: flags with several values are the axes of the grid.
#[derive(Debug, Args)]
pub struct GridArgs {
    /// Streams, S0 included, such as 1..16 or 2,5,9 [default: 9]
    #[arg(long, value_name = "LIST", value_parser = lists::stream_list, help_heading = "Grid")]
    pub streams: Option<List<u8>>,
    /// Spare factors Sf = (T-U)/T, such as .07,.125 [default: 0.125]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::spare_factor), help_heading = "Grid")]
    pub spare_factor: Option<List<f64>>,
    /// Overprovisionings OP = (T-U)/U, from 0 to 2, instead of --spare-factor
    #[arg(long, alias = "op", value_name = "LIST", value_parser = lists::each(values::overprovisioning), help_heading = "Grid")]
    pub overprovision: Option<List<f64>>,
    /// Shares of the logical pages that hold data, static data added before counting [default: what the trace says]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::fraction), conflicts_with = "prefill", help_heading = "Grid")]
    pub utilisation: Option<List<f64>>,
    /// Pack the addresses that the trace writes onto devices of which they fill these shares: above 0, at most 1
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::positive_share), conflicts_with = "utilisation", help_heading = "Grid")]
    pub pack: Option<List<f64>>,
    /// Pack them onto devices of which the data that lives at once fills these shares at most: for traces with discards
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::positive_share), conflicts_with_all = ["pack", "utilisation", "prefill"], help_heading = "Grid")]
    pub pack_live: Option<List<f64>>,
    /// What is on the device before counting starts: 'trace' (what the trace says), or these shares of the
    /// address space [default: trace]
    #[arg(long, value_name = "LIST", value_parser = lists::each(str::parse::<Prefill>), help_heading = "Grid")]
    pub prefill: Option<List<Prefill>>,
    /// Leave the trace's discards out, as if the file system sent none
    #[arg(long, alias = "no-trim", help_heading = "Device")]
    pub no_discard: bool,
    /// With the trace's discards, and without them: yes,no [default: yes]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::yes_or_no), conflicts_with = "no_discard", help_heading = "Grid")]
    pub discard: Option<List<bool>>,
    /// Where garbage collection puts copies: own, internal, shared [default: own,internal; with a profile
    /// that is no legacy multi-stream SSD, the profile's]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::destination), help_heading = "Grid")]
    pub gc: Option<List<GcDestination>>,
    /// Pages in a superblock [default: at most 0.23 % of the logical pages]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::size_u32), help_heading = "Grid")]
    pub superblock_pages: Option<List<u32>>,
    /// Which superblock garbage collection empties next [default: greedy]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::victim), help_heading = "Grid")]
    pub victim: Option<List<VictimPolicy>>,
    /// Start from named devices, scaled to a trace
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::profile), help_heading = "Grid", long_help = profiles_help())]
    pub profile: Option<List<&'static str>>,
    /// Collect garbage in the background, between LOW and HIGH free superblocks [default: only when needed]
    #[arg(long, value_name = "LOW:HIGH,...", value_parser = lists::each(values::watermarks), help_heading = "Grid")]
    pub background_gc: Option<List<Watermarks>>,
    /// Seeds of everything that draws random numbers, such as 1..5 [default: 1]
    #[arg(long, value_name = "LIST", value_parser = lists::seeds, help_heading = "Grid")]
    pub seed: Option<List<u64>>,
    /// Read settings from a file; they replace those of the profile
    #[arg(long, value_name = "FILE.toml", help_heading = "Device")]
    pub device: Option<PathBuf>,
    /// Logical capacities in bytes, such as 8G,16G [default: that of the recorded device]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::size), help_heading = "Grid")]
    pub capacity: Option<List<u64>>,
    /// Relative sizes of the streams' pools, then of the internal streams' [default: no pools]
    #[arg(long, value_name = "LIST", value_parser = values::pools, help_heading = "Device")]
    pub pools: Option<values::Pools>,
    /// Simulate time, too: IOPS, latencies, GC's share of the time. WAF stays the same
    #[arg(long, help_heading = "Timing")]
    pub timing: bool,
    /// Requests outstanding at any time (closed loop), such as 1,8,32: each 1 to 65536 [default: 32]
    #[arg(long, value_name = "LIST", requires = "timing", value_parser = lists::each(values::queue_depth), help_heading = "Grid")]
    pub queue_depth: Option<List<u32>>,
    /// Requests arrive at the times of the trace (open loop)
    #[arg(long, requires = "timing", conflicts_with = "queue_depth", help_heading = "Timing")]
    pub open_loop: bool,
}

/// One point of the grid.
#[derive(Clone)]
pub struct Point {
    /// The flags of its device, but for the destinations, which are compared on it.
    pub device: DeviceArgs,
    /// The address space.
    pub space: SpaceSettings,
    /// What is on the device beforehand, and the clock.
    pub measure: MeasureArgs,
}

impl GridArgs {
    /// What is the same of the device at all points.
    fn device(&self) -> DeviceArgs {
        DeviceArgs { device: self.device.clone(), pools: self.pools.clone(), ..DeviceArgs::default() }
    }

    /// What is measured where no axis says otherwise.
    pub fn measure(&self) -> MeasureArgs {
        MeasureArgs {
            prefill: Prefill::Trace,
            timing: self.timing,
            queue_depth: None,
            open_loop: self.open_loop,
        }
    }

    /// All points, in the order of the rows: the last axis changes fastest.
    pub fn points(&self) -> Vec<Point> {
        let space = SpaceSettings { no_discard: self.no_discard, ..SpaceSettings::default() };
        let mut points = vec![Point { device: self.device(), space, measure: self.measure() }];
        along(&mut points, self.profile.as_ref(), |point, value| point.device.profile = Some(value));
        along(&mut points, self.capacity.as_ref(), |point, value| point.device.capacity = Some(value));
        along(&mut points, self.victim.as_ref(), |point, value| point.device.victim = Some(value));
        along(&mut points, self.superblock_pages.as_ref(), |point, value| {
            point.device.superblock_pages = Some(value)
        });
        along(&mut points, self.spare_factor.as_ref(), |point, value| {
            point.device.spare_factor = Some(value)
        });
        along(&mut points, self.overprovision.as_ref(), |point, value| {
            point.device.overprovision = Some(value)
        });
        along(&mut points, self.discard.as_ref(), |point, value| point.space.no_discard = !value);
        along(&mut points, self.pack.as_ref(), |point, value| {
            point.space.pack = Some(Pack::Addresses(value))
        });
        along(&mut points, self.pack_live.as_ref(), |point, value| {
            point.space.pack = Some(Pack::Live(value))
        });
        along(&mut points, self.prefill.as_ref(), |point, value| point.measure.prefill = value);
        along(&mut points, self.utilisation.as_ref(), |point, value| point.space.fill = Some(value));
        along(&mut points, self.streams.as_ref(), |point, value| point.device.streams = Some(value));
        along(&mut points, self.background_gc.as_ref(), |point, value| {
            point.device.background_gc = Some(value)
        });
        along(&mut points, self.seed.as_ref(), |point, value| point.device.seed = Some(value));
        along(&mut points, self.queue_depth.as_ref(), |point, value| point.measure.queue_depth = Some(value));
        points
    }
}

/// Each point once for each value of an axis; an axis that is not given changes nothing.
fn along<T: Clone>(points: &mut Vec<Point>, values: Option<&List<T>>, set: impl Fn(&mut Point, T)) {
    let Some(List(values)) = values else { return };
    let each = |point: &Point| {
        values
            .iter()
            .map(|value| {
                let mut point = point.clone();
                set(&mut point, value.clone());
                point
            })
            .collect::<Vec<_>>()
    };
    *points = points.iter().flat_map(each).collect();
}

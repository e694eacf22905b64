//! Arguments of the commands that simulate, and what they share: schemes, devices, measurements.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use pcstream_replay::space::Pack;
use pcstream_ssd::{GcDestination, VictimParameter, VictimPolicy, Watermarks, profile};

use super::view::ViewArgs;
use crate::lists::{self, List};
use crate::values::{self, Prefill, Schemes, Setting};

/// Schemes compared unless --scheme says otherwise: the papers', ours and their limit.
pub(super) const DEFAULT_SCHEMES: &str =
    "baseline,manual,autostream-mq,autostream-sfr,pcstream,pcstream-plus,oracle";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o hot.pctrace
  pcstream simulate hot.pctrace
  pcstream simulate hot.pctrace --scheme all --gc own,internal,shared
  pcstream simulate hot.pctrace --spare-factor 0.07 --json result.json
  pcstream simulate hot.pctrace --profile pm963-480g --timing
  pcstream simulate hot.pctrace --pack 0.9     # a large disk, little written
  pcstream simulate hot.pctrace --pack-live 0.9        # the same, with discards
  pcstream simulate hot.pctrace --capacity 512M --fill 0.95 --memory 2G")]
pub struct SimulateArgs {
    /// The trace: a directory NAME.pctrace
    pub trace: PathBuf,
    /// Write the lifetimes that PCStream learned to FILE, for --load-table of the next run
    #[arg(long, value_name = "FILE", value_parser = values::named_file(), help_heading = "Schemes")]
    pub save_table: Option<PathBuf>,
    #[command(flatten)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    pub fit: FitArgs,
}

/// A device that is no larger than what the trace writes.
#[derive(Clone, Debug, Default, Args)]
pub struct PackArgs {
    /// Pack the addresses that the trace writes onto a device of which they fill this share: above 0, at most 1
    ///
    /// For traces of large disks, of which a run writes little. The order of addresses stays, gaps between them are
    /// closed, and what the trace never writes is left out. With --capacity, static data is added instead, up to this
    /// share of that size.
    #[arg(long, value_name = "SHARE", value_parser = values::positive_share, help_heading = "Device")]
    pub pack: Option<f64>,
    /// Pack them onto a device of which the data that lives at once fills this share at most: for traces with discards
    ///
    /// File systems spread what they allocate: addresses that were written may hold nothing for most of the time. The
    /// device has all addresses that the trace writes, as with --pack, but less flash. Without discards, the two are the same.
    #[arg(long, value_name = "SHARE", value_parser = values::positive_share, conflicts_with_all = ["pack", "fill", "prefill"], help_heading = "Device")]
    pub pack_live: Option<f64>,
}

impl PackArgs {
    /// What packs the device, if it is packed.
    pub fn pack(&self) -> Option<Pack> {
        self.pack.map(Pack::Addresses).or(self.pack_live.map(Pack::Live))
    }
}

/// The trace on another address space, and the memory that its simulation may take.
#[derive(Clone, Debug, Default, Args)]
pub struct FitArgs {
    #[command(flatten)]
    pub packed: PackArgs,
    /// Add static data before counting, or leave some out, until this share of the logical pages holds data: 0 to 1
    ///
    /// What the trace writes counts as data. Several simulations of one trace with more and more static data give
    /// the curve of WAF over utilisation.
    #[arg(long, value_name = "SHARE", value_parser = values::fraction, conflicts_with_all = ["pack", "prefill"], help_heading = "Device")]
    pub fill: Option<f64>,
    /// Leave the trace's discards out, as if the file system sent none
    #[arg(long, alias = "no-trim", help_heading = "Device")]
    pub no_discard: bool,
    /// Memory that the simulation may take, such as 2G [default: three quarters of what is free]
    ///
    /// If all lanes together would take more, fewer run at once, and the trace is read several times.
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    pub memory: Option<u64>,
    /// Pages that a packed device has at least: those of the largest of a comparison.
    #[arg(skip)]
    pub least_pages: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream generate zipf --pages 64K --writes 1M -o zipf.pctrace
  pcstream contexts zipf.pctrace
  pcstream contexts zipf.pctrace --top 50
  pcstream contexts zipf.pctrace --by program
  pcstream contexts zipf.pctrace --folded - > paths.txt
  pcstream contexts zipf.pctrace --json - | jq '.contexts[].share'")]
pub struct ContextsArgs {
    /// The trace: a directory NAME.pctrace
    pub trace: PathBuf,
    /// How many contexts the table shows; JSON has them all
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::rows)]
    pub top: usize,
    /// The scheme whose choice of streams is shown
    #[arg(long, value_name = "NAME", default_value = "pcstream", value_parser = values::one_scheme)]
    pub scheme: Schemes,
    #[command(flatten)]
    pub view: ViewArgs,
    #[command(flatten)]
    pub scheme_options: SchemeOptions,
    /// Streams of the device, S0 included: 1 to 255
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = values::streams)]
    pub streams: u8,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `simulate` and `run` share.
#[derive(Debug, Args)]
pub struct SimulationArgs {
    /// Schemes to compare, separated by commas, or 'all'
    #[arg(long, value_name = "LIST", default_value = DEFAULT_SCHEMES, help_heading = "Schemes", long_help = schemes_help())]
    pub scheme: Schemes,
    #[command(flatten)]
    pub scheme_options: SchemeOptions,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Show more of every result: wear, lifetime, confidence, what victims held
    #[arg(long, help_heading = "Output")]
    pub details: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream schemes
  pcstream schemes autostream-mq
  pcstream schemes --json - | jq '.schemes[].name'
  pcstream generate hotcold --pages 64K --writes 1M -o hot.pctrace
  pcstream simulate hot.pctrace --scheme baseline,autostream-mq:best")]
pub struct SchemesArgs {
    /// The scheme whose parameters are shown; without one, all schemes are listed
    pub name: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream geometry --profile pm963-480g
  pcstream geometry --profile fdp-3.84t --capacity 8G --streams 17
  pcstream geometry --profile pm963-480g --toml > my.toml
  pcstream geometry --device my.toml --json - | jq .derived")]
pub struct GeometryArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Print a device file with these settings, to be changed and given to --device
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub toml: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A device: a profile, a file whose values replace the profile's, and flags that replace both.
#[derive(Clone, Debug, Default, Args)]
#[command(group(ArgGroup::new("spare")))]
pub struct DeviceArgs {
    /// Start from a named device; with a trace, scaled to its size
    #[arg(long, value_name = "NAME", value_parser = values::profile, help_heading = "Device", long_help = profiles_help())]
    pub profile: Option<&'static str>,
    /// Read settings from a file; they replace those of the profile
    ///
    /// Tables `[device]`, `[timing]` and `[resources]`; `pcstream geometry --toml` prints one to start from.
    #[arg(long, value_name = "FILE.toml", help_heading = "Device")]
    pub device: Option<PathBuf>,
    /// Logical capacity in bytes [default: that of the recorded device; without a trace the profile's, or 8 GiB]
    #[arg(long, value_name = "BYTES", value_parser = values::size, help_heading = "Device")]
    pub capacity: Option<u64>,
    /// Where garbage collection puts the pages of a stream that it copies: own (back to the stream's open superblock),
    /// internal (an internal stream beside each stream) or shared (one superblock for all); several by commas
    /// [default: own,internal; with a profile that is no legacy multi-stream SSD, the profile's]
    #[arg(long, value_name = "LIST", value_parser = lists::each(values::destination), help_heading = "Device")]
    pub gc: Option<List<GcDestination>>,
    /// Streams of the device, S0 included: 1 to 255 [default: 9]
    #[arg(long, value_name = "N", value_parser = values::streams, help_heading = "Device")]
    pub streams: Option<u8>,
    /// Spare factor Sf = (T-U)/T of T flash and U logical pages: from 0, below 1 [default: 0.125]
    #[arg(long, value_name = "F", group = "spare", value_parser = values::spare_factor, help_heading = "Device")]
    pub spare_factor: Option<f64>,
    /// Overprovisioning OP = (T-U)/U, from 0 to 2, instead of --spare-factor
    #[arg(long, alias = "op", value_name = "F", group = "spare", value_parser = values::overprovisioning, help_heading = "Device")]
    pub overprovision: Option<f64>,
    /// Pages in a superblock (FDP: reclaim unit) [default: at most 0.23 % of the logical pages]
    ///
    /// The default is the largest power of two that is no more than 0.23 % of the logical pages, up to 2^20 pages (4 GiB):
    /// the ratio of the PM963 in the FStream paper (1.1 GB of 480 GB); half of that, and so on,
    /// where the streams would leave no room for garbage collection.
    #[arg(long, value_name = "N", value_parser = values::size_u32, help_heading = "Device")]
    pub superblock_pages: Option<u32>,
    /// Which superblock garbage collection empties next [default: greedy]
    #[arg(long, value_name = "NAME", value_parser = values::victim, help_heading = "Device", long_help = victims_help())]
    pub victim: Option<VictimPolicy>,
    /// Target sizes of the streams' pools, relative to each other: from S0 on, then of the internal streams (or of the
    /// shared GC superblocks), separated by commas [default: no pools]
    ///
    /// With pools, the victim comes from the pool that exceeds its target most, and --victim chooses within it. If such
    /// victims free too little space, it is the best victim of all pools.
    #[arg(long, value_name = "LIST", value_parser = values::pools, help_heading = "Device")]
    pub pools: Option<values::Pools>,
    /// Collect garbage in the background, from fewer than LOW free superblocks on until HIGH are
    /// free [default: only when a superblock is needed]
    #[arg(long, value_name = "LOW:HIGH", value_parser = values::watermarks, help_heading = "Device")]
    pub background_gc: Option<Watermarks>,
    /// Seed of everything that draws random numbers [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::number, help_heading = "Device")]
    pub seed: Option<u64>,
}

/// How a device is used and what is measured.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    /// What is on the device before counting starts: 'trace' (what the trace says), or this share
    /// of the address space
    #[arg(long, value_name = "FRACTION|trace", default_value = "trace", help_heading = "Device")]
    pub prefill: Prefill,
    /// Simulate time, too: IOPS, latencies, GC's share of the time. WAF stays the same
    #[arg(long, help_heading = "Timing")]
    pub timing: bool,
    /// Requests outstanding at any time (closed loop): 1 to 65536 [default: 32]
    #[arg(long, value_name = "N", requires = "timing", value_parser = values::queue_depth, help_heading = "Timing")]
    pub queue_depth: Option<u32>,
    /// Requests arrive at the times of the trace (open loop)
    #[arg(long, requires = "timing", conflicts_with = "queue_depth", help_heading = "Timing")]
    pub open_loop: bool,
}

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write the result as JSON to FILE; '-' is stdout, and replaces the tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
}

/// Parameters of single schemes.
#[derive(Clone, Debug, Args)]
pub struct SchemeOptions {
    /// Rules of the scheme 'manual': a preset, or a file of lines such as 'name=*.log -> 2'
    #[arg(long, value_name = "PRESET|FILE", help_heading = "Schemes", long_help = rules_help())]
    pub rules: Option<PathBuf>,
    /// Size of PCStream's table of contexts: 13 bytes an entry; when it is full, the least recently used entry goes [default: 360000]
    #[arg(long, value_name = "BYTES", value_parser = values::size, help_heading = "Schemes")]
    pub table_bytes: Option<u64>,
    /// Begin with the lifetimes that an earlier `simulate --save-table` learned of program contexts
    #[arg(long, value_name = "FILE", help_heading = "Schemes")]
    pub load_table: Option<PathBuf>,
    /// Set a parameter of a scheme; `pcstream schemes NAME` lists them. May be repeated
    #[arg(long, value_name = "SCHEME.PARAMETER=VALUE", help_heading = "Schemes")]
    pub set: Vec<Setting>,
}

fn rules_help() -> String {
    let presets = pcstream_placement::Rules::presets().map(|(name, what)| format!("\n  {name:10}  {what}"));
    let presets: String = presets.collect();
    format!(
        "Rules of the scheme 'manual' [default: common]: a preset, or a file of lines such as\n  \
         kind=journal -> 1\n  name=*.log -> 2\nwhose first match decides. Presets:\n{presets}"
    )
}

pub(super) fn profiles_help() -> String {
    let mut help = String::from("Start from a named device; with a trace, scaled to its size:\n");
    for known in profile::KNOWN {
        help += &format!("\n  {:12}  {}", known.name, known.about);
    }
    help
}

fn victims_help() -> String {
    let mut help = String::from("Which superblock garbage collection empties next [default: greedy]:\n");
    let width = VictimPolicy::names().into_iter().map(str::len).max().unwrap_or(0);
    for policy in VictimPolicy::known() {
        let (name, info) = (policy.name(), policy.info());
        help += &format!("\n  {name:width$}  {}", info.about);
        if let Some(VictimParameter { name: value, unit, default, range }) = &info.parameter {
            let (least, most) = (range.start(), range.end());
            help += &format!("; {name}:{value} takes {least} to {most} {unit} [default: {default}]");
        }
    }
    help
}

pub(super) fn schemes_help() -> String {
    let width = pcstream_placement::names().map(str::len).max().unwrap_or(0);
    let mut help = String::from("Schemes to compare, separated by commas, or 'all':\n");
    for scheme in pcstream_placement::schemes() {
        help += &format!("\n  {:width$}  {}", scheme.name, scheme.summary);
    }
    help += "\n\nNAME:READING takes another reading of a paper, NAME:best the one with the lowest WAF: see \
             `pcstream schemes NAME`";
    help
}

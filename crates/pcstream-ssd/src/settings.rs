//! Raw settings of a device, as a user gives them. `Geometry` checks them once and derives the rest.

use std::fmt;
use std::str::FromStr;

use crate::background::Watermarks;
use crate::names::UnknownName;
use crate::victim::{Superblocks, VictimPolicy};

/// Everything that decides what a device does with a sequence of writes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub struct DeviceSettings {
    /// Pages that can hold data at once (U); the host can address as many, or `namespace_pages`.
    pub logical_pages: u64,
    /// Pages that the host can address, if more than can hold data at once: NVMe calls the two a namespace's size and
    /// capacity. Not part of a device file.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub namespace_pages: Option<u64>,
    /// How much more flash there is (T).
    pub spare: Spare,
    /// Pages of a superblock, the unit of erasure (b).
    pub superblock_pages: u32,
    /// External streams, S0 included.
    pub streams: u8,
    /// Where GC copies go.
    pub gc_destination: GcDestination,
    /// Which superblock GC empties next.
    pub victim: VictimPolicy,
    /// Relative sizes of pools: one for each stream from S0 on, then one for each internal stream (or one
    /// for the shared GC destination). Empty: victims are chosen over all superblocks alike.
    pub pools: Vec<f64>,
    /// GC in the background; none: only when a superblock is needed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub background_gc: Option<Watermarks>,
    /// Seed of the policies that draw random numbers.
    pub seed: u64,
}

impl DeviceSettings {
    /// Pages that the host can address.
    pub fn address_pages(&self) -> u64 {
        self.namespace_pages.unwrap_or(0).max(self.logical_pages)
    }

    /// Bytes of the lists of its victim policy, for `frontiers` superblocks that are open at once. Most policies have a
    /// list for each number of valid pages, which counts with large superblocks. A policy of one's own may take more.
    pub fn list_bytes(&self, frontiers: u32) -> u64 {
        let emptiest = if self.pools.is_empty() { 0 } else { self.emptiest_heads() };
        Superblocks::NODE_BYTES * (self.list_heads(frontiers) + emptiest)
    }

    /// List heads in the device's table.
    pub(crate) fn list_heads(&self, frontiers: u32) -> u64 {
        let policies = self.pools.len().max(1) as u64;
        policies * self.victim.heads(self.superblock_pages, frontiers)
    }

    /// List heads of what finds the emptiest superblock of all pools.
    fn emptiest_heads(&self) -> u64 {
        VictimPolicy::default().heads(self.superblock_pages, 1)
    }

    /// The same without what a victim policy of one's own replaces: `victim` and `pools`.
    pub fn for_own_victims(&self) -> DeviceSettings {
        DeviceSettings { victim: VictimPolicy::default(), pools: Vec::new(), ..self.clone() }
    }
}

impl Default for DeviceSettings {
    /// 1 GiB at a spare factor of 7 %, superblocks of 1 MiB, eight streams besides S0 (as the PM963
    /// of FAST'19 has), internal streams, greedy victims.
    fn default() -> Self {
        DeviceSettings {
            logical_pages: 1 << 18,
            namespace_pages: None,
            spare: Spare::SpareFactor(0.07),
            superblock_pages: 256,
            streams: 9,
            gc_destination: GcDestination::Internal,
            victim: VictimPolicy::default(),
            pools: Vec::new(),
            background_gc: None,
            seed: 1,
        }
    }
}

/// Flash beyond the logical pages, in one of the ways it is commonly stated. T and U are physical
/// and logical pages. T counts every superblock, open ones and the GC reserve included.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Spare {
    /// Sf = (T-U)/T, at least 0 and below 1.
    SpareFactor(f64),
    /// OP = (T-U)/U, from 0 to 2.
    Overprovisioning(f64),
    /// T itself, as a number of superblocks.
    Superblocks(u32),
}

/// Where GC copies of a superblock of stream Sk go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum GcDestination {
    /// To the open superblock of Sk, among the host's writes.
    Own,
    /// To the internal stream Sk', which only GC writes; copies out of Sk' stay in Sk' (FAST'19,
    /// section 5.3). FDP: persistently isolated handles.
    #[default]
    Internal,
    /// To one superblock for the survivors of all streams. FDP: initially isolated handles.
    Shared,
}

impl GcDestination {
    /// Every destination.
    pub const ALL: [GcDestination; 3] = [GcDestination::Own, GcDestination::Internal, GcDestination::Shared];

    /// The name used on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            GcDestination::Own => "own",
            GcDestination::Internal => "internal",
            GcDestination::Shared => "shared",
        }
    }
}

impl fmt::Display for GcDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GcDestination {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| UnknownName {
            what: "GC destination",
            found: name.to_owned(),
            expected: Self::ALL.map(Self::name).join(", "),
        })
    }
}

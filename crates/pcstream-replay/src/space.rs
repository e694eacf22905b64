//! Another device than the traced one: its addresses packed together, static data added, discards left out.
//!
//! Why: what garbage collection costs depends on how full a device is. A trace of 430 MiB on a disk of 30 GiB says nothing
//! by itself; packed onto a device of which it fills 90 %, it does. And one recording with more and more static data gives
//! the curve of WAF over utilisation.
//!
//! Packing keeps the order of addresses and closes the gaps between pages that the trace writes, so what was adjacent stays
//! adjacent. A discard or read of other pages shrinks to those that are used, or vanishes. What was on the device before and is
//! never written is static; packing leaves it out. Known weakness: pages far apart become neighbours, so schemes that cut the
//! address space into chunks see some chunks of mixed origin.
//!
//! A file system that spreads what it allocates writes to many more addresses than hold data at a time. With discards a
//! drive that these addresses fill to 98 % is half empty, and copies nothing. Packing by live data makes the most pages
//! that hold data at once that share of the drive. The addresses stay those of packing: the drive has more of them than it
//! can hold pages, and as it maps pages, it copies what it would copy if freed addresses were used again. Known weakness:
//! a scheme for which neighbours matter sees fewer reused addresses than on a file system of that size.
//!
//! Static data is written before counting, to the lowest pages that the trace never writes, and stays. What was on the
//! device before and is never written is static data, too: a device that is to be emptier loses it from the highest pages
//! on. As it stays, discards of pages that the trace never writes are left out.

use pcstream_ssd::DeviceSettings;
use pcstream_trace::{Batch, Event, Extent, Lba, Op, PAGE_BYTES};

use crate::addresses::{AddressSet, Ranks};

/// What fills a packed device to which share: above 0, at most 1. On a device of a given size static data is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pack {
    /// The pages that the trace writes at any time.
    Addresses(f64),
    /// The most pages that hold data at once, of those that the trace writes.
    Live(f64),
}

impl Pack {
    /// Of the logical pages.
    pub fn share(self) -> f64 {
        let (Pack::Addresses(share) | Pack::Live(share)) = self;
        share
    }
}

/// What a trace writes to.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// The pages.
    pub written: AddressSet,
    /// The most that hold data at once, discards left out if they are to be; what [`Pack::Live`] alone asks for.
    pub peak_live: u64,
}

/// What is to be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceSettings {
    /// Moves the pages that the trace writes together, onto a device of this size.
    pub pack: Option<Pack>,
    /// Adds static data, or leaves out what was there, until this share of the logical pages holds data, what the trace
    /// writes included. 0 to 1.
    pub fill: Option<f64>,
    /// Leaves discards out, as if the file system sent none. Zeroed pages are still zeroed.
    pub no_discard: bool,
}

impl SpaceSettings {
    /// Whether it has to be known beforehand which pages the trace writes.
    pub fn needs_survey(&self) -> bool {
        self.pack.is_some() || self.fill.is_some()
    }

    /// The share of a device that packed addresses are to fill.
    pub fn addresses(&self) -> Option<f64> {
        self.pack.and_then(|pack| if let Pack::Addresses(share) = pack { Some(share) } else { None })
    }

    /// The share of a device that live data is to fill, on packed addresses.
    pub fn live(&self) -> Option<f64> {
        self.pack.and_then(|pack| if let Pack::Live(share) = pack { Some(share) } else { None })
    }
}

/// Settings that the trace does not allow.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// Nothing to pack.
    #[error("the trace writes nothing: there is no address to pack")]
    Nothing,
    /// The device is smaller than what is to be on it.
    #[error(
        "{} {used} {}, which is more than {share} of the device's {logical_pages}: expected {}{}",
        if *live { "of what the trace writes up to" } else { "the trace writes" },
        if *live { "pages hold data at once" } else { "different pages" },
        least.map_or(String::new(), least_device),
        least_share(*used, *logical_pages, least.is_some()),
    )]
    TooSmall {
        /// Different pages that the trace writes, or how many of them hold data at once.
        used: u64,
        /// Which of the two.
        live: bool,
        /// Asked for.
        share: f64,
        /// Of the device.
        logical_pages: u64,
        /// Smallest device for this share; none for a share of 0.
        least: Option<u64>,
    },
}

/// What divisions may be off by, relatively: a share such as 0.7 is no binary fraction.
const ROUNDING: f64 = 1e-12;

/// Rounded up, but not for what a division is off by.
fn up(exact: f64) -> f64 {
    (exact - exact * ROUNDING).ceil()
}

/// The smallest device of which so many pages fill no more than `share`.
fn smallest_device(pages: u64, share: f64) -> u64 {
    up(pages as f64 / share) as u64
}

fn least_device(pages: u64) -> String {
    format!("a device (--capacity) of at least {pages} pages or {} bytes", pages.saturating_mul(PAGE_BYTES))
}

/// The smallest share, with three digits, where there is one, or else a larger device.
fn least_share(used: u64, of: u64, is_second: bool) -> String {
    let share = up(used as f64 / of.max(1) as f64 * 1000.0) / 1000.0;
    let or = if is_second { ", or " } else { "" };
    match share > 1.0 {
        true if is_second => String::new(),
        true => "a larger device (--capacity) and a share above 0".to_owned(),
        false => format!("{or}a share of at least {share}"),
    }
}

/// The changed space.
#[derive(Clone, Debug)]
pub struct Space {
    /// Of the device.
    pub logical_pages: u64,
    /// Pages that can be addressed: `logical_pages`, or more where not all hold data at once.
    pub address_pages: u64,
    /// On the device before counting.
    pub prefill: Vec<Extent>,
    /// Different pages that the trace writes.
    pub used_pages: u64,
    /// The most of them that hold data at once, where the device was packed by that.
    pub peak_live: Option<u64>,
    /// Of the prefill: pages that the trace never writes.
    pub static_pages: u64,
    ranks: Option<Ranks>,
    /// What alone can be discarded, where the rest is to stay.
    discardable: Option<Ranks>,
    no_discard: bool,
}

impl Space {
    /// Changes the space of a trace of a device with `trace_pages` pages that writes to what is `used`. `prefilled` is what
    /// was on it before; `capacity` the number of logical pages, if that is given.
    pub fn new(
        settings: SpaceSettings,
        used: &Used,
        prefilled: &[Extent],
        trace_pages: u64,
        capacity: Option<u64>,
    ) -> Result<Space, SpaceError> {
        let used_pages = used.written.pages();
        let ranks = settings.pack.map(|_| used.written.ranks());
        let prefill = match &ranks {
            Some(ranks) => packed(prefilled, ranks),
            None => prefilled.to_vec(),
        };
        let peak_live = matches!(settings.pack, Some(Pack::Live(_))).then_some(used.peak_live);
        let pack = settings.pack.map(Pack::share);
        let logical_pages = match (pack, capacity) {
            (Some(_), _) if used_pages == 0 => return Err(SpaceError::Nothing),
            (Some(share), None) => smallest_device(peak_live.unwrap_or(used_pages), share),
            (Some(_), Some(capacity)) => capacity,
            (None, capacity) => capacity.unwrap_or(trace_pages).max(trace_pages),
        };
        let mut space = Space {
            logical_pages,
            address_pages: logical_pages,
            prefill,
            used_pages,
            peak_live,
            static_pages: 0,
            ranks,
            discardable: None,
            no_discard: settings.no_discard,
        };
        // A packed device of a given size is filled up to the share asked for; otherwise packing alone makes the share.
        let share = settings.fill.or(pack.filter(|_| capacity.is_some()));
        if let Some(share) = share {
            space.add_static(share, &used.written)?;
        }
        if peak_live.is_some() {
            space.address_pages = logical_pages.max(used_pages + space.static_pages);
        }
        Ok(space)
    }

    /// Whether the pages that the trace writes were moved together.
    pub fn is_packed(&self) -> bool {
        self.ranks.is_some()
    }

    /// `device`, with the addresses of the space.
    pub fn on(&self, device: &DeviceSettings) -> DeviceSettings {
        let namespace_pages = (self.address_pages > self.logical_pages).then_some(self.address_pages);
        DeviceSettings { namespace_pages, ..device.clone() }
    }

    /// Adds static data, or leaves some out, until `share` of the logical pages are used.
    fn add_static(&mut self, share: f64, written: &AddressSet) -> Result<(), SpaceError> {
        let used = self.peak_live.unwrap_or(self.used_pages);
        let wanted = (self.logical_pages as f64 * share).round() as u64;
        if used > wanted {
            let least = (share > 0.0).then(|| smallest_device(used, share));
            let live = self.peak_live.is_some();
            return Err(SpaceError::TooSmall { used, live, share, logical_pages: self.logical_pages, least });
        }
        self.static_pages = wanted - used;
        // Of a packed device nothing else has an address.
        self.discardable = self.ranks.is_none().then(|| written.ranks());
        if self.peak_live.is_some() {
            // Behind all that the trace writes.
            let added = Extent { lba: Lba(self.used_pages), pages: self.static_pages };
            self.prefill.extend(Some(added).filter(|added| added.pages > 0));
            return Ok(());
        }
        let mut occupied = AddressSet::default();
        match &self.ranks {
            Some(ranks) => occupied.add(0, ranks.pages()),
            None => written.extents().for_each(|(first, end)| occupied.add(first, end - first)),
        }
        self.prefill.iter().for_each(|e| occupied.add(e.lba.0, e.pages));
        if occupied.pages() > wanted {
            self.leave_out(written);
            return Ok(());
        }
        let added = occupied.gaps(self.logical_pages, wanted - occupied.pages());
        self.prefill.extend(added);
        self.prefill.sort_unstable_by_key(|extent| extent.lba.0);
        Ok(())
    }

    /// Leaves static data on the device, from the lowest addresses on, until `static_pages` pages are there; the rest goes.
    fn leave_out(&mut self, written: &AddressSet) {
        let set = |extents: &[Extent]| {
            let mut set = AddressSet::default();
            extents.iter().for_each(|e| set.add(e.lba.0, e.pages));
            set
        };
        let end = self.logical_pages;
        let outside = set(&self.prefill).gaps(end, u64::MAX);
        let (mut not_static, mut not_rewritten) = (set(&outside), set(&outside));
        written.extents().for_each(|(first, end)| not_static.add(first, end - first));
        written.gaps(end, u64::MAX).iter().for_each(|e| not_rewritten.add(e.lba.0, e.pages));
        self.prefill = not_static.gaps(end, self.static_pages);
        self.prefill.extend(not_rewritten.gaps(end, u64::MAX));
        self.prefill.sort_unstable_by_key(|extent| extent.lba.0);
    }

    /// Moves the events of a batch; some vanish.
    pub fn change(&self, mut batch: Batch) -> Batch {
        if self.no_discard {
            batch.events.retain(|event| event.op != Op::Discard);
        }
        if let Some(ranks) = &self.ranks {
            batch.events.retain_mut(|event| moved(event, ranks));
        }
        if let Some(discardable) = &self.discardable {
            batch.events = batch.events.iter().flat_map(|event| clipped(event, discardable)).collect();
        }
        batch
    }
}

/// Moves an event; false if nothing is left of it.
fn moved(event: &mut Event, ranks: &Ranks) -> bool {
    if !event.op.has_pages() {
        event.lba = Lba(0);
        return true;
    }
    let first = ranks.below(event.lba.0);
    let end = ranks.below(event.lba.0.saturating_add(u64::from(event.pages)));
    event.lba = Lba(first);
    // No more than the event had.
    event.pages = (end - first) as u32;
    event.pages > 0
}

/// What is left of an event where only some pages can be discarded.
fn clipped(event: &Event, discardable: &Ranks) -> Vec<Event> {
    if !matches!(event.op, Op::Discard | Op::WriteZeroes) {
        return vec![*event];
    }
    let parts = discardable.within(event.lba.0, event.lba.0 + u64::from(event.pages));
    // No more than the event had.
    parts.map(|(first, end)| Event { lba: Lba(first), pages: (end - first) as u32, ..*event }).collect()
}

fn packed(prefilled: &[Extent], ranks: &Ranks) -> Vec<Extent> {
    let mut set = AddressSet::default();
    for extent in prefilled {
        let first = ranks.below(extent.lba.0);
        set.add(first, ranks.below(extent.lba.0 + extent.pages) - first);
    }
    set.extents().map(|(first, end)| Extent { lba: Lba(first), pages: end - first }).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn event(op: Op, lba: u64, pages: u32) -> Event {
        Event { op, ..Event::write(lba, pages) }
    }

    fn batch() -> Batch {
        let events = vec![
            event(Op::Write, 100, 10),
            event(Op::Write, 5000, 4),
            event(Op::Discard, 0, 105),
            event(Op::Discard, 200, 50),
            event(Op::Read, 4000, 2000),
            event(Op::Flush, 77, 0),
        ];
        Batch { events, ..Batch::default() }
    }

    fn written(batch: &Batch) -> Used {
        let mut used = Used::default();
        let writes = batch.events.iter().filter(|e| e.op == Op::Write);
        writes.for_each(|e| used.written.add(e.lba.0, u64::from(e.pages)));
        used
    }

    fn extent(lba: u64, pages: u64) -> Extent {
        Extent { lba: Lba(lba), pages }
    }

    #[test]
    fn packing_closes_gaps_and_drops_what_is_not_used() {
        let settings = SpaceSettings { pack: Some(Pack::Addresses(0.7)), ..SpaceSettings::default() };
        let prefilled = [extent(0, 102), extent(4000, 1001)];
        let space = Space::new(settings, &written(&batch()), &prefilled, 8000, None).unwrap();
        assert_eq!((space.logical_pages, space.used_pages, space.static_pages), (20, 14, 0));
        assert_eq!(space.prefill, [extent(0, 2), extent(10, 1)]);
        let moved: Vec<_> = space.change(batch()).events.iter().map(|e| (e.op, e.lba.0, e.pages)).collect();
        let expected = [
            (Op::Write, 0, 10),
            (Op::Write, 10, 4),
            (Op::Discard, 0, 5),
            (Op::Read, 10, 4),
            (Op::Flush, 0, 0),
        ];
        assert_eq!(moved, expected);
    }

    #[test]
    fn a_packed_device_has_no_page_too_many() {
        let mut used = Used::default();
        let mut packed = |pages, share| {
            used.written.add(0, pages);
            let settings = SpaceSettings { pack: Some(Pack::Addresses(share)), ..SpaceSettings::default() };
            Space::new(settings, &used, &[], 8000, None).unwrap().logical_pages
        };
        assert_eq!([packed(1, 1.0), packed(700, 0.35), packed(11466, 0.7)], [1, 2000, 16380]);
        assert_eq!([packed(11467, 0.7), packed(1 << 32, 1.0)], [16382, 1 << 32]);
        let settings = SpaceSettings { fill: Some(0.35), ..SpaceSettings::default() };
        let mut used = Used::default();
        used.written.add(0, 700);
        let error = Space::new(settings, &used, &[], 1000, None).unwrap_err().to_string();
        assert!(error.contains("at least 2000 pages") && error.contains("at least 0.7"), "{error}");
        assert_eq!(least_share(7, 100, false), "a share of at least 0.07");
    }

    #[test]
    fn static_data_fills_what_the_trace_never_writes() {
        let settings = SpaceSettings { pack: Some(Pack::Addresses(0.9)), ..SpaceSettings::default() };
        let space = Space::new(settings, &written(&batch()), &[extent(100, 1)], 8000, Some(100)).unwrap();
        assert_eq!((space.logical_pages, space.static_pages), (100, 76));
        assert_eq!(space.prefill, [extent(0, 1), extent(14, 76)]);

        let settings = SpaceSettings { fill: Some(0.5), ..SpaceSettings::default() };
        let space = Space::new(settings, &written(&batch()), &[extent(90, 15)], 200 * 1024, None);
        let space = space.unwrap();
        assert_eq!(space.static_pages, 100 * 1024 - 14);
        let pages: u64 = space.prefill.iter().map(|e| e.pages).sum();
        assert_eq!(pages, space.static_pages + 5, "five prefilled pages are written by the trace");
        assert!(space.prefill.windows(2).all(|pair| pair[0].lba.0 + pair[0].pages <= pair[1].lba.0));

        let error =
            Space::new(SpaceSettings { fill: Some(0.1), ..settings }, &written(&batch()), &[], 100, None);
        assert!(matches!(error, Err(SpaceError::TooSmall { used: 14, least: Some(140), .. })), "{error:?}");
        assert!(
            error
                .unwrap_err()
                .to_string()
                .ends_with("at least 140 pages or 573440 bytes, or a share of at least 0.14")
        );
        let pack = SpaceSettings { pack: Some(Pack::Addresses(0.9)), ..SpaceSettings::default() };
        let error = Space::new(pack, &written(&batch()), &[], 8000, Some(10)).unwrap_err();
        assert!(error.to_string().ends_with("at least 16 pages or 65536 bytes"), "{error}");

        let fill = |pages| {
            let settings = SpaceSettings { fill: Some(0.0), ..settings };
            Space::new(settings, &written(&batch()), &[], pages, None).unwrap_err().to_string()
        };
        assert!(
            fill(100).ends_with("of the device's 100: expected a share of at least 0.14"),
            "{}",
            fill(100)
        );
        assert!(
            fill(1).ends_with("expected a larger device (--capacity) and a share above 0"),
            "{}",
            fill(1)
        );
    }

    /// Otherwise a trace of a full device would give one result for all shares.
    #[test]
    fn a_device_that_is_to_be_emptier_loses_static_data() {
        let settings = SpaceSettings { fill: Some(0.5), ..SpaceSettings::default() };
        // The trace writes 14 pages, of which 100 and 101 were not there before.
        let space = Space::new(settings, &written(&batch()), &[extent(102, 9898)], 10_000, None).unwrap();
        assert_eq!((space.static_pages, space.used_pages), (4986, 14));
        let kept = [extent(102, 8), extent(110, 4890), extent(5000, 4), extent(5004, 96)];
        assert_eq!(space.prefill, kept);
    }

    /// Otherwise a drive that is to be fuller would hold no more, from some share on.
    #[test]
    fn static_data_outlives_discards_of_what_the_trace_never_writes() {
        let settings = SpaceSettings { fill: Some(0.9), ..SpaceSettings::default() };
        let space = Space::new(settings, &written(&batch()), &[], 8000, None).unwrap();
        let changed: Vec<_> = space.change(batch()).events.iter().map(|e| (e.op, e.lba.0, e.pages)).collect();
        let expected = [
            (Op::Write, 100, 10),
            (Op::Write, 5000, 4),
            (Op::Discard, 100, 5),
            (Op::Read, 4000, 2000),
            (Op::Flush, 77, 0),
        ];
        assert_eq!(changed, expected);
    }

    #[test]
    fn discards_are_left_out() {
        let settings = SpaceSettings { no_discard: true, ..SpaceSettings::default() };
        let space = Space::new(settings, &Used::default(), &[], 8000, None).unwrap();
        let ops: Vec<Op> = space.change(batch()).events.iter().map(|e| e.op).collect();
        assert_eq!(ops, [Op::Write, Op::Write, Op::Read, Op::Flush]);
    }
}

//! The oracles: the future is known. How far another scheme is from what streams could do.
//!
//! Idea: put pages together that die together. With few streams there are several ways to choose
//! who is together; none is proven best, so each is a named variant and the best of them is what
//! to compare with. All use every stream of the device, S0 included.
//!
//! - `Fk`: class = min(floor(remaining / superblock), k - 1), survivors in the last (FK of SepBIT,
//!   FAST'22). Made for many classes: with 9, everything beyond eight superblocks is one class.
//! - `Quantile`: classes of the remaining lifetime that hold equally many pages each.
//! - `Log`: clusters of the logarithm of the remaining lifetime, by exact k-means; survivors in a
//!   class of their own. Best where lifetimes spread over many octaves.
//! - `Window`: windows of absolute death time, after NoDaP (FAST'26). Pages that die in the same
//!   window of logical time share a stream, whenever they were written, so that superblocks die
//!   whole. A stream serves every (k - 1)-th window; pages that die beyond the next k - 1 windows,
//!   and survivors, take the last stream.
//!
//! Units: pages of logical time; a page's remaining lifetime is its death less the time of its own
//! writing.
//!
//! Known weaknesses: an oracle knows deaths, not what garbage collection will do; it does not
//! place survivors a second time. It is a strong yardstick, not a bound.

use std::sync::Arc;

use pcstream_trace::{Event, Tables};

use crate::error::{SchemeError, check};
use crate::future::Future;
use crate::parameter;
use crate::parameter::{Environment, Parameter, Parameters};
use crate::pcstream::cluster::{Weighted, k_means, log2_fixed};
use crate::scheme::{Placement, Scheme, SchemeFact, Stream, push_run};

/// Pages looked at to find quantiles; 32 MiB of memory while they are sorted.
const SAMPLE: usize = 1 << 22;

/// Who shares a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OracleForm {
    /// Remaining lifetime in superblocks.
    Fk,
    /// Equal-mass quantiles of the remaining lifetime.
    Quantile,
    /// Clusters of the logarithm of the remaining lifetime.
    #[default]
    Log,
    /// Windows of absolute death time.
    Window,
}

/// Parameters of the oracles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OracleParams {
    /// What `oracle` is; the other names fix it.
    pub form: OracleForm,
    /// Pages of a window of `Window`. By default as many as let the k - 1 windows reach the 90 %
    /// quantile of the remaining lifetimes that end, but at least a superblock.
    pub window_pages: Option<u64>,
}

impl Parameters for OracleParams {
    const LIST: &'static [Parameter<OracleParams>] = &[];

    fn build(&self, scheme: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(Oracle::new(scheme, environment, *self)?))
    }
}

/// What users may set of `oracle-window`, the only form with windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowParams {
    /// As [`OracleParams::window_pages`].
    pub window_pages: Option<u64>,
}

impl Parameters for WindowParams {
    const LIST: &'static [Parameter<WindowParams>] = &[parameter!(
        WindowParams,
        window_pages,
        "pages",
        "pages of a window; none reaches the 90 % quantile of lifetimes",
        "this project, after NoDaP (FAST'26)"
    )];

    fn build(&self, scheme: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        let params = OracleParams { form: OracleForm::Window, window_pages: self.window_pages };
        params.build(scheme, environment)
    }
}

/// How a death becomes a class.
enum Classes {
    Fk {
        segment: u64,
    },
    /// The smallest remaining lifetime of each class but the first; `None` is longer than any.
    Quantile {
        bounds: Vec<Option<u64>>,
    },
    Window {
        pages: u64,
    },
}

/// An oracle.
pub struct Oracle {
    future: Arc<Future>,
    classes: Classes,
    streams: u8,
    unforeseen_pages: u64,
}

impl Oracle {
    /// Makes an oracle; errors name it `scheme`.
    pub fn new(
        scheme: &'static str,
        environment: &Environment,
        params: OracleParams,
    ) -> Result<Oracle, SchemeError> {
        let future = environment.future.clone().ok_or(SchemeError::NeedsFuture { scheme })?;
        let streams = environment.streams();
        let segment = u64::from(environment.superblock_pages);
        check(segment > 0, scheme, "superblock_pages", segment, "at least 1")?;
        check(params.window_pages != Some(0), scheme, "window_pages", 0, "at least 1")?;
        let classes = match params.form {
            OracleForm::Fk => Classes::Fk { segment },
            OracleForm::Quantile => Classes::Quantile { bounds: quantiles(&future, streams) },
            OracleForm::Log => Classes::Quantile { bounds: clusters(&future, streams) },
            OracleForm::Window => Classes::Window {
                pages: params.window_pages.unwrap_or_else(|| window_pages(&future, streams).max(segment)),
            },
        };
        Ok(Oracle { future, classes, streams, unforeseen_pages: 0 })
    }

    /// The class of the page written at logical time `written`.
    #[inline]
    fn class(&self, written: u64) -> u8 {
        let last = self.streams - 1;
        let death = self.future.death(written);
        match &self.classes {
            Classes::Fk { segment } => {
                death.map_or(last, |d| ((d - written) / segment).min(u64::from(last)) as u8)
            }
            Classes::Quantile { bounds } => match death {
                None => last,
                Some(d) => bounds.partition_point(|b| b.is_some_and(|b| b <= d - written)) as u8,
            },
            Classes::Window { pages } => match death {
                Some(d) if last > 0 && d / pages - written / pages < u64::from(last) => {
                    (d / pages % u64::from(last)) as u8
                }
                _ => last,
            },
        }
    }
}

impl Scheme for Oracle {
    fn place(&mut self, event: &Event, now: u64, _: &Tables, out: &mut Vec<Placement>) {
        let end = now + u64::from(event.pages);
        // Another trace's future says nothing; better S0 and a count than a wrong number.
        if end > self.future.pages() {
            self.unforeseen_pages += u64::from(event.pages);
            out.push(Placement { pages: event.pages, stream: Stream::DEFAULT });
            return;
        }
        let start = out.len();
        for written in now..end {
            push_run(out, start, 1, Stream(self.class(written)));
        }
    }

    fn facts(&self) -> Vec<SchemeFact> {
        let mut facts = vec![("unforeseen_pages", self.unforeseen_pages)];
        if let Classes::Window { pages } = self.classes {
            facts.push(("window_pages", pages));
        }
        facts
    }
}

/// Fractional bits of a logarithm that are clustered; finer makes no difference and takes longer.
const LOG_BITS: u32 = 6;

/// Different logarithms of 64-bit numbers.
const LOGS: usize = (u64::BITS as usize) << LOG_BITS;

/// Where the clusters of the remaining lifetime's logarithm begin, the first excepted; survivors come last.
fn clusters(future: &Future, classes: u8) -> Vec<Option<u64>> {
    // By logarithm: the least lifetime that has it, and how many have it.
    let mut bins = vec![(u64::MAX, 0); LOGS];
    let mut survivors = false;
    for remaining in future.sample(SAMPLE) {
        match remaining {
            None => survivors = true,
            Some(remaining) => {
                let (least, count) = &mut bins[(log2_fixed(remaining) >> (16 - LOG_BITS)) as usize];
                (*least, *count) = (remaining.min(*least), *count + 1);
            }
        }
    }
    let found = || bins.iter().zip(0..).filter(|((_, count), _)| *count > 0);
    let points: Vec<Weighted> = found().map(|(&(_, count), value)| Weighted { value, count }).collect();
    let finite = usize::from(classes) - usize::from(survivors);
    if points.is_empty() || finite == 0 {
        return Vec::new();
    }
    let begins: Vec<u64> = found().map(|(&(least, _), _)| least).collect();
    let cuts = k_means(&points, finite);
    let mut bounds: Vec<Option<u64>> = cuts.iter().skip(1).map(|&cut| Some(begins[cut])).collect();
    bounds.extend(survivors.then_some(None));
    bounds
}

/// Where the classes of equal mass begin, the first excepted.
fn quantiles(future: &Future, classes: u8) -> Vec<Option<u64>> {
    let mut sample: Vec<u64> = future.sample(SAMPLE).map(|r| r.unwrap_or(u64::MAX)).collect();
    sample.sort_unstable();
    let classes = usize::from(classes);
    (1..classes).map(|i| sample.get(sample.len() * i / classes).copied().filter(|&r| r != u64::MAX)).collect()
}

/// The window that lets `streams` - 1 of them reach the 90 % quantile of the lifetimes that end.
fn window_pages(future: &Future, streams: u8) -> u64 {
    let mut sample: Vec<u64> = future.sample(SAMPLE).flatten().collect();
    sample.sort_unstable();
    let reach = sample.get(sample.len() * 9 / 10).copied().unwrap_or(1);
    reach.div_ceil(u64::from(streams - 1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, discard, write};

    /// A device that knows these events.
    fn foreseen(streams: u8, superblock_pages: u32, events: &[Event]) -> Environment {
        let mut device = device(streams);
        device.superblock_pages = superblock_pages;
        device.future = Some(Arc::new(Future::from_events(events).expect("short")));
        device
    }

    fn place(form: OracleForm, streams: u8) -> Vec<u8> {
        place_on(foreseen(streams, 4096, &events()), OracleParams { form, window_pages: None })
    }

    fn place_on(device: Environment, params: OracleParams) -> Vec<u8> {
        let mut oracle = Oracle::new("oracle", &device, params).expect("valid");
        let (mut now, mut out, tables) = (0, Vec::new(), Tables::default());
        for event in &events() {
            match event.op {
                pcstream_trace::Op::Write => {
                    oracle.place(event, now, &tables, &mut out);
                    now += u64::from(event.pages);
                }
                _ => oracle.discard(event, now, &tables),
            }
        }
        assert_eq!(out.iter().map(|p| u64::from(p.pages)).sum::<u64>(), now);
        out.iter().flat_map(|p| (0..p.pages).map(|_| p.stream.0)).collect()
    }

    /// Writes 0..8 to pages 0..8, then single rewrites: deaths are
    /// write  0  1  2  3  4  5  6  7 | 8  9 10 11
    /// page   0  1  2  3  4  5  6  7 | 0  1  0  7
    /// death  8  9 12 12  -  - 12 11 | 10 -  -  -     pages 2, 3 and 6 are discarded at 12
    fn events() -> Vec<Event> {
        let mut events = vec![write(0, 8)];
        events.extend([0, 1, 0, 7].map(|l| write(l, 1)));
        events.extend([2, 3, 6].map(|l| discard(l, 1)));
        events
    }

    #[test]
    fn fk_by_hand() {
        // remaining 8 8 10 9 - - 6 4 | 2 - - -; segments of 3 pages: 2 2 3 3 - - 2 1 | 0
        let fk = OracleParams { form: OracleForm::Fk, window_pages: None };
        let of = |streams| place_on(foreseen(streams, 3, &events()), fk);
        let four = of(4);
        assert_eq!(four, [2, 2, 3, 3, 3, 3, 2, 1, 0, 3, 3, 3]);
        assert_eq!(of(2), [1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1]);
        assert_eq!(of(1), [0; 12]);
    }

    #[test]
    fn quantiles_by_hand() {
        // sorted remaining: 2 4 6 8 | 8 9 10 - | - - - -: classes of three begin at the 4th and 8th
        let three = place(OracleForm::Quantile, 3);
        assert_eq!(three, [1, 1, 1, 1, 2, 2, 0, 0, 0, 2, 2, 2]);
        let two = place(OracleForm::Quantile, 2);
        assert_eq!(two, [0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1], "the half begins at 10");
    }

    #[test]
    fn logarithms_by_hand() {
        // remaining: 2 | 4 6 | 8 8 9 10, and survivors
        let four = place(OracleForm::Log, 4);
        assert_eq!(four, [2, 2, 2, 2, 3, 3, 1, 1, 0, 3, 3, 3]);
        let two = place(OracleForm::Log, 2);
        assert_eq!(two, [0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1]);
        assert_eq!(place(OracleForm::Log, 1), [0; 12]);
    }

    #[test]
    fn windows_by_hand() {
        // windows of 4: deaths 8 9 12 12 - - 12 11 | 10: windows 2 2 3 3 - - 3 2 | 2
        // written in windows 0 0 0 0 1 1 1 1 | 2; three windows ahead are served by S0..S2
        let params = OracleParams { form: OracleForm::Window, window_pages: Some(4) };
        let of = |streams| place_on(foreseen(streams, 4096, &events()), params);
        let four = of(4);
        assert_eq!(four, [2, 2, 3, 3, 3, 3, 0, 2, 2, 3, 3, 3], "window 3 is too far at first, then S0");
        assert_eq!(of(1), [0; 12]);
    }

    /// Finite remaining lifetimes sorted: 2 4 6 8 8 9 10; the 90 % quantile is the last, 10; four
    /// windows reach it with 3 pages each, but not less than a superblock.
    #[test]
    fn the_default_window_reaches_most_lifetimes() {
        let facts = |superblock_pages| {
            let device = foreseen(5, superblock_pages, &events());
            assert_eq!(window_pages(device.future.as_ref().expect("given"), 5), 3);
            let params = OracleParams { form: OracleForm::Window, window_pages: None };
            Oracle::new("oracle", &device, params).expect("valid").facts()
        };
        assert_eq!(facts(1)[1], ("window_pages", 3));
        assert_eq!(facts(64)[1], ("window_pages", 64));
    }

    #[test]
    fn a_foreign_future_is_counted() {
        let device = foreseen(4, 4096, &[write(0, 2)]);
        let mut oracle = Oracle::new("oracle", &device, OracleParams::default()).expect("valid");
        let mut out = Vec::new();
        oracle.place(&write(0, 1), 0, &Tables::default(), &mut out);
        oracle.place(&write(0, 3), 1, &Tables::default(), &mut out);
        assert_eq!(out[1], Placement { pages: 3, stream: Stream::DEFAULT });
        assert_eq!(oracle.facts()[0], ("unforeseen_pages", 3));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for (superblock_pages, window_pages) in [(0, None), (4096, Some(0))] {
            let bad = OracleParams { window_pages, ..OracleParams::default() };
            assert!(Oracle::new("oracle", &foreseen(4, superblock_pages, &[]), bad).is_err(), "{bad:?}");
        }
        for form in [OracleForm::Fk, OracleForm::Quantile, OracleForm::Log, OracleForm::Window] {
            let params = OracleParams { form, window_pages: None };
            let empty = foreseen(4, 4096, &[]);
            assert!(Oracle::new("oracle", &empty, params).is_ok(), "an empty trace is one too");
        }
    }
}

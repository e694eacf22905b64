//! A verdict in words: the conclusion with its numbers, and what else is worth a sentence.
//!
//! Idea: a conclusion is about one result, whose WAF, flash and life it gives beside those of today. The next sentence says
//! how much of that the drive gives alone, and how much streams by call path alone, which is what real writes can have.

use pcstream_replay::LaneResult;
use pcstream_ssd::GcDestination;
use pcstream_trace::PAGE_BYTES;

use super::{Compared, Matters, SideJson, Verdict, WORTH_IT, online, says_nothing};
use crate::drive::{LEAST_GAIN, in_words, is_worth, result_in_words, saved};
use crate::human::{SHOWN, bytes, percent, ratio, saving};

/// What is said of traces without contexts.
const NO_CONTEXTS: &str = "No write of this trace has a program context, so it cannot show what streams by call path (pcstream) would save.";

/// What is said of a device with one stream.
pub const ONE_STREAM: &str =
    "This device has one stream, so nothing shows what streams would save: give it more with --streams.";

/// Where live data fill less of the flash, WAF is below `CALM` even if they are overwritten at random (FIFO, by its closed form).
const FULL: f64 = 0.31;
/// What a drive writes beside the host's data is hardly worth a word below this.
const CALM: f64 = 1.05;

/// What can be done with the trace of a result that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    /// It is gone: a run that keeps none.
    NotKept,
    /// It can be simulated again.
    Kept,
    /// It is packed already.
    Packed,
}

/// The conclusion, and then one more sentence each. Whether its writers are `unknown`, and what can be done with the `trace`.
pub fn sentences(
    verdict: &Verdict,
    lanes: &[LaneResult],
    compared: &Compared<'_>,
    (unknown, trace): (bool, Trace),
) -> Vec<String> {
    if lanes.iter().all(|lane| lane.host_pages() == 0) {
        return vec!["The host wrote nothing: there is no WAF.".to_owned()];
    }
    let Some(now) = compared.now else {
        return vec!["Nothing to compare with: add baseline to --scheme for a verdict.".to_owned()];
    };
    let no_contexts = || unknown.then(|| NO_CONTEXTS.to_owned());
    let Some(with) = compared.with else {
        if says_nothing(now) {
            return [nothing_yet(now, trace)].into_iter().chain(no_contexts()).collect();
        }
        let waf = format!("WAF now: {} ({}).", ratio(now.waf()), result_in_words(now));
        if now.geometry.streams() == 1 {
            return vec![format!("{waf} {ONE_STREAM}")];
        }
        let (scheme, what) =
            if unknown { ("autostream-sfr", "streams by address") } else { ("pcstream", "streams") };
        let add = format!("Add {scheme} to --scheme to see what {what} would save.");
        return [format!("{waf} {add}")].into_iter().chain(no_contexts()).collect();
    };
    let words = Words { verdict, compared, now, with, trace };
    let finding = words.finding();
    let mut out = vec![words.conclusion(finding)];
    out.extend(no_contexts());
    out.extend(words.steadiness(finding));
    if matches!(finding, Finding::NothingYet) || words.nothing_to_gain(finding) {
        return out;
    }
    out.extend(words.elsewhere(finding));
    out.extend(words.best(lanes, finding));
    out.extend(compared.best_foreseeing.map(|oracle| {
        format!("Best of the schemes that know the future: {} ({}).", ratio(oracle.waf()), oracle.scheme)
    }));
    out.push(words.this_run(finding));
    out
}

/// What a conclusion says.
#[derive(Clone, Copy)]
enum Finding<'a> {
    /// The drive copied nothing yet.
    NothingYet,
    /// Neither streams nor another drive save 1 %.
    NoGain,
    /// Streams are worth something, beside what the drive does alone.
    Streams,
    /// A drive that keeps copies apart is; streams of the host are not.
    Drive(&'a LaneResult),
    /// Streams are, on a legacy multi-stream SSD; the other drive is, without streams of the host.
    Either { legacy: &'a LaneResult, drive: &'a LaneResult },
    /// Streams are, on a legacy multi-stream SSD alone.
    OnLegacyDrive(&'a LaneResult),
    /// Streams are, but not on a legacy multi-stream SSD.
    NotOnLegacyDrive,
    /// Streams are worth it on a legacy multi-stream SSD, and help a little on the other drive.
    MoreOnLegacyDrive(&'a LaneResult),
}

struct Words<'a> {
    verdict: &'a Verdict,
    compared: &'a Compared<'a>,
    now: &'a LaneResult,
    with: &'a LaneResult,
    trace: Trace,
}

impl<'a> Words<'a> {
    fn finding(&self) -> Finding<'a> {
        let (verdict, now) = (self.verdict, self.now);
        match verdict.matters {
            Matters::Unknown => return Finding::NothingYet,
            Matters::No => return Finding::NoGain,
            Matters::Yes | Matters::Little => {}
        }
        let helps = |lane: &LaneResult| saved(lane, now).is_some_and(|saved| saved >= LEAST_GAIN);
        let worth_with = is_worth(verdict.flash_saved, verdict.flash_saved_on_same_drive);
        let worth_on_legacy = is_worth(verdict.flash_saved_on_legacy_drive, None);
        match (self.compared.same_drive, self.compared.legacy) {
            (Some(drive), Some(legacy)) if worth_on_legacy && !worth_with => match helps(drive) {
                true => Finding::Either { legacy, drive },
                false => Finding::OnLegacyDrive(legacy),
            },
            (Some(_), Some(_)) if worth_with && !worth_on_legacy => Finding::NotOnLegacyDrive,
            (Some(drive), _) if !worth_with && helps(drive) => Finding::Drive(drive),
            (_, Some(legacy)) if verdict.matters == Matters::Yes && !self.is_worth_it(self.with) => {
                Finding::MoreOnLegacyDrive(legacy)
            }
            _ => Finding::Streams,
        }
    }

    /// Whether the drive copies nothing, as far as the WAF that is shown says, so that nothing can save anything.
    fn nothing_to_gain(&self, finding: Finding<'a>) -> bool {
        let copies_nothing = ratio(self.now.waf()) == ratio(Some(1.0));
        matches!(finding, Finding::NoGain) && copies_nothing && saved(self.with, self.now) >= Some(-SHOWN)
    }

    /// One or two sentences.
    fn conclusion(&self, finding: Finding<'a>) -> String {
        let drive = in_words(self.with.settings.gc_destination);
        let claim = match finding {
            Finding::NothingYet => return nothing_yet(self.now, self.trace),
            _ if self.nothing_to_gain(finding) => return format!("{}: {}.", self.no_gain(), self.today()),
            Finding::NoGain => self.no_gain(),
            Finding::Either { legacy, drive: alone } => {
                let (by, waf) = (&legacy.scheme, |lane: &LaneResult| ratio(lane.waf()));
                return format!(
                    "Either of two helps{} here: streams of the host on a legacy multi-stream SSD, or {drive} without \
                     streams of the host. {}, {} with {by} on the legacy drive ({}), {} on the other without streams ({}).",
                    if self.verdict.matters == Matters::Yes { "" } else { " a little" },
                    self.today(),
                    waf(legacy),
                    self.less(legacy),
                    waf(alone),
                    self.less(alone)
                );
            }
            Finding::Streams if self.is_worth_it(self.with) => {
                format!("{} are worth it here", self.streams(WORTH_IT))
            }
            Finding::Streams => format!("{} would help a little here", self.streams(LEAST_GAIN)),
            Finding::Drive(lane) => format!(
                "A drive that keeps copies apart helps{} here; streams of the host do not",
                self.a_little(lane)
            ),
            Finding::OnLegacyDrive(lane) => format!(
                "Streams of the host help{} here on a legacy multi-stream SSD, but not on {drive}",
                self.a_little(lane)
            ),
            Finding::NotOnLegacyDrive => format!(
                "Streams of the host help{} here on {drive}, but not on a legacy multi-stream SSD",
                self.a_little(self.with)
            ),
            Finding::MoreOnLegacyDrive(_) => format!(
                "Streams of the host are worth it here on a legacy multi-stream SSD, and help a little on {drive}"
            ),
        };
        let about = self.about(finding);
        let beside = self.beside(finding).map_or(String::new(), |sentence| format!(" {sentence}"));
        format!("{claim}: {}.{beside}", self.numbers(about))
    }

    /// The result whose numbers the conclusion gives.
    fn about(&self, finding: Finding<'a>) -> &'a LaneResult {
        match finding {
            Finding::Drive(lane) | Finding::OnLegacyDrive(lane) | Finding::MoreOnLegacyDrive(lane) => lane,
            Finding::Either { legacy, .. } => legacy,
            _ => self.with,
        }
    }

    /// Whether the flash that a result saves is worth a change.
    fn is_worth_it(&self, lane: &LaneResult) -> bool {
        saved(lane, self.now).is_some_and(|saved| saved >= WORTH_IT)
    }

    fn a_little(&self, lane: &LaneResult) -> &'static str {
        if self.is_worth_it(lane) { "" } else { " a little" }
    }

    /// What is worth something: all streams, unless those that real writes can have save less than `enough`.
    fn streams(&self, enough: f64) -> &'static str {
        match self.real().and_then(|real| self.by_host(real)) {
            Some(saved) if saved < enough => "Streams by call path and each page's history",
            _ => "Streams",
        }
    }

    /// The result of what `pcstream place` can do, if it is another one.
    fn real(&self) -> Option<&'a LaneResult> {
        self.compared.real.filter(|real| !std::ptr::eq(*real, self.with))
    }

    /// What streams of the host save, where the drive may save something alone.
    fn by_host(&self, lane: &LaneResult) -> Option<f64> {
        saved(lane, self.compared.same_drive.unwrap_or(self.now))
    }

    /// WAF now and of a result.
    fn numbers(&self, lane: &LaneResult) -> String {
        format!("{}, {}", self.today(), self.numbers_of(lane))
    }

    fn today(&self) -> String {
        let drive = match self.now.settings.gc_destination {
            GcDestination::Own => String::new(),
            _ => format!(" ({})", result_in_words(self.now)),
        };
        format!("WAF {} now{drive}", ratio(self.now.waf()))
    }

    /// WAF of a result, and what that is in flash and life.
    fn numbers_of(&self, lane: &LaneResult) -> String {
        let by = match lane.scheme.as_str() {
            "baseline" => format!("on {} alone", in_words(lane.settings.gc_destination)),
            _ => format!("with {}", result_in_words(lane)),
        };
        format!("{} {by}; {}{}", ratio(lane.waf()), self.less(lane), self.life(lane))
    }

    /// How much less flash than now.
    fn less(&self, lane: &LaneResult) -> String {
        match saved(lane, self.now).unwrap_or(0.0) {
            s if s >= SHOWN => format!("{} less flash", percent(s)),
            s if s <= -SHOWN => format!("{} more flash", percent(-s)),
            _ => "no less flash".to_owned(),
        }
    }

    /// What the difference is in a day, at the rate of this run, and in drive life; nothing where it is nothing.
    fn life(&self, lane: &LaneResult) -> String {
        let saved = saved(lane, self.now).unwrap_or(0.0);
        if saved.abs() < LEAST_GAIN {
            return String::new();
        }
        let a_day = match (self.a_day(lane), self.a_day(self.now)) {
            (Some(with), Some(now)) => format!(" ({} a day instead of {})", bytes(with), bytes(now)),
            _ => String::new(),
        };
        format!("{a_day}, drive life x {:.2}", 1.0 / (1.0 - saved))
    }

    fn a_day(&self, lane: &LaneResult) -> Option<u64> {
        let SideJson { flash_bytes, flash_bytes_per_day, .. } = self.verdict.now.as_ref()?;
        let per_byte = (*flash_bytes_per_day)? as f64 / *flash_bytes as f64;
        Some(((lane.flash_pages() * PAGE_BYTES) as f64 * per_byte) as u64)
    }

    /// What of the numbers is due to the drive, and what real writes can have.
    fn beside(&self, finding: Finding<'a>) -> Option<String> {
        let host = self.by_host(self.with)?;
        match (finding, self.compared.same_drive) {
            (Finding::Drive(_), _) => {
                let (waf, scheme) = (ratio(self.with.waf()), &self.with.scheme);
                Some(format!("There the host's streams {} ({waf} with {scheme}).", another(host)))
            }
            (Finding::NoGain, _) if host.abs() < SHOWN => None,
            (Finding::Streams | Finding::NotOnLegacyDrive | Finding::NoGain, Some(same)) => {
                // What costs something is no offer.
                let real = self.of_real_writes().filter(|_| host >= SHOWN);
                let real = real.map_or(String::new(), |real| format!(", or {real}"));
                let alone = ratio(same.waf());
                Some(format!(
                    "Of this, the drive alone gives {alone}; the host's streams {}{real}.",
                    another(host)
                ))
            }
            (Finding::Streams, None) => self.of_real_writes().map(|real| format!("They save {real}.")),
            _ => None,
        }
    }

    /// What streams by call path alone save of the drive's flash.
    fn of_real_writes(&self) -> Option<String> {
        let real = self.real()?;
        let saved = self.by_host(real)?;
        // That is the default of `place`.
        let scheme =
            if real.scheme == "pcstream" { String::new() } else { format!(" --scheme {}", real.scheme) };
        Some(format!(
            "{} by call path alone, as pcstream place{scheme} has them ({})",
            saving(saved),
            ratio(real.waf())
        ))
    }

    fn no_gain(&self) -> String {
        let now = self.now;
        let fill = now.live_pages as f64 / now.geometry.physical_pages() as f64;
        let full = percent(fill);
        if self.with.flash_pages() > now.flash_pages() {
            return "Streams as this scheme chooses them do not help here".to_owned();
        }
        let next_to_nothing = "Streams would save next to nothing";
        // Until then GC may have run on the data of the first fill only, which says nothing of the causes.
        if !self.verdict.steady && fill >= FULL {
            return format!(
                "Streams saved next to nothing in this run, at whose end live data fill {full} of the flash"
            );
        }
        match now.waf().is_some_and(|waf| waf < CALM) {
            true if fill < FULL => {
                format!("{next_to_nothing}, because live data fill only {full} of the flash")
            }
            // Written at random, data that fill so much would be copied.
            true => format!(
                "{next_to_nothing}, because most data have died when the drive erases them (live data fill {full} of the flash)"
            ),
            false => format!("{next_to_nothing} here, where live data fill {full} of the flash"),
        }
    }

    fn steadiness(&self, finding: Finding<'a>) -> Option<String> {
        if self.verdict.steady || self.verdict.matters == Matters::Unknown {
            return None;
        }
        let about = self.about(finding);
        // On the drive of the conclusion.
        let with = match about.scheme.as_str() {
            "baseline" => "on that drive".to_owned(),
            scheme => format!("with {scheme}"),
        };
        Some(format!(
            "Not steady yet: write at least {} more for a steady answer (in the last part of the run {} now, {} {with}).",
            bytes(self.verdict.bytes_to_steady),
            ratio(self.now.steady_waf()),
            ratio(about.steady_waf()),
        ))
    }

    /// What streams do on the kind of drive that the conclusion gives no numbers of.
    fn elsewhere(&self, finding: Finding<'a>) -> Option<String> {
        let lane = match finding {
            Finding::NothingYet | Finding::NoGain | Finding::Drive(_) => return None,
            Finding::Either { .. } | Finding::OnLegacyDrive(_) | Finding::MoreOnLegacyDrive(_) => self.with,
            Finding::Streams | Finding::NotOnLegacyDrive => self.compared.legacy?,
        };
        let on = in_words(lane.settings.gc_destination);
        Some(format!("Streams on {on}: {} ({}); {}.", ratio(lane.waf()), lane.scheme, self.less(lane)))
    }

    /// What does better than the recommendation by more than a percent.
    fn best(&self, lanes: &[LaneResult], finding: Finding<'a>) -> Option<String> {
        let best = online(lanes).min_by_key(|lane| lane.flash_pages())?;
        let mut than = [self.now, self.with, self.about(finding)].into_iter().chain(self.compared.legacy);
        let better = than.all(|lane| saved(best, lane).is_some_and(|saved| saved >= LEAST_GAIN));
        better.then(|| format!("Better still: {} ({}).", ratio(best.waf()), result_in_words(best)))
    }

    fn this_run(&self, finding: Finding<'a>) -> String {
        let flash = |lane: &LaneResult| bytes(lane.flash_pages() * PAGE_BYTES);
        format!("This run: {} of flash instead of {}.", flash(self.about(finding)), flash(self.now))
    }
}

/// Why nothing can be said, and what to do. Packed, a trace that wrote little of the drive fills a smaller one.
fn nothing_yet(now: &LaneResult, trace: Trace) -> String {
    let geometry = &now.geometry;
    let left = u64::from(now.free_superblocks) * u64::from(geometry.superblock_pages());
    let why = match now.counters.erases {
        0 => "the drive never had to collect garbage",
        _ => "less was written than the flash holds, so the drive may have erased only what was there before",
    };
    let left = bytes(left.max(geometry.physical_pages().saturating_sub(now.host_pages())) * PAGE_BYTES);
    let instead = match (now.host_pages() < geometry.logical_pages() / 2, trace) {
        (_, Trace::Packed) => "or let it fill more of the drive (a larger --pack or --pack-live), or give the drive a smaller --spare-factor".to_owned(),
        (true, Trace::Kept) => "or simulate what was written as if it filled 90 % of a drive: `pcstream simulate TRACE --pack 0.9`".to_owned(),
        (true, Trace::NotKept) => "or run it with --pack 0.9, as if what is written filled 90 % of a drive".to_owned(),
        _ if now.prefill_pages >= geometry.logical_pages() => {
            "or give the drive a smaller --spare-factor".to_owned()
        }
        (false, _) => "or fill the drive more (--fill), or give it a smaller --spare-factor".to_owned(),
    };
    format!("Nothing can be said yet: {why}. Write {left} more, {instead}.")
}

/// What streams of the host do beside the drive.
pub fn another(saved: f64) -> String {
    match saved {
        saved if saved >= LEAST_GAIN => format!("save another {}", percent(saved)),
        saved if saved >= SHOWN => format!("save only another {}", percent(saved)),
        saved if saved <= -SHOWN => format!("cost {} more", percent(-saved)),
        _ => "add nothing to that".to_owned(),
    }
}

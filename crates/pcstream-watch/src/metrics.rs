//! OpenMetrics text for Prometheus, of a watch and of a placer beside it.
//!
//! Idea: the number of series is bounded. A context gets series of its own while it is among the fastest, all others
//! count as `other`. A context's counters begin at 0 when its series do, so that every counter only grows and the sum
//! over the contexts is right. The labels of a context stay as they were with its first series, whatever other
//! contexts do; only the names of its functions may be found later. Once all places are taken, the slowest context
//! gives way to one that writes twice as fast, at most once a minute: a day has at most 1440 new contexts.
//!
//! Names follow OpenMetrics 1.0: base units, `_total` on counters, `# EOF` at the end.

mod placing;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pcstream_report::VERSION;
use pcstream_report::escape::visible_part;
use pcstream_trace::paths::file_name;
use pcstream_trace::{Context, Kind, PAGE_BYTES};

use crate::snapshot::{ContextNow, Snapshot, Who};

/// A metric: its name without the suffix of counters, its type, its unit (empty: none), and what it means.
type Metric = (&'static str, &'static str, &'static str, &'static str);

const INFO: Metric = ("pcstream", "info", "", "What is watched, and by which pcstream.");
const CONTEXT_WRITTEN: Metric = (
    "pcstream_context_written_bytes",
    "counter",
    "bytes",
    "Bytes that a program context wrote to the device since its series began.",
);
const CONTEXT_LIFETIME: Metric = (
    "pcstream_context_lifetime_bytes",
    "gauge",
    "bytes",
    "Bytes that the host writes until half of a context's pages that die are dead.",
);
/// The same beside a placer, which goes by what its scheme expects.
const CONTEXT_EXPECTED: Metric = (
    CONTEXT_LIFETIME.0,
    CONTEXT_LIFETIME.1,
    CONTEXT_LIFETIME.2,
    "Bytes that the host is expected to write from the write of a context's page to its death: by this it is placed.",
);
const CONTEXT_STREAM: Metric =
    ("pcstream_context_stream", "gauge", "", "Stream of the last write of a context.");
const CONTEXTS: Metric = ("pcstream_contexts", "gauge", "", "Program contexts seen.");
const STREAM_WRITTEN: Metric =
    ("pcstream_stream_written_bytes", "counter", "bytes", "Bytes that the scheme gave to a stream.");
const WRITTEN: Metric = (
    "pcstream_written_bytes",
    "counter",
    "bytes",
    "Bytes written to the device, by what they are to the file system.",
);
const DISCARDED: Metric = ("pcstream_discarded_bytes", "counter", "bytes", "Bytes discarded on the device.");
const LOST: Metric = ("pcstream_lost", "counter", "", "What the capture lost, by cause.");
const WATCHED: Metric = ("pcstream_watched_seconds", "counter", "seconds", "Time watched.");
const REFUSED: Metric = (
    "pcstream_metrics_refused",
    "counter",
    "",
    "Connections to these metrics that were refused because too many were open, or no thread could be made.",
);

/// All metrics of a watch, in the order of the text.
const METRICS: [Metric; 11] = [
    INFO,
    CONTEXT_WRITTEN,
    CONTEXT_LIFETIME,
    CONTEXT_STREAM,
    CONTEXTS,
    STREAM_WRITTEN,
    WRITTEN,
    DISCARDED,
    LOST,
    WATCHED,
    REFUSED,
];

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Contexts with series of their own, by default.
pub const TOP_CONTEXTS: usize = 20;

/// Between two contexts that give way.
const SWAP: Duration = Duration::from_secs(60);
/// Longest value of a label, in characters.
const LABEL_CHARACTERS: usize = 120;
/// What all contexts without series of their own are called.
const OTHER: &str = "other";

/// Names of all samples, with their suffixes; those of a placer are there only beside one.
pub fn names() -> Vec<String> {
    METRICS.iter().chain(&placing::METRICS).map(sample_name).collect()
}

fn sample_name((name, kind, ..): &Metric) -> String {
    match *kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => (*name).to_owned(),
    }
}

/// What is watched. Texts that do not apply are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The directory or device that was named.
    pub on: String,
    /// Name of the block device, such as `nvme0n1p1`.
    pub device: String,
    /// Its file system.
    pub fs: String,
    /// Where a placer's decisions go.
    pub sink: String,
}

#[derive(Debug, Default)]
struct Series {
    labels: String,
    /// What the labels were made of.
    named: Option<Arc<Context>>,
    pages: u64,
    rate: f64,
    lifetime: Option<u64>,
    stream: Option<u8>,
}

/// Metrics of the snapshots so far.
#[derive(Debug)]
pub struct Metrics {
    top: usize,
    series: BTreeMap<Who, Series>,
    other_pages: u64,
    swapped: Option<Duration>,
    about: About,
    refused: Arc<AtomicU64>,
    text: String,
}

impl Metrics {
    /// Of nothing. At most `top` contexts get series of their own.
    pub fn new(top: usize) -> Metrics {
        Metrics {
            top,
            series: BTreeMap::new(),
            other_pages: 0,
            swapped: None,
            about: About::default(),
            refused: Arc::default(),
            text: String::new(),
        }
    }

    /// Says what is watched, when that has begun. To be called before the first snapshot.
    pub fn describe(&mut self, about: About) {
        self.about = about;
        self.text = self.render(&Snapshot::default());
    }

    /// Connections that were refused, which whoever serves the text counts.
    pub fn refused(&self) -> Arc<AtomicU64> {
        self.refused.clone()
    }

    /// Takes the next snapshot; none may be left out.
    pub fn update(&mut self, snapshot: &Snapshot) {
        self.series.values_mut().for_each(|series| series.rate = 0.0);
        self.admit(snapshot);
        let mut pages = 0;
        for row in &snapshot.contexts {
            let Some(series) = self.series.get_mut(&row.who) else { continue };
            pages += row.written.pages;
            series.pages += row.written.pages;
            series.rate = row.written.rate;
            series.lifetime = match snapshot.placing {
                Some(_) => row.expected.map(|expected| expected.lifetime),
                None => row.lifetimes.map(|q| q.p50),
            };
            series.stream = row.stream.map(|stream| stream.0);
            if series.labels.is_empty() || !same(&series.named, &row.context) {
                series.labels = labels(row);
                series.named = row.context.clone();
            }
        }
        self.other_pages += snapshot.written.pages.saturating_sub(pages);
        self.text = self.render(snapshot);
    }

    /// The text of the last snapshot; empty before `describe`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Gives series to the fastest.
    fn admit(&mut self, snapshot: &Snapshot) {
        let rates: BTreeMap<Who, f64> = snapshot.contexts.iter().map(|r| (r.who, r.written.rate)).collect();
        for row in &snapshot.contexts {
            let counts_as_other = row.written.rate == 0.0 || row.who == Who::GivenUp;
            if counts_as_other || self.series.contains_key(&row.who) {
                continue;
            }
            if self.series.len() < self.top {
                self.series.insert(row.who, Series::default());
                continue;
            }
            if self.swapped.is_some_and(|at| snapshot.elapsed < at + SWAP) {
                return;
            }
            let rate = |who: &Who| rates.get(who).copied().unwrap_or(0.0);
            let slowest = self.series.keys().copied().min_by(|a, b| rate(a).total_cmp(&rate(b)));
            let Some(slowest) = slowest.filter(|slowest| row.written.rate > 2.0 * rate(slowest)) else {
                return;
            };
            self.series.remove(&slowest);
            self.series.insert(row.who, Series::default());
            self.swapped = Some(snapshot.elapsed);
        }
    }

    fn render(&self, snapshot: &Snapshot) -> String {
        let mut out = String::new();
        let About { on, device, fs, sink } = &self.about;
        let about =
            [("on", on.as_str()), ("device", device), ("fs", fs), ("sink", sink), ("version", VERSION)];
        head(&mut out, INFO);
        sample(&mut out, INFO, &about.map(|(name, value)| label(name, value)).join(","), 1);
        head(&mut out, CONTEXT_WRITTEN);
        let other = format!("context=\"{OTHER}\",program=\"\",path=\"\"");
        let written = self.series.values().map(|s| (s.labels.as_str(), s.pages));
        for (labels, pages) in written.chain([(other.as_str(), self.other_pages)]) {
            sample(&mut out, CONTEXT_WRITTEN, labels, pages * PAGE_BYTES);
        }
        head(&mut out, if self.about.sink.is_empty() { CONTEXT_LIFETIME } else { CONTEXT_EXPECTED });
        for series in self.series.values() {
            series
                .lifetime
                .iter()
                .for_each(|life| sample(&mut out, CONTEXT_LIFETIME, &series.labels, life * PAGE_BYTES));
        }
        head(&mut out, CONTEXT_STREAM);
        for series in self.series.values() {
            series.stream.iter().for_each(|stream| sample(&mut out, CONTEXT_STREAM, &series.labels, *stream));
        }
        head(&mut out, CONTEXTS);
        sample(&mut out, CONTEXTS, "", snapshot.context_count);
        head(&mut out, STREAM_WRITTEN);
        for stream in &snapshot.streams {
            let labels = format!("stream=\"{}\"", stream.stream.0);
            sample(&mut out, STREAM_WRITTEN, &labels, stream.written.total_pages * PAGE_BYTES);
        }
        head(&mut out, WRITTEN);
        for (kind, pages) in Kind::ALL.iter().zip(&snapshot.pages_by_kind) {
            sample(&mut out, WRITTEN, &format!("kind=\"{}\"", kind.name()), pages * PAGE_BYTES);
        }
        head(&mut out, DISCARDED);
        sample(&mut out, DISCARDED, "", snapshot.discarded.total_pages * PAGE_BYTES);
        head(&mut out, LOST);
        for (cause, count) in &snapshot.losses {
            sample(&mut out, LOST, &label("cause", cause), count);
        }
        head(&mut out, WATCHED);
        sample(&mut out, WATCHED, "", snapshot.elapsed.as_secs_f64());
        head(&mut out, REFUSED);
        sample(&mut out, REFUSED, "", self.refused.load(Ordering::Relaxed));
        if let Some(placing) = &snapshot.placing {
            placing::render(&mut out, placing);
        }
        out += "# EOF\n";
        out
    }
}

fn head(out: &mut String, (name, kind, unit, help): Metric) {
    _ = writeln!(out, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        _ = writeln!(out, "# UNIT {name} {unit}");
    }
    _ = writeln!(out, "# HELP {name} {help}");
}

fn sample(out: &mut String, metric: Metric, labels: &str, value: impl std::fmt::Display) {
    let name = sample_name(&metric);
    _ = match labels {
        "" => writeln!(out, "{name} {value}"),
        labels => writeln!(out, "{name}{{{labels}}} {value}"),
    };
}

fn same(a: &Option<Arc<Context>>, b: &Option<Arc<Context>>) -> bool {
    a.as_ref().map(Arc::as_ptr) == b.as_ref().map(Arc::as_ptr)
}

/// The labels of a context. The file system's own writes are none, and have a name that no other has.
fn labels(row: &ContextNow) -> String {
    let (context, program) = match (&row.context, row.who) {
        (Some(context), _) => (context.signature.to_string(), file_name(&context.executable)),
        (None, Who::FileSystem(kind)) => (format!("file system: {}", kind.name()), ""),
        (None, who) => (who.name().to_owned(), ""),
    };
    [label("context", &context), label("program", program), label("path", &row.path)].join(",")
}

fn label(name: &str, value: &str) -> String {
    let seen = visible_part(value, LABEL_CHARACTERS);
    format!("{name}=\"{}\"", seen.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pcstream_placement::Stream;
    use pcstream_replay::Quartiles;
    use pcstream_trace::{Context, ContextId, Signature};

    use super::*;
    use crate::placing::{Hinted, Placing, WriteStream};
    use crate::snapshot::{Expected, Flow, StreamNow};

    fn row(id: u32, pages: u64) -> ContextNow {
        ContextNow {
            who: Who::Context(ContextId(id)),
            context: Some(Arc::new(Context {
                id: ContextId(id),
                signature: Signature(id.into()),
                executable: "/usr/bin/d\"b\n".into(),
                ..Context::default()
            })),
            path: "a\\b".into(),
            written: Flow { pages, total_pages: pages, rate: pages as f64, history: Vec::new() },
            share: 0.0,
            pages_by_kind: Default::default(),
            lifetimes: Some(Quartiles { p25: 1, p50: 2, p75: 3 }),
            ended: 1,
            expected: Some(Expected { lifetime: 40, samples: 9 }),
            stream: Some(Stream(3)),
            files: Vec::new(),
            first: Duration::ZERO,
            last: Duration::ZERO,
        }
    }

    fn snapshot(second: u64, rows: Vec<ContextNow>) -> Snapshot {
        let pages = rows.iter().map(|row| row.written.pages).sum();
        Snapshot {
            elapsed: Duration::from_secs(second),
            written: Flow { pages, total_pages: pages, ..Flow::default() },
            contexts: rows,
            streams: vec![StreamNow { stream: Stream(0), written: Flow::default(), contexts: 0 }],
            losses: [("missed_events".to_owned(), 4)].into(),
            context_count: 7,
            placing: Some(placing()),
            ..Snapshot::default()
        }
    }

    fn placing() -> Placing {
        Placing {
            contexts_known: 5,
            clusterings: 2,
            hints: vec![("set".to_owned(), 9)],
            hinted: vec![Hinted { hint: "short".to_owned(), pages: 4, pages_of_others: 1 }],
            streams: vec![WriteStream { write_stream: 3, requests: 7, pages: 10 }],
        }
    }

    /// Bytes by value of the label `context`.
    fn written(metrics: &Metrics) -> BTreeMap<String, u64> {
        let lines = metrics.text().lines();
        let lines =
            lines.filter_map(|line| line.strip_prefix("pcstream_context_written_bytes_total{context=\""));
        let parse = |line: &str| {
            let (context, rest) = line.split_once('"').expect("a label");
            (context.to_owned(), rest.rsplit_once(' ').expect("a value").1.parse().expect("a number"))
        };
        lines.map(parse).collect()
    }

    #[test]
    fn the_fastest_have_series_and_the_rest_is_other() {
        let mut metrics = Metrics::new(2);
        metrics.update(&snapshot(1, vec![row(3, 30), row(2, 20), row(1, 10)]));
        let of = |id: u64| format!("{id:016x}");
        assert_eq!(
            written(&metrics),
            [(of(3), 30 * 4096), (of(2), 20 * 4096), (OTHER.into(), 10 * 4096)].into()
        );
        // Twice as fast as the slowest: it takes its place, and what was counted stays where it was.
        metrics.update(&snapshot(2, vec![row(1, 50), row(3, 30), row(2, 20)]));
        assert_eq!(
            written(&metrics),
            [(of(1), 50 * 4096), (of(3), 60 * 4096), (OTHER.into(), 30 * 4096)].into()
        );
        // Within a minute nobody else does.
        metrics.update(&snapshot(3, vec![row(2, 500)]));
        assert_eq!(written(&metrics)[OTHER], 530 * 4096);
        metrics.update(&snapshot(62, vec![row(2, 500)]));
        assert_eq!(written(&metrics)[&of(2)], 500 * 4096);
        assert_eq!(written(&metrics).len(), 3);
    }

    #[test]
    fn no_two_series_have_the_same_labels() {
        let mut metrics = Metrics::new(10);
        let without = |who: Who| ContextNow { who, context: None, path: String::new(), ..row(1, 5) };
        let mut rows: Vec<_> = Kind::ALL.map(|kind| without(Who::FileSystem(kind))).into();
        rows.extend([row(1, 10), row(2, 10), without(Who::Unknown)]);
        metrics.update(&snapshot(1, rows));
        let mut names: Vec<&str> = metrics.text().lines().filter(|line| !line.starts_with('#')).collect();
        names.iter_mut().for_each(|line| *line = line.rsplit_once(' ').expect("a value").0);
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}", metrics.text());
        assert!(metrics.text().contains("context=\"file system: other\""), "{}", metrics.text());
    }

    #[test]
    fn what_others_do_makes_no_new_series() {
        let mut metrics = Metrics::new(2);
        let context = row(1, 5).context;
        let with = |path: &str, context: &Option<Arc<Context>>| ContextNow {
            path: path.into(),
            context: context.clone(),
            ..row(1, 5)
        };
        metrics.update(&snapshot(1, vec![with("first", &context)]));
        metrics.update(&snapshot(2, vec![with("other frames", &context)]));
        assert!(
            metrics.text().contains("first") && !metrics.text().contains("other frames"),
            "{}",
            metrics.text()
        );
        metrics.update(&snapshot(3, vec![with("names", &row(1, 5).context)]));
        assert!(metrics.text().contains("names") && !metrics.text().contains("first"), "{}", metrics.text());
    }

    #[test]
    fn counters_never_fall_whatever_comes_and_goes() {
        let mut metrics = Metrics::new(3);
        let mut before: BTreeMap<String, u64> = BTreeMap::new();
        let mut all = 0;
        for second in 0..500_u64 {
            let rows = (1..20).map(|id| row(id, (second * 31 + u64::from(id) * 17) % 97));
            let mut rows: Vec<_> = rows.filter(|row| row.written.pages > 20).collect();
            rows.sort_by(|a, b| b.written.rate.total_cmp(&a.written.rate));
            let snapshot = snapshot(second, rows);
            all += snapshot.written.pages;
            metrics.update(&snapshot);
            let now = written(&metrics);
            assert!(now.len() <= 4);
            assert!(now[OTHER] >= before.get(OTHER).copied().unwrap_or(0));
            for (context, bytes) in before.iter().filter(|(context, _)| now.contains_key(*context)) {
                assert!(now[context] >= *bytes, "{context} at {second}");
            }
            before = now;
        }
        assert!(before.values().sum::<u64>() <= all * 4096, "what gave way is no longer shown");
    }

    #[test]
    fn a_lifetime_is_the_median_or_what_a_placer_goes_by() {
        let lifetime = |sink: &str, snapshot: &Snapshot| {
            let mut metrics = Metrics::new(2);
            metrics.describe(About { sink: sink.into(), ..About::default() });
            metrics.update(snapshot);
            let line =
                |start: &str| metrics.text().lines().find(|line| line.starts_with(start)).map(str::to_owned);
            let value = line("pcstream_context_lifetime_bytes{");
            let value = value.map(|line| line.rsplit_once(' ').expect("a value").1.to_owned());
            (value, line("# HELP pcstream_context_lifetime_bytes ").expect("there is one"))
        };
        let watched = |rows| Snapshot { placing: None, ..snapshot(1, rows) };
        let (median, help) = lifetime("", &watched(vec![row(1, 5)]));
        assert!(median == Some((2 * 4096).to_string()) && help.contains("until half"), "{median:?} {help}");
        let (expected, help) = lifetime("none", &snapshot(1, vec![row(1, 5)]));
        assert!(
            expected == Some((40 * 4096).to_string()) && help.contains("expected"),
            "{expected:?} {help}"
        );
        let unknown = ContextNow { expected: None, ..row(1, 5) };
        assert_eq!(lifetime("none", &snapshot(1, vec![unknown])).0, None, "nothing is expected yet");
    }

    #[test]
    fn the_text_is_complete_and_escaped() {
        let mut metrics = Metrics::new(2);
        let about = |on: &str| About { on: on.into(), device: "sda1".into(), ..About::default() };
        metrics.describe(about("/srv/\"a"));
        let info = format!(
            "# TYPE pcstream info\n# HELP pcstream What is watched, and by which pcstream.\n\
             pcstream_info{{on=\"/srv/\\\"a\",device=\"sda1\",fs=\"\",sink=\"\",version=\"{VERSION}\"}} 1\n"
        );
        assert!(metrics.text().starts_with(&info), "{}", metrics.text());
        assert!(metrics.text().ends_with("# EOF\n"), "there is one before the first interval");
        metrics.refused().fetch_add(3, Ordering::Relaxed);
        metrics.update(&snapshot(1, vec![row(1, 10)]));
        let text = metrics.text();
        assert!(
            text.contains(r#"{context="0000000000000001",program="d\"b\\n",path="a\\b"} 40960"#),
            "{text}"
        );
        for name in names() {
            assert!(
                text.lines()
                    .any(|line| line.starts_with(&format!("{name}{{"))
                        || line.starts_with(&format!("{name} "))),
                "{name}"
            );
        }
        for line in [
            "pcstream_place_contexts_known 5",
            "pcstream_place_clusterings_total 2",
            "pcstream_metrics_refused_total 3",
            "pcstream_place_hints_total{outcome=\"set\"} 9",
            "pcstream_place_requests_total{write_stream=\"3\"} 7",
            "pcstream_place_hinted_bytes_total{hint=\"short\"} 16384",
            "pcstream_place_hinted_others_bytes_total{hint=\"short\"} 4096",
            "pcstream_place_placed_bytes_total{write_stream=\"3\"} 40960",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains("pcstream_lost_total{cause=\"missed_events\"} 4\n"));
        assert!(
            text.contains("# TYPE pcstream_written_bytes counter\n# UNIT pcstream_written_bytes bytes\n")
        );
    }
}

//! Generators draw what they say: counts are compared with their expectation by a chi-square test
//! under fixed seeds (so a pass is a pass for ever), and parameters out of range are refused.

use std::collections::BTreeMap;

use pcstream_trace::generators::{Common, GENERATORS, GeneratorError, generate};
use pcstream_trace::*;

fn options(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
    values.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

fn events(name: &str, common: Common, values: &[(&str, f64)]) -> Vec<Event> {
    generate(name, common, &options(values)).unwrap().flat_map(|batch| batch.events).collect()
}

/// Writes per page.
fn counts(events: &[Event], pages: u64) -> Vec<u64> {
    let mut counts = vec![0; pages as usize];
    events.iter().for_each(|e| counts[e.lba.0 as usize] += 1);
    counts
}

/// Asserts that counts fit their expectations: chi-square within four standard deviations of its
/// mean (k-1, variance 2(k-1)), which chance leaves once in 16,000 seeds.
fn assert_fits(counts: impl IntoIterator<Item = u64>, expected: impl IntoIterator<Item = f64>) {
    let terms: Vec<f64> = counts
        .into_iter()
        .zip(expected)
        .map(|(found, expected)| {
            assert!(expected >= 5.0, "chi-square needs an expectation of 5, found {expected}");
            (found as f64 - expected).powi(2) / expected
        })
        .collect();
    let (chi, freedom) = (terms.iter().sum::<f64>(), terms.len() as f64 - 1.0);
    let sigmas = (chi - freedom) / (2.0 * freedom).sqrt();
    assert!(sigmas.abs() < 4.0, "chi-square {chi:.1} with {freedom} degrees of freedom: {sigmas:.1} sigma");
}

#[test]
fn uniform_is_uniform() {
    for (pages, seed) in [(1000, 1), (777, 2), (64, 3)] {
        let common = Common { pages, writes: 200_000, seed };
        let events = events("uniform", common, &[]);
        assert_eq!(events.len(), 200_000);
        let expected = 200_000.0 / pages as f64;
        assert_fits(counts(&events, pages), std::iter::repeat_n(expected, pages as usize));
        assert!(events.iter().all(|e| e.context == ContextId(1)));
    }
}

#[test]
fn hotcold_gives_each_class_its_share() {
    let common = Common { pages: 1000, writes: 400_000, seed: 1 };
    let events = events("hotcold", common, &[("hot-pages", 0.1), ("hot-writes", 0.9)]);
    let hot = 0.9 * 400_000.0 / 100.0;
    let cold = 0.1 * 400_000.0 / 900.0;
    let expected = (0..1000).map(|page| if page < 100 { hot } else { cold });
    assert_fits(counts(&events, 1000), expected);
    for event in &events {
        assert_eq!(event.context == ContextId(1), event.lba.0 < 100, "hot pages have the hot context");
    }
}

#[test]
fn hotcold_at_its_edges() {
    let common = Common { pages: 10, writes: 1000, seed: 1 };
    for (share, context) in [(1.0, 1), (0.0, 2)] {
        let events = events("hotcold", common, &[("hot-writes", share)]);
        assert!(events.iter().all(|e| e.context == ContextId(context)));
    }
}

/// The frequencies of the ranks are those of the zeta distribution cut at U, for skews below, at and
/// above 1. Pages are scattered, so they are ranked by the class order and count.
#[test]
fn zipf_frequencies_are_exact() {
    for (theta, seed) in [(0.0, 1), (0.5, 2), (0.99, 3), (1.0, 4), (1.2, 5), (2.0, 6)] {
        let (pages, writes) = (1000u64, 1_000_000u64);
        let events = events("zipf", Common { pages, writes, seed }, &[("theta", theta)]);
        let weights: Vec<f64> = (1..=pages).map(|k| (k as f64).powf(-theta)).collect();
        let sum: f64 = weights.iter().sum();
        // Mass of each decile of rank, which the contexts name.
        let mut by_class = [0u64; 10];
        events.iter().for_each(|e| by_class[e.context.0 as usize - 1] += 1);
        let classes = weights.chunks(100).map(|w| w.iter().sum::<f64>() / sum * writes as f64);
        assert_fits(by_class, classes);
        // The most written pages, one by one: distinct enough that order by count is order by rank.
        if theta >= 0.99 {
            let mut counts = counts(&events, pages);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let expected = weights.iter().map(|w| w / sum * writes as f64);
            assert_fits(counts.into_iter().take(12), expected.take(12));
        }
    }
}

#[test]
fn zipf_scatters_its_ranks() {
    let pages = 1 << 16;
    let events = events("zipf", Common { pages, writes: 200_000, seed: 1 }, &[]);
    let counts = counts(&events, pages);
    // With ranks in address order the first sixteenth would take 76 % of the writes.
    for part in counts.chunks(counts.len() / 4) {
        let share = part.iter().sum::<u64>() as f64 / 200_000.0;
        assert!((0.1..0.5).contains(&share), "a quarter of the pages takes {share} of the writes");
    }
    let ranks: std::collections::BTreeSet<u64> =
        events.iter().filter(|e| e.context == ContextId(1)).map(|e| e.lba.0).collect();
    assert!(ranks.first().unwrap() < &1000 && ranks.last().unwrap() > &(pages - 1000));
}

/// One page per class at most, one page at all: every size from 1 on works.
#[test]
fn zipf_on_tiny_devices() {
    for pages in 1..30 {
        for theta in [0.0, 0.99, 1.0, 3.0, 10.0] {
            let events = events("zipf", Common { pages, writes: 500, seed: pages }, &[("theta", theta)]);
            assert!(events.iter().all(|e| e.lba.0 < pages && (1..=10).contains(&e.context.0)));
        }
    }
}

/// Every class has its share of the writes, all its files live equally long, and each lifetime is the
/// ratio times that of the class before. Files never overlap, and each is written from front to back.
#[test]
fn files_live_as_long_as_their_class() {
    let common = Common { pages: 10_000, writes: 2_000_000, seed: 1 };
    let values = [("classes", 3.0), ("lifetime-ratio", 5.0), ("file-pages", 40.0), ("request-pages", 16.0)];
    let events = events("files", common, &values);
    assert_eq!(
        events.iter().filter(|e| e.op == Op::Write).map(|e| u64::from(e.pages)).sum::<u64>(),
        2_000_000
    );
    // 250 places; each class keeps 82 files and begins one more in a free place.
    let mut writer = vec![None; 10_000];
    let mut lifetimes = [const { Vec::new() }; 3];
    let mut now = 0;
    for event in &events {
        let range = event.lba.0 as usize..event.lba.0 as usize + event.pages as usize;
        if event.op == Op::Discard {
            for page in &mut writer[range] {
                if let Some((context, written)) = page.take() {
                    assert_eq!(context, event.context, "a class deletes its own files");
                    lifetimes[event.context.0 as usize - 1].push(now - written);
                }
            }
        } else {
            assert!(writer[range.clone()].iter().all(Option::is_none), "nothing is overwritten");
            writer[range].fill(Some((event.context, now)));
            now += u64::from(event.pages);
        }
    }
    let means: Vec<f64> = lifetimes.iter().map(|l| l.iter().sum::<u64>() as f64 / l.len() as f64).collect();
    // Shares of 25, 5 and 1 of 31; 82 files of 40 pages.
    for (mean, share) in means.iter().zip([25.0, 5.0, 1.0]) {
        let expected = 82.0 * 40.0 * 31.0 / share;
        assert!((mean / expected - 1.0).abs() < 0.03, "mean {mean}, expected {expected}");
    }
    assert!(lifetimes[0].iter().all(|&l| (l as f64) < 1.5 * means[0]), "the oldest file goes first");
}

/// With random deaths, lifetimes of a class spread like a geometric distribution: the mean stays.
#[test]
fn random_deaths_spread_lifetimes() {
    let common = Common { pages: 4000, writes: 2_000_000, seed: 1 };
    let values = [("classes", 1.0), ("file-pages", 10.0), ("random-deaths", 1.0)];
    let mut begun = std::collections::HashMap::new();
    let (mut now, mut lifetimes) = (0u64, Vec::new());
    for event in events("files", common, &values) {
        if event.op == Op::Write {
            begun.entry(event.lba).or_insert(now);
            now += u64::from(event.pages);
        } else {
            lifetimes.extend(begun.remove(&event.lba).map(|then| (now - then) as f64));
        }
    }
    let mean = lifetimes.iter().sum::<f64>() / lifetimes.len() as f64;
    let variance = lifetimes.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / lifetimes.len() as f64;
    let spread = variance.sqrt() / mean;
    assert!((0.9..1.1).contains(&spread), "standard deviation over mean {spread}");
}

/// Values measured once: they change only when a generator changes its traces. A new generator adds its own.
#[test]
fn seeds_pin_traces() {
    let common = Common { pages: 100_000, writes: 10_000, seed: 42 };
    let pinned = BTreeMap::from([
        ("uniform", "15f3d0fdb232d20c"),
        ("hotcold", "74e4ef18f7d290ee"),
        ("zipf", "d00b1b4480a7435c"),
        ("files", "46b484706eaa2f0a"),
    ]);
    for generator in GENERATORS {
        let mut digest = Digest::default();
        digest.update(&events(generator.name, common, &[]));
        let id = digest.id();
        let expected = pinned.get(generator.name).copied();
        assert_eq!(
            expected,
            Some(id.as_str()),
            "{}: a new generator adds its id to `pinned`",
            generator.name
        );
    }
}

#[test]
fn equal_seeds_give_equal_traces_and_others_do_not() {
    for generator in GENERATORS {
        let run = |seed| events(generator.name, Common { pages: 10_000, writes: 20_000, seed }, &[]);
        // Without the events, which would be megabytes of a message.
        assert!(run(1) == run(1), "{}: the same seed gives another trace", generator.name);
        assert!(run(1) != run(2), "{}: another seed gives the same trace", generator.name);
    }
}

#[test]
fn the_first_batch_names_the_classes() {
    let common = Common { pages: 1000, writes: 0, seed: 1 };
    let batches: Vec<Batch> = generate("zipf", common, &options(&[])).unwrap().collect();
    assert_eq!(batches.len(), 1);
    let labels: Vec<&str> = batches[0].contexts.iter().map(|c| c.executable.as_str()).collect();
    assert_eq!((labels.len(), labels[0], labels[9]), (10, "zipf ranks 0-10 %", "zipf ranks 90-100 %"));
    let signatures: std::collections::BTreeSet<_> = batches[0].contexts.iter().map(|c| c.signature).collect();
    assert_eq!(signatures.len(), 10);
    assert!(batches[0].contexts.iter().all(|c| c.unwind == Unwind::Label));
    // A label's signature never changes: it identifies the class in other traces.
    assert_eq!(Context::label(ContextId(1), "hot").signature.to_string(), "815824c62683b0c7");
}

#[test]
fn meta_tells_how_to_repeat_it() {
    let common = Common { pages: 1000, writes: 5, seed: 9 };
    let generated = generate("hotcold", common, &options(&[("hot-pages", 0.3)])).unwrap();
    let meta = generated.meta();
    assert_eq!(meta.prefilled, [Extent { lba: Lba(0), pages: 1000 }]);
    assert_eq!(meta.device.pages, 1000);
    let settings: Vec<String> = meta.settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let expected =
        ["generator=\"hotcold\"", "hot_pages=0.3", "hot_writes=0.8", "pages=1000", "seed=9", "writes=5"];
    assert_eq!(settings, expected);
}

#[test]
fn parameters_out_of_range_are_named() {
    let good = Common { pages: 1000, writes: 10, seed: 1 };
    type Case = (&'static str, Common, &'static [(&'static str, f64)], &'static str);
    let cases: [Case; 17] = [
        ("uniform", Common { pages: 0, ..good }, &[], "--pages 0: expected 1 to"),
        ("uniform", Common { pages: u64::MAX, ..good }, &[], "--pages 18446744073709551615: expected"),
        ("uniform", Common { writes: u64::MAX, ..good }, &[], "--writes"),
        ("hotcold", good, &[("hot-pages", 0.0)], "--hot-pages 0: expected a fraction above 0"),
        ("hotcold", good, &[("hot-pages", 1.0)], "--hot-pages 1: expected a fraction above 0"),
        ("hotcold", good, &[("hot-pages", f64::NAN)], "--hot-pages NaN"),
        ("hotcold", good, &[("hot-pages", 0.0001)], "at least one of the 1000 pages hot"),
        ("hotcold", good, &[("hot-writes", 1.1)], "--hot-writes 1.1"),
        ("zipf", good, &[("theta", -0.1)], "--theta -0.1: expected 0 to 10"),
        ("zipf", good, &[("theta", f64::INFINITY)], "--theta inf"),
        ("files", good, &[("classes", 0.0)], "--classes 0: expected a whole number from 1 to 64"),
        ("files", good, &[("file-pages", 2.5)], "--file-pages 2.5: expected a whole number"),
        ("files", good, &[("file-pages", 100.0)], "1000 pages hold 3 files for each of 4 classes"),
        ("files", good, &[("lifetime-ratio", 0.5), ("file-pages", 4.0)], "--lifetime-ratio 0.5: expected 1"),
        ("files", good, &[("random-deaths", f64::NAN)], "--random-deaths NaN"),
        ("zipf", good, &[("hot-pages", 0.1)], "--hot-pages is not a parameter of zipf"),
        ("zipff", good, &[], "\"zipff\" is unknown"),
    ];
    for (name, common, values, expected) in cases {
        let error: GeneratorError = generate(name, common, &options(values)).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

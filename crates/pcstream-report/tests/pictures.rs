//! Pictures of small generated traces: what they show, leave out and say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pcstream_placement::configure;
use pcstream_replay::survey::{Survey, Surveyor};
use pcstream_replay::{LaneSpec, Plan, recorded};
use pcstream_report::pictures::{Curve, Figure, Material, Sweep, figure, names, needs_clock, page};
use pcstream_report::{About, ContextRow, Simulation};
use pcstream_ssd::{Density, DeviceSettings, GcDestination};
use pcstream_trace::generators::{Common, generate};
use pcstream_trace::{Batch, Context, ContextId, Frame};

const PAGES: u64 = 4096;

/// What follows the name of a generator for an import without labels.
const UNKNOWN: &str = " unknown";

/// The writes of a generator.
fn batches(generator: &str, writes: u64) -> impl Iterator<Item = Batch> {
    let common = Common { pages: PAGES, writes, seed: 1 };
    let name = generator.trim_end_matches(UNKNOWN);
    let batches = generate(name, common, &BTreeMap::new()).expect("a generator");
    let is_unknown = name != generator;
    batches.map(move |mut batch| {
        batch.events.iter_mut().filter(|_| is_unknown).for_each(|event| event.context = ContextId::NONE);
        batch
    })
}

/// A simulation of a generated trace, and what a picture makes of it.
fn drawn<T>(
    generator: &str,
    writes: u64,
    (schemes, drives): (&[&str], &[GcDestination]),
    look: impl FnOnce(&Material) -> T,
) -> T {
    let lanes = schemes.iter().flat_map(|scheme| drives.iter().map(|on| lane(scheme, *on))).collect();
    let plan = Plan { lanes, prefill: Vec::new(), density: Density::Dense, without_devices: false };
    let open = || batches(generator, writes).map(Ok::<_, std::io::Error>);
    let replay = recorded::replay(&plan, open, |_, _| ()).expect("within the device").replay;
    let survey = survey(generator, writes);
    let simulation = Simulation::new(About::default(), &replay);
    let rows = simulation.context_rows(simulation.recommended(), 1);
    look(&Material {
        simulation: &simulation,
        rows: &rows,
        survey: Some(&survey),
        by_utilisation: None,
        by_streams: None,
    })
}

fn device(gc_destination: GcDestination) -> DeviceSettings {
    DeviceSettings { logical_pages: PAGES, superblock_pages: 16, gc_destination, ..DeviceSettings::default() }
}

fn lane(scheme: &str, on: GcDestination) -> LaneSpec {
    LaneSpec::new(Arc::new(configure(scheme).expect("a scheme")), device(on))
}

fn survey(generator: &str, writes: u64) -> Survey {
    let device = Surveyor::device(&device(GcDestination::Own));
    let mut surveyor = Surveyor::new(&device, Density::Dense, &[], writes, 1).expect("a good device");
    let feed = |batch: Batch| {
        batch.events.iter().for_each(|event| surveyor.feed(event).expect("within the device"));
    };
    batches(generator, writes).for_each(feed);
    surveyor.finish()
}

fn of(name: &str, material: &Material) -> Figure {
    figure(name, material).expect("a figure")
}

#[test]
fn lines_over_the_run_are_of_the_drive_that_the_verdict_is_about() {
    let schemes: Vec<&str> = pcstream_placement::names().filter(|name| *name != "manual").collect();
    let mut drives = GcDestination::ALL;
    for _ in 0..2 {
        drives.reverse();
        drawn("hotcold", 2 * PAGES, (&schemes, &drives), |material| {
            let figure = of("waf-over-run", material);
            for class in [
                "line l0 own",
                "line l0 internal",
                "line l1 internal",
                "line l2 internal",
                "line l3 internal",
            ] {
                assert!(figure.svg.contains(&format!("class=\"{class}\"")), "{class}: {}", figure.svg);
            }
            assert!(!figure.svg.contains(" shared\""));
            let all = schemes.len() * drives.len();
            assert!(
                figure.note.contains(&format!("{} of {all} results are left out", all - 9)),
                "{}",
                figure.note
            );
            let named = |scheme: &&str| figure.csv.contains(&format!("\n{scheme},shared,"));
            assert!(schemes.iter().all(named), "the numbers have them all");
        });
    }
}

/// 20 writes take 20 microseconds or less, so that a bin is less than a microsecond.
#[test]
fn bins_of_a_short_trace_have_a_time_each() {
    for writes in [1, 2, 20, 4 * PAGES] {
        drawn("hotcold", writes, (&["baseline"], &[GcDestination::Own]), |material| {
            let csv = of("rates", material).csv;
            let starts = csv.lines().skip(1).map(|line| line.split_once(',').expect("columns").0);
            let distinct: BTreeSet<&str> = starts.clone().collect();
            assert_eq!(distinct.len(), starts.count(), "{writes} writes: {csv}");
        });
    }
}

/// `hotcold` has two contexts, and no page without one.
#[test]
fn the_map_names_what_occurs_as_tables_do() {
    drawn("hotcold", 4 * PAGES, (&["baseline"], &[GcDestination::Own]), |material| {
        let (map, lifetimes) = (of("address-map", material).svg, of("lifetimes", material).svg);
        assert!(!map.contains("other contexts") && !map.contains("(file system)"), "{map}");
        for context in material.rows.iter().filter_map(|row| row.context) {
            let label = format!("{} {}</text>", context.program(), &context.signature.to_string()[..4]);
            assert!(map.contains(&label) && lifetimes.contains(&label), "{label}: {map}");
        }
    });
    drawn("hotcold unknown", 4 * PAGES, (&["baseline"], &[GcDestination::Own]), |material| {
        let map = of("address-map", material).svg;
        assert!(map.contains("(unknown)</text>") && !map.contains("other contexts"), "{map}");
    });
}

#[test]
fn what_is_not_steady_is_marked() {
    for (writes, wanted) in [(2 * PAGES, true), (40 * PAGES, false)] {
        drawn("uniform", writes, (&["baseline"], &[GcDestination::Own]), |material| {
            let lane = &material.simulation.results[0];
            let cell =
                format!("{:.3}{}</td>", lane.steady_waf().unwrap(), if wanted { ", not steady" } else { "" });
            let page = page(material);
            assert!(lane.steady.is_none() == wanted && page.contains(&cell), "{cell}");
        });
    }
}

/// The widest bar of a picture.
fn widest(svg: &str) -> f64 {
    let bars = svg.split("<rect class=\"f").skip(1);
    let width = |bar: &str| bar.split(" width=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
    bars.filter(|bar| bar.contains("WAF")).filter_map(width).fold(0.0, f64::max)
}

#[test]
fn bars_of_waf_have_a_scale_and_do_not_magnify_noise() {
    let run = (&["baseline"][..], &[GcDestination::Own][..]);
    drawn("uniform", PAGES * 9 / 8, run, |material| {
        let (svg, waf) = (of("waf", material).svg, material.simulation.results[0].waf().unwrap());
        assert!(1.0 < waf && waf < 1.02 && widest(&svg) < 200.0, "{waf} {svg}");
        assert!(svg.contains(">1.00</text>") && svg.contains(">1.06</text>"), "{svg}");
    });
    drawn("uniform", 8 * PAGES, run, |material| assert!(widest(&of("waf", material).svg) > 250.0));
}

#[test]
fn without_writes_there_is_nothing_to_show() {
    drawn("uniform", 0, (&["baseline", "pcstream"], &GcDestination::ALL), |material| {
        let names = names().filter(|name| !needs_clock(name));
        let drawn: Vec<_> = names.filter(|name| !of(name, material).svg.is_empty()).collect();
        assert!(drawn.is_empty(), "{drawn:?}");
        assert!(page(material).contains("There is nothing to show here."));
    });
}

#[test]
fn parts_of_the_run_are_all_of_it() {
    for writes in [1, 100, 5 * PAGES + 77, 9 * PAGES - 1] {
        drawn("uniform", writes, (&["baseline"], &[GcDestination::Own]), |material| {
            let (csv, lane) = (of("waf-over-run", material).csv, &material.simulation.results[0]);
            let numbers = csv.lines().skip(1).map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                (fields[2].parse::<f64>().unwrap() / 4096.0, fields[3].parse::<f64>().unwrap())
            });
            let points: Vec<(f64, f64)> = numbers.collect();
            let mut before = 0.0;
            let flash: f64 = points
                .iter()
                .map(|(pages, waf)| waf * (pages - std::mem::replace(&mut before, *pages)))
                .sum();
            assert_eq!(
                (before as u64, flash.round() as u64),
                (lane.host_pages(), lane.flash_pages()),
                "{writes}"
            );
            assert!(points.len() <= 40, "{}", points.len());
        });
    }
}

/// A context, and 29 more that wrote as much.
#[test]
fn what_contexts_pictures_leave_out_is_said() {
    drawn("hotcold", 8 * PAGES, (&["baseline"], &[GcDestination::Own]), |material| {
        let part = ContextRow { share: 1.0 / 30.0, ..material.rows[0].clone() };
        let material = Material { rows: &vec![part; 30], ..*material };
        let note = of("lifetimes", &material).note;
        assert!(note.ends_with(" 10 more contexts with 33.3 % of the writes are left out."), "{note}");
        let map = of("address-map", &material).svg;
        assert!(map.contains(">22 other contexts, 73.3 % of the writes</text>"), "{map}");
    });
}

#[test]
fn a_curve_over_streams_has_ticks_at_its_points() {
    drawn("uniform", 0, (&["baseline"], &[GcDestination::Own]), |material| {
        let points = [1.0, 2.0, 3.0, 5.0, 9.0, 17.0].map(|streams| (streams, 1.5)).to_vec();
        let curves = vec![Curve { scheme: "pcstream".to_owned(), drive: GcDestination::Own, points }];
        let remarks = vec!["Something is to be known.".to_owned()];
        let sweep = Sweep { curves, remarks, ..Sweep::default() };
        let by_streams = Some(&sweep);
        let Figure { svg, note, .. } = of("waf-over-streams", &Material { by_streams, ..*material });
        assert!(note.ends_with(" Something is to be known."), "{note}");
        let has = |tick: &str| svg.contains(&format!(">{tick}</text>"));
        assert!(["1", "2", "3", "5", "9", "17"].iter().all(|tick| has(tick)) && !has("10"), "{svg}");
    });
}

/// Of `hotcold`, pcstream-plus has streams for both contexts, and baseline has none.
#[test]
fn streams_of_contexts_are_those_of_the_verdict() {
    let drives = [GcDestination::Own, GcDestination::Internal];
    drawn("hotcold", 8 * PAGES, (&["baseline", "pcstream-plus"], &drives), |material| {
        let lane = &material.simulation.results[material.simulation.recommended()];
        assert_eq!(
            (lane.scheme.as_str(), lane.settings.gc_destination),
            ("pcstream-plus", GcDestination::Internal)
        );
        assert!(material.rows.iter().any(|row| row.stream.is_some_and(|stream| stream.0 > 0)));
        assert!(page(material).contains("of pcstream-plus on an SSD with internal streams"));
    });
}

/// Their names are wider than the numbers of one column.
#[test]
fn kinds_of_drive_stand_above_their_columns() {
    drawn("uniform", PAGES, (&["baseline"], &GcDestination::ALL), |material| {
        let page = page(material);
        assert_eq!(page.matches("colspan=\"3\" scope=\"colgroup\">").count(), 3);
        assert!(page.contains(">internal streams, FDP persistent</th>"));
    });
}

#[test]
fn long_names_do_not_make_a_page_that_no_browser_opens() {
    drawn("hotcold", 8192, (&["baseline", "pcstream"], &[GcDestination::Own]), |material| {
        let frame = Frame { module: "/bin/a".to_owned(), symbol: "n".repeat(4000), ..Frame::default() };
        let row = material.rows.iter().find(|row| row.context.is_some()).expect("a context");
        let context = Context { frames: vec![frame; 12], ..row.context.expect("a context").clone() };
        let rows = vec![ContextRow { context: Some(&context), ..row.clone() }; 300];
        let page = page(&Material { rows: &rows, ..*material });
        assert!(page.len() < 10 << 20, "{} bytes", page.len());
        let shown = page.matches("<td class=\"path\">").count();
        assert!(shown > 100 && page.contains(&format!("<p>{} more contexts wrote ", 300 - shown)), "{shown}");
    });
}

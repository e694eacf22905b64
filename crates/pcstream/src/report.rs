//! `report`: a trace as one HTML file, or as single pictures.
//!
//! The trace is read once or more for the schemes, once for the pictures that need a survey, and once or more for the
//! curves: in groups of lanes that fit into memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use pcstream_placement::SchemeFactory;
use pcstream_replay::survey::{Survey, Surveyor};
use pcstream_replay::{Fitted, FrontEnd as _, LaneResult, LaneSpec, Pass, Plan};
use pcstream_report::pictures::{self, Curve, Material, Sweep};
use pcstream_report::{Simulation, dropped, human};
use pcstream_ssd::{Density, DeviceSettings, GcDestination, Geometry, Spare};
use pcstream_system::shell;
use pcstream_trace::TraceReader;

use crate::args::{ReportArgs, SchemeOptions};
use crate::failure::{Failure, Status};
use crate::fitted::Fitting;
use crate::png;
use crate::schemes;
use crate::simulate;
use crate::ui::{self, JsonSink, Sink, Ui};
use crate::whole_file::{all_different, is_stdout};

/// Spare factors of the curve over utilisation.
const SPARE_FACTORS: [f64; 7] = [0.03, 0.05, 0.07, 0.125, 0.2, 0.3, 0.45];

/// Streams of the curve over their number, S0 included.
const STREAMS: [u8; 6] = [1, 2, 3, 5, 9, 17];

/// What is said of curves where pools have sizes.
const WITHOUT_POOLS: &str = "The drives have no pools of given sizes, because each kind of drive and each number of streams \
    needs another number of them.";

/// The figures that are curves.
const OVER_UTILISATION: &str = "waf-over-utilisation";
const OVER_STREAMS: &str = "waf-over-streams";

/// `pcstream report`.
pub fn report(args: &ReportArgs, ui: Ui) -> Result<Status, Failure> {
    check_page(args).map_err(Failure::WrongArguments)?;
    if let Some(name) = &args.figure {
        check_figure(name, args).map_err(Failure::WrongArguments)?;
    }
    let outputs = [
        ("--output", args.output.as_deref()),
        ("--svg", args.svg.as_deref()),
        ("--png", args.png.as_deref()),
        ("--csv", args.csv.as_deref()),
        ("--json", args.simulation.output.json.as_deref()),
    ];
    let on_stdout = outputs.iter().filter(|(_, path)| path.is_some_and(is_stdout));
    ui::one_on_stdout(&on_stdout.map(|(flag, _)| format!("{flag} -")).collect::<Vec<_>>())?;
    all_different(&outputs)?;
    let create = |path| Ok::<_, Failure>((path, Sink::create("--output", path)?));
    let output = args.output.as_deref().map(create).transpose()?;
    // Files before signals are caught: each may be a pipe that nobody reads.
    let figure = args.figure.as_deref().map(|name| FigureFiles::create(name, args)).transpose()?;
    let json = JsonSink::asked(&args.simulation.output)?;
    let drawn = |name: &str| args.output.is_some() || args.figure.as_deref() == Some(name);
    let wanted = |name: &str| !args.no_curves && drawn(name);
    // What they refuse is said before anything is simulated.
    let curve_schemes = [OVER_UTILISATION, OVER_STREAMS].into_iter().any(wanted);
    let curve_schemes =
        curve_schemes.then(|| curve_schemes_of(&args.simulation.scheme_options)).transpose()?;
    let reader = simulate::open(&args.trace, ui)?;
    let (mut fitting, planned) = simulate::fit(&args.simulation, &args.fit, &reader, ui)?;
    let plan = &planned.plan;
    let surveyed = pictures::names().any(|name| drawn(name) && pictures::needs_survey(name));
    let density = surveyed.then(|| fitting.room_for_survey(plan)).transpose()?;
    let Fitted { results, mut replay, damage, .. } = fitting.run(plan)?;
    let results = schemes::keep_best(results);
    // What follows needs its place.
    replay.drop_lanes();
    let about = simulate::about(&args.trace, &reader, damage, &planned);
    let simulation = Simulation { results, ..Simulation::new(about, &replay) };
    simulate::remark_schemes(&args.simulation, &simulation.results, ui);
    let rows = simulate::rows(&simulation);
    let surveyed = |density| survey(plan, density, &fitting, simulation.traced_ns(), &reader);
    let survey = density.map(surveyed).transpose()?;
    let mut curves = Curves {
        schemes: curve_schemes.unwrap_or_default(),
        plan,
        fitting: &mut fitting,
        peak_live: survey.as_ref().map_or(0, Survey::peak_live_pages),
        ui,
        said: BTreeSet::new(),
        lost: false,
    };
    let by_utilisation = wanted(OVER_UTILISATION).then(|| curves.over_utilisation()).transpose()?;
    let by_streams = wanted(OVER_STREAMS).then(|| curves.over_streams()).transpose()?;
    let lost = curves.lost || simulation.has_losses();
    let material = Material {
        simulation: &simulation,
        rows: &rows,
        survey: survey.as_ref(),
        by_utilisation: by_utilisation.as_ref(),
        by_streams: by_streams.as_ref(),
    };
    put_out(output, figure, json, &material, ui)?;
    Ok(Status::with_losses(lost))
}

/// Puts everything out that was asked for.
fn put_out(
    output: Option<(&Path, Sink)>,
    figure: Option<FigureFiles>,
    json: Option<JsonSink>,
    material: &Material,
    ui: Ui,
) -> Result<(), Failure> {
    let drawn = figure.map_or(Ok(Vec::new()), |files| files.draw(material));
    let mut results = Vec::new();
    if let Some(sink) = json {
        results.push(sink.with(&pcstream_report::json::simulation(material.simulation, material.rows))?);
    }
    let mut said = None;
    if let Some((path, sink)) = output {
        let page = pictures::page(material).into_bytes();
        let written = || format!("{}: {} written", path.display(), human::bytes(page.len() as u64));
        said = (!sink.is_stdout()).then(written);
        results.push((sink, page));
    }
    // A figure with nothing to show does not cost the others.
    let (drawn, end) = drawn.map_or_else(|failure| (Vec::new(), Err(failure)), |drawn| (drawn, Ok(())));
    results.extend(drawn);
    ui::put_out(results)?;
    said.iter().for_each(|said| ui.remark(said));
    end
}

/// Refuses a page with the name of a picture.
fn check_page(args: &ReportArgs) -> anyhow::Result<()> {
    let kind = args.output.as_deref().and_then(of_picture);
    if let (Some(kind), Some(path)) = (kind, &args.output) {
        let file = shell::word(path);
        return Err(anyhow!(
            "--output {}: the whole report is HTML, expected a name such as report.html; a single picture is \
             --figure NAME --{kind} {file}",
            path.display()
        ));
    }
    Ok(())
}

/// The kind of picture that a file has the name of.
fn of_picture(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_ascii_lowercase();
    ["svg", "png", "csv"].into_iter().find(|kind| extension == OsStr::new(kind))
}

/// Refuses a figure that goes nowhere, or that other flags leave nothing of.
fn check_figure(name: &str, args: &ReportArgs) -> anyhow::Result<()> {
    if args.svg.is_none() && args.png.is_none() && args.csv.is_none() {
        return Err(anyhow!("--figure: say where to, with --svg FILE, --png FILE or --csv FILE"));
    }
    for (flag, path) in [("svg", &args.svg), ("png", &args.png), ("csv", &args.csv)] {
        let other = path.as_deref().and_then(of_picture).filter(|kind| *kind != flag);
        if let (Some(other), Some(path)) = (other, path) {
            return Err(anyhow!("--{flag} {0}: a name of another kind; give --{other} {0}", path.display()));
        }
    }
    if pictures::needs_clock(name) && !args.simulation.measure.timing {
        return Err(anyhow!("--figure {name}: needs --timing, which adds the time that requests take"));
    }
    if args.no_curves && [OVER_UTILISATION, OVER_STREAMS].contains(&name) {
        return Err(anyhow!(
            "--figure {name}: is one of the curves that --no-curves leaves out: give one of the two"
        ));
    }
    Ok(())
}

/// Where one figure goes.
struct FigureFiles<'a> {
    name: &'a str,
    svg: Option<Sink>,
    png: Option<Sink>,
    csv: Option<Sink>,
}

impl FigureFiles<'_> {
    fn create<'a>(name: &'a str, args: &ReportArgs) -> Result<FigureFiles<'a>, Failure> {
        let create =
            |flag, path: &Option<PathBuf>| path.as_deref().map(|path| Sink::create(flag, path)).transpose();
        Ok(FigureFiles {
            name,
            svg: create("--svg", &args.svg)?,
            png: create("--png", &args.png)?,
            csv: create("--csv", &args.csv)?,
        })
    }

    /// What goes where.
    fn draw(self, material: &Material) -> Result<Vec<(Sink, Vec<u8>)>, Failure> {
        let FigureFiles { name, svg, png, csv } = self;
        let figure = pictures::figure(name, material).expect("the name was checked");
        let drawing = pictures::standalone(&figure, pictures::trace_name(material.simulation).unwrap_or(""));
        let no_numbers = figure.csv.lines().nth(1).is_none();
        if figure.svg.is_empty() && (svg.is_some() || png.is_some() || no_numbers) {
            return Err(anyhow!("--figure {name}: there is nothing to show for this trace").into());
        }
        let mut results = Vec::new();
        if let Some(sink) = png {
            results.push((sink, png::draw(&drawing).context("--png")?));
        }
        results.extend(svg.map(|sink| (sink, drawing.into_bytes())));
        results.extend(csv.map(|sink| (sink, figure.csv.into_bytes())));
        Ok(results)
    }
}

/// Maps, copies and rates, on the first lane's device without streams.
fn survey(
    plan: &Plan,
    density: Density,
    fitting: &Fitting,
    traced_ns: u64,
    reader: &TraceReader,
) -> Result<Survey, Failure> {
    let (device, written) = (Surveyor::device(&plan.lanes[0].device), reader.meta().totals.host_pages);
    let mut surveyor = Surveyor::new(&device, density, &plan.prefill, written, traced_ns)
        .map_err(Failure::wrong_arguments)?;
    let mut progress = fitting.fit.front.progress();
    for batch in fitting.fit.batches() {
        // Damage has been reported by the replay.
        let Ok(batch) = batch else { break };
        for event in &batch.events {
            surveyor.feed(event).with_context(|| format!("trace {}", reader.path().display()))?;
        }
        progress(Pass::Survey, batch.events.len());
    }
    fitting.fit.front.check()?;
    Ok(surveyor.finish())
}

/// The schemes of the curves, by name.
fn curve_schemes_of(
    options: &SchemeOptions,
) -> Result<BTreeMap<&'static str, Arc<dyn SchemeFactory>>, Failure> {
    let names = ["baseline", "pcstream", "pcstream-plus", "oracle"].into_iter();
    names.map(|name| Ok((name, schemes::factory(name, options, None)?))).collect()
}

/// Simulates what curves show.
struct Curves<'a, 'b> {
    schemes: BTreeMap<&'static str, Arc<dyn SchemeFactory>>,
    plan: &'a Plan,
    fitting: &'a mut Fitting<'b>,
    peak_live: u64,
    ui: Ui,
    /// What was said of them on stderr.
    said: BTreeSet<String>,
    /// Whether a scheme dropped what it knew.
    lost: bool,
}

/// A point to be simulated.
struct Point {
    scheme: &'static str,
    x: f64,
    device: DeviceSettings,
}

/// The points of a picture.
#[derive(Default)]
struct Points {
    points: Vec<Point>,
    left_out: u64,
}

impl Points {
    /// A point at the place that `x` says, if there is such a drive.
    fn add(&mut self, scheme: &'static str, device: DeviceSettings, x: impl Fn(&Geometry) -> f64) {
        match Geometry::new(&device) {
            Ok(geometry) => self.points.push(Point { scheme, x: x(&geometry), device }),
            Err(_) => self.left_out += 1,
        }
    }
}

impl Curves<'_, '_> {
    /// The same writes on drives with more or less flash.
    fn over_utilisation(&mut self) -> Result<Sweep, Failure> {
        let mut points = Points::default();
        let peak_live = self.peak_live as f64;
        for spare_factor in SPARE_FACTORS {
            for (scheme, gc_destination) in [
                ("baseline", GcDestination::Own),
                ("baseline", GcDestination::Internal),
                ("pcstream", GcDestination::Internal),
                ("pcstream-plus", GcDestination::Internal),
                ("oracle", GcDestination::Internal),
            ] {
                let spare = Spare::SpareFactor(spare_factor);
                let device = DeviceSettings { spare, gc_destination, ..self.device() };
                points.add(scheme, device, |geometry| peak_live / geometry.physical_pages() as f64);
            }
        }
        self.simulate(points)
    }

    /// The same drive with more or fewer streams.
    fn over_streams(&mut self) -> Result<Sweep, Failure> {
        let mut points = Points::default();
        for streams in STREAMS {
            for (scheme, gc_destination) in [
                ("pcstream", GcDestination::Own),
                ("pcstream", GcDestination::Internal),
                ("oracle", GcDestination::Internal),
            ] {
                let device = DeviceSettings { streams, gc_destination, ..self.device() };
                points.add(scheme, device, |_| f64::from(streams));
            }
        }
        self.simulate(points)
    }

    /// The drive that the curves vary.
    fn device(&self) -> DeviceSettings {
        DeviceSettings { pools: Vec::new(), ..self.plan.lanes[0].device.clone() }
    }

    /// What is to be known of curves beside their points, which is said once on stderr, too.
    fn remarks(&mut self, results: &[LaneResult]) -> Vec<String> {
        let dropped = dropped(results);
        self.lost |= !dropped.is_empty();
        let no_pools = (!self.plan.lanes[0].device.pools.is_empty()).then(|| WITHOUT_POOLS.to_owned());
        let dropped = dropped.iter().map(|dropped| format!("{dropped}."));
        let remarks: Vec<String> = no_pools.into_iter().chain(dropped).collect();
        for remark in &remarks {
            if self.said.insert(remark.clone()) {
                self.ui.remark(&format!("curves: {remark}"));
            }
        }
        remarks
    }

    fn simulate(&mut self, Points { points, left_out }: Points) -> Result<Sweep, Failure> {
        if points.is_empty() {
            return Ok(Sweep { left_out, ..Sweep::default() });
        }
        // Curves are of WAF alone.
        let lane = |point: &Point| LaneSpec {
            lifetimes: false,
            ..LaneSpec::new(self.schemes[point.scheme].clone(), point.device.clone())
        };
        let lanes = points.iter().map(lane).collect();
        let results = self.fitting.run(&Plan { lanes, ..self.plan.clone() })?.results;
        let (mut curves, remarks) = (Vec::<Curve>::new(), self.remarks(&results));
        for (point, result) in points.iter().zip(results) {
            let Some(waf) = result.waf() else { continue };
            let (scheme, drive) = (point.scheme, point.device.gc_destination);
            match curves.iter_mut().find(|curve| curve.scheme == scheme && curve.drive == drive) {
                Some(curve) => curve.points.push((point.x, waf)),
                None => {
                    curves.push(Curve { scheme: scheme.to_owned(), drive, points: vec![(point.x, waf)] });
                }
            }
        }
        curves.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        Ok(Sweep { curves, left_out, remarks })
    }
}

//! The report in a browser: light, dark, narrow and on paper, where Chromium is installed. Elsewhere these tests are counted as
//! ignored. `PCSTREAM_SCREENSHOTS=DIR` keeps the pictures, to be looked at.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use tempfile::TempDir;

/// Flags that keep the browser from everything but the page.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// Seconds. No page takes a browser this long, however busy the machine is.
const TIME_LIMIT: &str = "300";

fn main() -> ExitCode {
    let missing = browser().is_none();
    let reason = if missing { "ignored: Chromium is not installed (apt-get install chromium): " } else { "" };
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        Trial::test(format!("{reason}{name}"), test).with_ignored_flag(missing)
    };
    let tests = vec![
        trial("screenshots", screenshots),
        trial("no_window_cuts_pictures", no_window_cuts_pictures),
        trial("paper_has_all_columns", paper_has_all_columns),
        trial("paper_has_the_first_contexts", paper_has_the_first_contexts),
        trial("scripts_run", scripts_run),
        trial("empty_values_are_last", empty_values_are_last),
        trial("keys_and_filter_work", keys_and_filter_work),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&paths).flat_map(|dir| names.map(|name| dir.join(name))).find(|path| path.is_file())
}

/// A report of the recorded trace.
fn report(directory: &Path) -> Result<PathBuf, Failed> {
    let page = directory.join("report.html");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mixed.pctrace");
    let status = Command::new(env!("CARGO_BIN_EXE_pcstream"))
        .args(["-q", "report", "--superblock-pages", "256", "--streams", "5", "--spare-factor", "0.1"])
        .args(["--prefill", "0.9"])
        .arg(trace)
        .arg("-o")
        .arg(&page)
        .status()?;
    if status.success() { Ok(page) } else { Err(format!("report: {status}").into()) }
}

/// Runs the browser on a page with a profile of its own. Returns what it printed. Now and then a browser hangs: it is ended, and
/// another one started.
fn browse(page: &Path, profile: &Path, flags: &[String]) -> Result<Vec<u8>, Failed> {
    // Processes of the browser that outlive it would keep pipes open.
    let [out, errors] = ["out", "errors"].map(|name| profile.with_extension(name));
    let mut ended = String::new();
    for attempt in ["first", "second"] {
        let status = Command::new("timeout")
            .args(["--kill-after=10", TIME_LIMIT])
            .arg(browser().expect("looked for before"))
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.with_extension(attempt).display()))
            .args(flags)
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&errors)?)
            .status()?;
        if status.success() {
            return Ok(std::fs::read(&out)?);
        }
        ended = format!("{status}: {}", String::from_utf8_lossy(&std::fs::read(&errors)?));
        let timed_out = matches!(status.code(), None | Some(124 | 137));
        if !timed_out {
            break;
        }
    }
    Err(ended.into())
}

/// Leaves in the page what is wider than its place or the window, labels of pictures that are too small to read, and pictures
/// of which not one layout is shown. Tables may scroll in windows that are too narrow for columns and too wide for rows on several
/// lines.
const MEASURE: &str = "<script>
const cut = [], root = document.scrollingElement;
if (innerWidth > 1080 && getComputedStyle(document.querySelector('.wide')).overflowX !== 'visible') cut.push('heads of columns');
if (root.scrollWidth > innerWidth) cut.push(`the page: ${root.scrollWidth}`);
for (const wide of document.querySelectorAll('.wide'))
  if ((innerWidth < 720 || innerWidth > 1080 || wide.querySelector('svg')) && wide.scrollWidth > wide.clientWidth) cut.push(`${wide.parentElement.textContent.slice(0, 40)}: ${wide.scrollWidth}`);
const shown = [...document.querySelectorAll('svg.figure')].filter(svg => svg.checkVisibility());
for (const section of document.querySelectorAll('section:has(svg)')) {
  const layouts = shown.filter(svg => section.contains(svg)).length;
  if (layouts !== 1) cut.push(`${layouts} layouts of ${section.id}`);
}
for (const svg of shown)
  if (svg.getBoundingClientRect().right > innerWidth) cut.push(`a picture: ${svg.getAttribute('aria-label')}`);
for (const text of shown.flatMap(svg => [...svg.querySelectorAll('text')])) {
  const box = text.getBBox(), all = text.ownerSVGElement.viewBox.baseVal;
  if (box.x < -1 || box.x + box.width > all.width + 1) cut.push(`text: ${text.textContent}`);
  const height = text.getBoundingClientRect().height;
  if (text.textContent && height < 10) cut.push(`${height} high: ${text.textContent}`);
}
parent.postMessage(`${innerWidth} wide, cut off: ${cut.join('; ')}.`, '*');
</script></body>";

/// A page with the report in a frame of this width: a browser's window may be no narrower than 500 pixels.
fn framed(page: &Path, width: &str) -> Result<PathBuf, Failed> {
    let frame = page.with_file_name(format!("framed-{width}.html"));
    let name = page.file_name().and_then(|name| name.to_str()).ok_or("a plain name")?;
    let script = "<script>onmessage = event => { document.title = event.data; };</script>";
    let style = format!("border: 0; width: {width}px; height: 5200px");
    let body = format!("<body style=\"margin: 0\"><iframe style=\"{style}\" src=\"{name}\"></iframe></body>");
    std::fs::write(&frame, format!("<!doctype html><title></title>{script}{body}"))?;
    Ok(frame)
}

/// Nothing is wider than the window, the pictures or the places of tables.
fn nothing_is_cut_off(page: &Path, profile: &Path, width: &str) -> Result<(), Failed> {
    let measured = page.with_file_name("measured.html");
    std::fs::write(&measured, std::fs::read_to_string(page)?.replace("</body>", MEASURE))?;
    let flags = ["--window-size=1200,5200", "--virtual-time-budget=10000", "--dump-dom"].map(str::to_owned);
    let dom = String::from_utf8(browse(&framed(&measured, width)?, profile, &flags)?)?;
    let found = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap_or("");
    let nothing = format!("{width} wide, cut off: .");
    if found == nothing { Ok(()) } else { Err(format!("{found:?} instead of {nothing:?}").into()) }
}

/// Three pictures that are not blank, and not alike.
fn screenshots() -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    let kept = std::env::var_os("PCSTREAM_SCREENSHOTS").map(PathBuf::from);
    let directory = kept.unwrap_or_else(|| place.path().to_owned());
    let mut pictures = Vec::new();
    for (name, width, flag) in [
        ("light", "1100", "--blink-settings=preferredColorScheme=1"),
        ("dark", "1100", "--blink-settings=preferredColorScheme=0"),
        ("narrow", "390", "--blink-settings=preferredColorScheme=1"),
    ] {
        let picture = directory.join(format!("{name}.png"));
        let profile = place.path().join(name);
        nothing_is_cut_off(&page, &profile, width)?;
        let size = format!("--window-size={width},5200");
        let flags = [size, flag.to_owned(), format!("--screenshot={}", picture.display())];
        browse(&framed(&page, width)?, &profile, &flags)?;
        let bytes = std::fs::read(&picture)?;
        // A blank page of this size takes some 20 KB.
        if !bytes.starts_with(b"\x89PNG") || bytes.len() < 80_000 {
            return Err(format!("{name}: {} bytes are no picture of a report", bytes.len()).into());
        }
        pictures.push(bytes);
    }
    if pictures[0] == pictures[1] {
        return Err("dark is the same as light".into());
    }
    Ok(())
}

/// Around the widths at which the page has another layout, too.
fn no_window_cuts_pictures() -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    for width in ["360", "400", "600", "601", "880", "881"] {
        nothing_is_cut_off(&page, &place.path().join(width), width)?;
    }
    Ok(())
}

/// On A4, of which Chromium leaves 718 pixels between margins. The style of paper is put on a screen, which can be measured.
fn paper_has_all_columns() -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    let printed = page.with_file_name("printed.html");
    std::fs::write(&printed, std::fs::read_to_string(&page)?.replace("@media print", "@media all"))?;
    nothing_is_cut_off(&printed, &place.path().join("profile"), "718")
}

/// Makes the table of contexts long.
const MANY: &str = "<script>
const rows = document.querySelector('#contexts tbody');
while (rows.children.length < 500) rows.append(rows.children[0].cloneNode(true));
</script></body>";

fn paper_has_the_first_contexts() -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    std::fs::write(&page, std::fs::read_to_string(&page)?.replace("</body>", MANY))?;
    let printed = page.with_extension("pdf");
    browse(&page, &place.path().join("profile"), &[format!("--print-to-pdf={}", printed.display())])?;
    let pdf = std::fs::read(&printed)?;
    let pages = String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count();
    // All 500 would take more than 20.
    if (5..=14).contains(&pages) { Ok(()) } else { Err(format!("{pages} pages").into()) }
}

/// Leaves in the title what keys and a filter without a match do.
const KEYS: &str = "<script>
const boxes = [...document.querySelectorAll('#flame-written .box')], said = [];
boxes[1].focus();
said.push(document.activeElement === boxes[1] && boxes[1].getAttribute('role'));
boxes[1].dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
said.push(boxes[1].querySelector('rect').getAttribute('width'));
const filter = document.getElementById('filter');
filter.value = 'no such context';
filter.dispatchEvent(new Event('input'));
said.push(document.getElementById('found').textContent.replace(/of \\d+/, 'of all'));
document.title = said;
</script></body>";

fn keys_and_filter_work() -> Result<(), Failed> {
    script_says(KEYS, "button,999.5,0 of all contexts")
}

/// Leaves in the title the first lifetime and the last, after one click on their head and after two.
const SORT: &str = "<script>
const button = document.querySelectorAll('#contexts th [role=button]')[3], said = [];
for (let click = 0; click < 2; click++) {
  button.click();
  const cells = [...document.querySelectorAll('#contexts tbody tr')].map(row => row.cells[3].textContent);
  said.push(cells[0] === '-' ? 'none first' : 'some first', cells.at(-1) === '-' ? 'none last' : 'some last');
}
document.title = said;
</script></body>";

/// What has no lifetime is last, in both orders.
fn empty_values_are_last() -> Result<(), Failed> {
    script_says(SORT, "some first,none last,some first,none last")
}

/// Runs another script at the end of a report, which has to leave this title.
fn script_says(script: &str, title: &str) -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    std::fs::write(&page, std::fs::read_to_string(&page)?.replace("</body>", script))?;
    let flags = ["--window-size=1200,5200", "--dump-dom"].map(str::to_owned);
    let dom = String::from_utf8(browse(&page, &place.path().join("profile"), &flags)?)?;
    let found = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap_or("");
    if found == title { Ok(()) } else { Err(format!("{found:?} instead of {title:?}").into()) }
}

/// The script may run under the page's own policy: it turns heads of columns into buttons.
fn scripts_run() -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    let plain = std::fs::read_to_string(&page)?;
    let dom = String::from_utf8(browse(&page, &place.path().join("profile"), &["--dump-dom".to_owned()])?)?;
    let heads = |text: &str| text.matches("<th class=\"n\"><span role=\"button\"").count();
    if heads(&plain) != 0 || heads(&dom) < 4 {
        return Err(format!("{} buttons with the script", heads(&dom)).into());
    }
    Ok(())
}

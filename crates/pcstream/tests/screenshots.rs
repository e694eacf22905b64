//! The report in a browser: light, dark and narrow, where Chromium is installed. Elsewhere these tests are counted as
//! ignored. `PCSTREAM_SCREENSHOTS=DIR` keeps the pictures, to be looked at.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use tempfile::TempDir;

/// Flags that keep the browser from everything but the page.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

fn main() -> ExitCode {
    let missing = browser().is_none();
    let reason = if missing { "ignored: Chromium is not installed (apt-get install chromium): " } else { "" };
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        Trial::test(format!("{reason}{name}"), test).with_ignored_flag(missing)
    };
    let tests = vec![trial("screenshots", screenshots), trial("scripts_run", scripts_run)];
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

/// Runs the browser on a page with a profile of its own. Returns what it printed.
fn browse(page: &Path, profile: &Path, flags: &[String]) -> Result<Vec<u8>, Failed> {
    let out = Command::new(browser().expect("looked for before"))
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(flags)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()?;
    if out.status.success() {
        Ok(out.stdout)
    } else {
        Err(String::from_utf8_lossy(&out.stderr).as_ref().into())
    }
}

/// Three pictures that are not blank, and not alike.
fn screenshots() -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    let kept = std::env::var_os("PCSTREAM_SCREENSHOTS").map(PathBuf::from);
    let directory = kept.unwrap_or_else(|| place.path().to_owned());
    let mut pictures = Vec::new();
    for (name, size, flag) in [
        ("light", "1100,5200", "--blink-settings=preferredColorScheme=1"),
        ("dark", "1100,5200", "--blink-settings=preferredColorScheme=0"),
        ("narrow", "400,5200", "--blink-settings=preferredColorScheme=1"),
    ] {
        let picture = directory.join(format!("{name}.png"));
        let flags =
            [format!("--window-size={size}"), flag.to_owned(), format!("--screenshot={}", picture.display())];
        browse(&page, &place.path().join(name), &flags)?;
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

/// The script may run under the page's own policy: it turns heads of columns into buttons.
fn scripts_run() -> Result<(), Failed> {
    let place = TempDir::new()?;
    let page = report(place.path())?;
    let plain = std::fs::read_to_string(&page)?;
    let dom = String::from_utf8(browse(&page, &place.path().join("profile"), &["--dump-dom".to_owned()])?)?;
    let heads = |text: &str| text.matches("<th class=\"n\"><button>").count();
    if heads(&plain) != 0 || heads(&dom) < 4 {
        return Err(format!("{} buttons with the script", heads(&dom)).into());
    }
    Ok(())
}

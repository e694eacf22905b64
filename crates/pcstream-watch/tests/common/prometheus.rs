//! The parser of Prometheus' client for Python, as a judge of metrics.

use std::io::Write as _;
use std::process::{Command, Stdio};

fn interpreter() -> String {
    std::env::var("PCSTREAM_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Why it cannot be asked, if so. It counts as there if `PCSTREAM_REQUIRE_PYTHON` is 1.
pub fn missing() -> Option<String> {
    let required = std::env::var("PCSTREAM_REQUIRE_PYTHON").is_ok_and(|v| v == "1");
    let import = || Command::new(interpreter()).args(["-c", "import prometheus_client"]).output();
    let is_there = required || import().is_ok_and(|output| output.status.success());
    (!is_there).then(|| "prometheus-client for Python, or PCSTREAM_PYTHON".to_owned())
}

const PARSE: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        print(sample.name, dict(sample.labels), sample.value)
";

/// What it reads in a text, a sample each line. Errors: it refuses the text, or does not start.
pub fn read(text: &str) -> Result<String, String> {
    let mut python = Command::new(interpreter());
    python.args(["-c", PARSE]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut parser = python.spawn().map_err(|error| error.to_string())?;
    parser.stdin.take().expect("a pipe").write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    let output = parser.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{}\n{text}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

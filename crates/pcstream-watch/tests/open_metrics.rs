//! The parser of Prometheus' client for Python accepts the text.

use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use pcstream_trace::{Batch, Context, ContextId, Event, FileId, Frame, Kind, Lba, Op, Signature};
use pcstream_watch::{Learner, Limits, Metrics, Watch};

fn main() -> ExitCode {
    let required = std::env::var("PCSTREAM_REQUIRE_PYTHON").is_ok_and(|v| v == "1");
    let is_there = || {
        let import = Command::new(interpreter()).args(["-c", "import prometheus_client"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let ignored = !required && !is_there();
    let reason = if ignored { "ignored: install prometheus-client, or set PCSTREAM_PYTHON: " } else { "" };
    let trial = Trial::test(format!("{reason}prometheus_reads_the_metrics"), prometheus_reads_the_metrics);
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(ignored)]).exit_code()
}

fn interpreter() -> String {
    std::env::var("PCSTREAM_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

const PARSE: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        print(sample.name, dict(sample.labels), sample.value)
";

fn text() -> String {
    let hostile = "a\"b\\c\nd\u{202e}e{}=,";
    let symbol = Frame { symbol: hostile.into(), ..Frame::default() };
    let context = Context {
        id: ContextId(1),
        signature: Signature(255),
        executable: format!("/usr/bin/{hostile}"),
        frames: vec![symbol],
        ..Context::default()
    };
    let batch = Batch { contexts: vec![context], ..Batch::default() };
    let mut learner = Learner::new(4, None).expect("good parameters");
    let mut watch = Watch::new(Limits::default(), 4);
    watch.absorb(&batch);
    learner.absorb(&batch);
    for round in 0..100 {
        let event = Event {
            time_ns: round,
            lba: Lba(0),
            pages: 10,
            context: ContextId(1),
            file: FileId(0),
            file_page: 0,
            op: Op::Write,
            kind: Kind::Data,
            hint: Default::default(),
        };
        let stream = learner.take(&event);
        watch.take(&event, stream);
        // What the file system writes for itself.
        watch.take(
            &Event { context: ContextId::NONE, kind: Kind::OtherMetadata, lba: Lba(99), ..event },
            None,
        );
    }
    let losses = [("missed_events".to_owned(), 3)].into();
    let snapshot = watch.tick(Duration::from_secs(2), &losses, |signature| learner.expected(signature));
    assert_eq!(snapshot.contexts[0].stream.map(|stream| stream.0), Some(1), "it has learned");
    let mut metrics = Metrics::new(5);
    metrics.update(&snapshot);
    metrics.text().to_owned()
}

fn prometheus_reads_the_metrics() -> Result<(), Failed> {
    let mut python = Command::new(interpreter());
    python.args(["-c", PARSE]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut parser = python.spawn()?;
    parser.stdin.take().expect("a pipe").write_all(text().as_bytes())?;
    let output = parser.wait_with_output()?;
    let read = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), text());
    assert!(read.contains("pcstream_context_written_bytes_total") && read.contains("} 4096000"), "{read}");
    assert!(read.contains("'context': '00000000000000ff'"), "{read}");
    assert!(
        read.contains("'context': 'file system: other'") && read.contains("'context': 'other'"),
        "{read}"
    );
    Ok(())
}

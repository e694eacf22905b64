//! The parser of Prometheus' client for Python accepts the text.

#[path = "common/prometheus.rs"]
mod prometheus;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use pcstream_trace::{Batch, Context, ContextId, Event, Frame, Kind, Lba, Signature};
use pcstream_watch::{About, Hinted, Learner, Limits, Metrics, Placing, Watch, WriteStream};

fn main() -> ExitCode {
    let missing = prometheus::missing();
    let reason = missing.as_ref().map_or(String::new(), |what| format!("ignored: needs {what}: "));
    let trial = Trial::test(format!("{reason}prometheus_reads_the_metrics"), prometheus_reads_the_metrics);
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(missing.is_some())]).exit_code()
}

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
        let event = Event { time_ns: round, context: ContextId(1), ..Event::write(0, 10) };
        let stream = learner.take(&event);
        watch.take(&event, stream);
        // What the file system writes for itself.
        watch.take(
            &Event { context: ContextId::NONE, kind: Kind::OtherMetadata, lba: Lba(99), ..event },
            None,
        );
    }
    let losses = [("missed_events".to_owned(), 3)].into();
    let mut snapshot = watch.tick(Duration::from_secs(2), &losses, |signature| learner.expected(signature));
    assert_eq!(snapshot.contexts[0].stream.map(|stream| stream.0), Some(1), "it has learned");
    snapshot.placing = Some(Placing {
        contexts_known: 1,
        clusterings: 2,
        hints: vec![("set".to_owned(), 3)],
        hinted: vec![Hinted { hint: "none".to_owned(), pages: 3, pages_of_others: 2 }],
        streams: vec![WriteStream { write_stream: 2, requests: 4, pages: 5 }],
    });
    let mut metrics = Metrics::new(5);
    metrics.describe(About { on: hostile.into(), device: "sda1".into(), ..About::default() });
    metrics.update(&snapshot);
    metrics.text().to_owned()
}

fn prometheus_reads_the_metrics() -> Result<(), Failed> {
    let read = prometheus::read(&text())?;
    assert!(read.contains("pcstream_context_written_bytes_total") && read.contains("} 4096000"), "{read}");
    assert!(read.contains("'context': '00000000000000ff'"), "{read}");
    assert!(read.contains("pcstream_info {") && read.contains("'device': 'sda1'"), "{read}");
    assert!(read.contains("pcstream_metrics_refused_total {} 0"), "{read}");
    assert!(
        read.contains("'context': 'file system: other'") && read.contains("'context': 'other'"),
        "{read}"
    );
    assert!(read.contains("pcstream_place_placed_bytes_total {'write_stream': '2'} 20480"), "{read}");
    Ok(())
}

//! `record` on file systems that are there already, and what hostile or unusual programs do to it: the binary as a user
//! meets it, judged by the trace that it leaves.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;

use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use disk::Disk;
use pcstream_trace::{Context, Op, TraceReader};

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices];
    common::run(vec![common::test("record_traces_onto_the_traced_file_system", &needs, onto_itself)])
}

fn pcstream() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn record(dir: &Path, trace: &Path, script: &str) -> Output {
    let mut command = pcstream();
    command.arg("record").arg("--on").arg(dir).arg("-o").arg(trace).args(["--", "sh", "-c", script]);
    command.output().expect("pcstream can be started")
}

fn contexts(trace: &Path) -> Vec<Context> {
    let reader = TraceReader::open(trace).expect("the trace can be read");
    reader.contexts().to_vec()
}

/// The trace lies on the file system that it is about: what is written to it is nobody's data.
fn onto_itself() {
    let disk = Disk::ext4(256);
    let trace = disk.mount_point().join("t.pctrace");
    let script = "for i in $(seq 120); do dd if=/dev/zero of=f$((i % 7)) bs=64k count=4 conv=fsync 2>/dev/null || exit 1; \
                  sleep 0.05; done";
    let out = record(&disk.mount_point(), &trace, script);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    for context in contexts(&trace) {
        assert!(!context.executable.ends_with("/pcstream"), "the recorder captured itself: {context:?}");
    }
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let files = reader.files();
    assert!(files.iter().all(|file| !file.path.contains("pctrace") && !file.path.is_empty()), "{files:?}");
    let mut data = 0;
    for batch in reader.batches() {
        let batch = batch.expect("it can be read");
        data += batch.events.iter().filter(|e| e.op == Op::Write && e.file.is_some()).count();
    }
    assert!(data >= 120, "{data}");
}

//! Java under capture with the agent (`jvm/`): every way to write files from Java has the Java path that did it, and the same
//! signature however the JVM runs the code.

mod common;
#[path = "common/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use pcstream_capture::capture::Target;
use pcstream_capture::session::SessionOptions;
use pcstream_fs::scratch::FsKind;
use pcstream_trace::{Signature, Unwind};
use recording::{Recording, assert_complete, bpf, prctl, program, record_with, scratch};
use tempfile::TempDir;

/// Each method writes 20 pages of the file of its name.
const PROGRAM: &str = r#"
import java.io.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.concurrent.*;
public class Paths {
    static final byte[] PAGE = new byte[4096];
    static final int PAGES = 20;
    interface Way { void write(int i) throws Exception; }
    static void pages(Way way) throws Exception { for (int i = 0; i < PAGES; i++) way.write(i); }
    static void stream() throws Exception {
        try (FileOutputStream out = new FileOutputStream("stream")) { pages(i -> out.write(PAGE)); }
    }
    static void random() throws Exception {
        try (RandomAccessFile out = new RandomAccessFile("random", "rw")) {
            pages(i -> { out.seek(i * 4096L); out.write(PAGE); });
        }
    }
    static void channel(String name, ByteBuffer page) throws Exception {
        try (FileChannel out = FileChannel.open(Path.of(name), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            pages(i -> { page.clear(); out.write(page, i * 4096L); });
        }
    }
    static void heap() throws Exception { channel("heap", ByteBuffer.wrap(PAGE)); }
    static void direct() throws Exception { channel("direct", ByteBuffer.allocateDirect(4096)); }
    static void gathered() throws Exception {
        try (FileChannel out = FileChannel.open(Path.of("gathered"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            pages(i -> out.write(new ByteBuffer[] {ByteBuffer.wrap(PAGE, 0, 2048), ByteBuffer.wrap(PAGE, 2048, 2048)}));
        }
    }
    static void asynchronous() throws Exception {
        try (AsynchronousFileChannel out = AsynchronousFileChannel.open(Path.of("asynchronous"),
                StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            pages(i -> out.write(ByteBuffer.wrap(PAGE), i * 4096L).get());
        }
    }
    static void mapped() throws Exception {
        try (FileChannel out = FileChannel.open(Path.of("mapped"), StandardOpenOption.CREATE, StandardOpenOption.READ,
                StandardOpenOption.WRITE)) {
            MappedByteBuffer map = out.map(FileChannel.MapMode.READ_WRITE, 0, PAGES * 4096);
            pages(i -> map.put(i * 4096, (byte) 1));
        }
    }
    static void pooled() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        try (FileOutputStream out = new FileOutputStream("pooled")) { pages(i -> pool.submit(() -> write(out)).get()); }
        pool.shutdown();
    }
    static Void write(FileOutputStream out) throws IOException { out.write(PAGE); return null; }
    static void flush(FileChannel out, int i) throws IOException { out.write(ByteBuffer.wrap(PAGE), i * 4096L); }
    static void compact(FileChannel out, int i) throws IOException { out.write(ByteBuffer.wrap(PAGE), i * 4096L); }
    public static void main(String[] arguments) throws Exception {
        stream(); random(); heap(); direct(); gathered(); asynchronous(); mapped(); pooled();
        try (FileChannel out = FileChannel.open(Path.of("both"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            for (int i = 0; i < PAGES; i++) if (i % 2 == 0) flush(out, i); else compact(out, i);
        }
    }
}
"#;

const WAYS: [(&str, &str); 8] = [
    ("stream", "stream"),
    ("random", "random"),
    ("heap", "heap"),
    ("direct", "direct"),
    ("gathered", "gathered"),
    ("asynchronous", "asynchronous"),
    ("mapped", "mapped"),
    ("pooled", "write"),
];

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram, bpf, prctl, java, agent];
    common::run(vec![
        common::test("jvm_ways_to_write_have_java_paths", &needs, ways),
        common::test("jvm_without_the_agent_has_no_java_paths", &needs, without_agent),
    ])
}

fn java() -> Option<String> {
    program("java", "default-jre-headless").or_else(|| program("javac", "default-jdk-headless"))
}

fn jar() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jvm/target/pcstream-agent.jar")
}

fn agent() -> Option<String> {
    (!jar().exists()).then(|| "jvm/target/pcstream-agent.jar (make agent)".into())
}

fn run(classes: &Path, options: &[&str]) -> Recording {
    let mut command: Vec<OsString> = vec!["java".into()];
    command.extend(options.iter().map(OsString::from));
    command.extend(["-Xshare:auto".into(), "-cp".into(), classes.into(), "Paths".into()]);
    let recording = record_with(command, Target::Scratch(scratch(FsKind::Ext4)), SessionOptions::default());
    assert_complete(&recording);
    recording
}

fn compile(dir: &Path) {
    let source = dir.join("Paths.java");
    std::fs::write(&source, PROGRAM).expect("it can be written");
    let javac = Command::new("javac").args(["--release", "11", "-d"]).arg(dir).arg(&source).status();
    assert!(javac.expect("javac starts").success());
}

/// Compiles what can be on a path to a write before its first call. All of the JDK would take a quarter of a minute.
const COMPILED: [&str; 6] = [
    "-Xcomp",
    "-XX:CompileCommand=quiet",
    "-XX:CompileCommand=compileonly,Paths*::*",
    "-XX:CompileCommand=compileonly,java.io.*::*",
    "-XX:CompileCommand=compileonly,java.nio.*::*",
    "-XX:CompileCommand=compileonly,sun.nio.*::*",
];

fn ways() {
    let dir = TempDir::new().expect("a directory can be made");
    compile(dir.path());
    let agent = format!("-javaagent:{}", jar().display());
    let mut signatures: Option<BTreeMap<Signature, u64>> = None;
    for options in [&["-Xmixed"][..], &["-Xint"], &COMPILED] {
        let option = options[0];
        let recording = run(dir.path(), &[&[&agent[..]], options].concat());
        for (file, method) in WAYS {
            let writers = recording.writers_of(|path| path == format!("/{file}"));
            let [(&id, 20)] = writers.iter().collect::<Vec<_>>()[..] else {
                panic!("{option}: {file} was written by {writers:?}")
            };
            let context = &recording.finished().contexts[id as usize - 1];
            assert_eq!(context.unwind, Unwind::Runtime, "{option}: {file}");
            // The body of a lambda is a method of its own, called by `pages`.
            let wanted = format!("Paths.{method}");
            let named: Vec<&str> = context.frames.iter().map(|frame| frame.symbol.as_str()).collect();
            assert!(named.contains(&wanted.as_str()), "{option}: {file}: {named:?}");
            assert!(named.iter().all(|name| name.starts_with("Paths")), "{option}: {file}: {named:?}");
        }
        let both = recording.writers_of(|path| path == "/both");
        assert_eq!(both.values().collect::<Vec<_>>(), [&10, &10], "{option}");
        assert_eq!(recording.finished().losses["runtime_paths_rejected"], 0);
        let first = signatures.get_or_insert_with(|| recording.pages_by_signature());
        assert_eq!(*first, recording.pages_by_signature(), "{option}");
    }
}

/// What the agent adds is what the JVM hides.
fn without_agent() {
    let dir = TempDir::new().expect("a directory can be made");
    compile(dir.path());
    let recording = run(dir.path(), &[]);
    assert!(recording.finished().contexts.iter().all(|context| context.unwind != Unwind::Runtime));
    assert_eq!(recording.finished().statistics["captures_by_runtime"], 0);
}

//! Compiles the BPF program and generates its Rust view (maps, settings, records).
//!
//! Needs clang 14 or newer: `CLANG` names one; otherwise the newest found on the path is used.

use libbpf_cargo::SkeletonBuilder;
use std::{env, path::PathBuf, process::Command};

const SOURCES: [&str; 8] = [
    "bpf/pcstream.bpf.c",
    "bpf/buffers.h",
    "bpf/runtimes.h",
    "../../libpcstream/pcstream_runtime.h",
    "bpf/kernel.h",
    "bpf/direct.h",
    "bpf/wire.h",
    "bpf/signature.h",
];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("pcstream.skel.rs");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
    assert!(
        arch == "x86_64",
        "pcstream-capture reads x86-64 registers and system call numbers; the target is {arch}. \
         Build without the capture feature there."
    );
    SkeletonBuilder::new()
        .source(SOURCES[0])
        .clang(clang())
        .clang_args(["-Wall", "-Werror", "-Wno-unused-function", "-D__TARGET_ARCH_x86", "-mcpu=v3"])
        .build_and_generate(&out)
        .unwrap_or_else(|error| panic!("the BPF program does not compile: {error:#}"));
}

fn clang() -> String {
    if let Ok(named) = env::var("CLANG") {
        return named;
    }
    let versioned = (14..=25).rev().map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_string())
        .chain(versioned)
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
        .unwrap_or_else(|| {
            panic!("no clang found; install one (Debian: apt install clang) or set CLANG=/path/to/clang")
        })
}

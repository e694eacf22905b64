//! With the feature `bpf`: compiles the BPF program and generates its skeleton (maps, settings, programs).
//!
//! Needs clang 14 or newer: `CLANG` names one; otherwise `clang` is used, or else the newest found on the path.
//! Warnings of the compiler are errors if `PCSTREAM_WERROR` is set to 1, as the tests of this repository do.

#[cfg(feature = "bpf")]
#[path = "clang.rs"]
mod clang;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "bpf")]
    program::build();
}

#[cfg(feature = "bpf")]
mod program {
    use super::clang;
    use libbpf_cargo::SkeletonBuilder;
    use std::{env, path::PathBuf};

    pub fn build() {
        for source in
            ["bpf", "libpcstream/answers.h", "libpcstream/pcstream_runtime.h", "libpcstream/signature.h"]
        {
            println!("cargo::rerun-if-changed={source}");
        }
        println!("cargo::rerun-if-changed=clang.rs");
        println!("cargo::rerun-if-env-changed=CLANG");
        println!("cargo::rerun-if-env-changed=PCSTREAM_WERROR");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
        assert!(
            arch == "x86_64",
            "the BPF program reads x86-64 registers and system call numbers; the target is {arch}. \
             Build without the capture feature there."
        );
        SkeletonBuilder::new()
            .source("bpf/pcstream.bpf.c")
            .clang(compiler())
            .clang_args(arguments())
            .build_and_generate(out.join("pcstream.skel.rs"))
            .unwrap_or_else(|error| panic!("bpf/pcstream.bpf.c does not compile: {error:#}"));
    }

    fn arguments() -> Vec<String> {
        let mut arguments = clang::ARGUMENTS.map(str::to_owned).to_vec();
        // BTF names source files: the same object wherever the sources lie.
        let sources = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
        arguments.push(format!("-fdebug-prefix-map={sources}=."));
        if env::var("PCSTREAM_WERROR").is_ok_and(|value| value == "1") {
            arguments.push("-Werror".to_owned());
        }
        arguments
    }

    fn compiler() -> String {
        env::var("CLANG").ok().or_else(|| clang::names().find(|name| clang::runs(name))).unwrap_or_else(
            || panic!("no clang found; install one (Debian: apt install clang) or set CLANG=/path/to/clang"),
        )
    }
}

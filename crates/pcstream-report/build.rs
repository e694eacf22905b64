//! Puts into `PCSTREAM_BUILD` which sources are compiled: what stands behind the `+` of the version.
//!
//! Only a release build looks. Others say `debug`, so that a commit compiles nothing again while the code is worked on.

mod identity;

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=identity.rs");
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let mut build = "debug".to_owned();
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        build = identity::of(&package);
        for path in identity::watched(&package) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    println!("cargo::rustc-env=PCSTREAM_BUILD={build}");
}

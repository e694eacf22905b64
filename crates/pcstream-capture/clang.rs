//! Compilers of the BPF program and what they are given: for `build.rs`, and for the test that tries all of them.

/// Clang before this version cannot compile the program.
const OLDEST: u32 = 14;
/// The newest name that is looked for.
const NEWEST: u32 = 25;

/// What each compiler is given.
pub const ARGUMENTS: [&str; 4] = ["-Wall", "-Wno-unused-function", "-D__TARGET_ARCH_x86", "-mcpu=v3"];

/// Names that a compiler may have: the distribution's choice first, then the newest.
pub fn names() -> impl Iterator<Item = String> {
    let versioned = (OLDEST..=NEWEST).rev().map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_string()).chain(versioned)
}

/// Whether a program of this name is there and runs.
pub fn runs(name: &str) -> bool {
    std::process::Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

//! `serve` says what it cannot do; `scripts/devices fdp-server` shows what it does, on a kernel with ublk.

use std::path::Path;
use std::process::{Command, Output};

fn serve(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.arg("serve").args(arguments).output().expect("it starts")
}

/// Without the line ends that messages are wrapped with.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn wrong_flags_are_named() {
    for (arguments, part) in [
        (&[][..], "<DISK>"),
        (&["/dev/null", "--queues", "0"], "--queues"),
        (&["/dev/null", "--depth", "1025"], "--depth"),
        (&["/dev/null", "--id", "65536"], "--id"),
    ] {
        let output = serve(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(part), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn what_is_missing_is_said() {
    let output = serve(&["/dev/null"]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", said(&output));
    let said = said(&output);
    if Path::new("/dev/ublk-control").exists() {
        assert!(said.contains("no block device") || said.contains("/dev/ublk-control"), "{said}");
    } else {
        assert!(said.contains("this kernel has no ublk (CONFIG_BLK_DEV_UBLK)"), "{said}");
        assert!(said.contains("modprobe ublk_drv"), "{said}");
    }
}

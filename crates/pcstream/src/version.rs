//! What `pcstream --version` says: what this binary can do, and what it expects of a kernel.

/// Whether the programs that run in the kernel are inside.
const CAPTURE: &str = if cfg!(feature = "capture") {
    "compiled in, with its BPF program inside (run, record, top, place, demo, doctor)"
} else {
    "not compiled in: run, record, top, place, demo and doctor are not available (build with --features capture)"
};

/// The version with the build, features, and what a capture needs of the kernel.
pub fn long() -> String {
    format!(
        "{}\n\
         capture: {CAPTURE}\n\
         kernel: Linux 6.1 or newer on x86-64 with type information (BTF, /sys/kernel/btf/vmlinux); the BPF program is \
         relocated to it when it is loaded (CO-RE), and no module is needed\n\
         rights: root, for all that captures or places; simulating needs none\n\
         trace: version {}",
        pcstream_report::VERSION,
        pcstream_trace::FormatVersion::CURRENT,
    )
}

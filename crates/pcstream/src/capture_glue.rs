//! Where the binary meets `pcstream-capture`. Without the feature `capture` the commands say so.

#[cfg(feature = "capture")]
pub use crate::live::{doctor, record, run};
#[cfg(not(feature = "capture"))]
pub use absent::{doctor, record, run};

#[cfg(not(feature = "capture"))]
mod absent {
    use crate::args::{DoctorArgs, RecordArgs, RunArgs};
    use crate::failure::{Failure, Status};
    use crate::ui::Ui;

    fn not_built(command: &str) -> Result<Status, Failure> {
        Err(Failure::failed(anyhow::anyhow!(
            "'{command}' is not in this binary: built without capture. Rebuild with --features capture \
             (needs clang and libelf, Linux with BTF): cargo build --release --features capture"
        )))
    }

    pub fn run(_: RunArgs, _: Ui) -> Result<Status, Failure> {
        not_built("run")
    }

    pub fn record(_: RecordArgs, _: Ui) -> Result<Status, Failure> {
        not_built("record")
    }

    pub fn doctor(_: DoctorArgs, _: Ui) -> Result<Status, Failure> {
        not_built("doctor")
    }
}

//! Where the binary meets `pcstream-capture`. Without the feature `capture` the commands say so.

#[cfg(feature = "capture")]
pub use crate::{
    device_process::serve as emulated_device, doctor::doctor, live::record, place::place, top::top,
};
#[cfg(not(feature = "capture"))]
pub use absent::{demo, demo_workload, doctor, emulated_device, place, record, run, top};
#[cfg(feature = "capture")]
pub use present::{demo, demo_workload, run};

#[cfg(feature = "capture")]
mod present {
    use crate::args::{DemoArgs, DemoWorkloadArgs, RunArgs};
    use crate::failure::{Failure, Status};
    use crate::ui::Ui;
    use crate::{demo, emulated, repeated, run as plain};

    pub fn demo(args: DemoArgs, ui: Ui) -> Result<Status, Failure> {
        run(demo::run_args(args, ui)?, ui)
    }

    pub fn run(args: RunArgs, ui: Ui) -> Result<Status, Failure> {
        match args.repeat {
            _ if args.emulated.live => emulated::run(args, ui),
            Some(times) => repeated::run(&args, times, ui),
            None => plain::run(&args, ui),
        }
    }

    pub fn demo_workload(args: &DemoWorkloadArgs) -> Result<Status, Failure> {
        demo::workload(args)
    }
}

#[cfg(not(feature = "capture"))]
mod absent {
    use crate::args::{DemoArgs, DemoWorkloadArgs, DoctorArgs, PlaceArgs, RecordArgs, RunArgs, TopArgs};
    use crate::failure::{Failure, Status};
    use crate::ui::Ui;

    fn not_built(command: &str) -> Result<Status, Failure> {
        Err(Failure::failed(anyhow::anyhow!(
            "'{command}' is not in this binary: built without capture. Rebuild with --features capture \
             (needs clang and libelf, Linux with BTF): cargo build --release --features capture"
        )))
    }

    pub fn demo(_: DemoArgs, _: Ui) -> Result<Status, Failure> {
        not_built("demo")
    }

    pub fn demo_workload(_: &DemoWorkloadArgs) -> Result<Status, Failure> {
        not_built("demo-workload")
    }

    pub fn emulated_device() -> Result<Status, Failure> {
        not_built("emulated-device")
    }

    pub fn run(_: RunArgs, _: Ui) -> Result<Status, Failure> {
        not_built("run")
    }

    pub fn record(_: RecordArgs, _: Ui) -> Result<Status, Failure> {
        not_built("record")
    }

    pub fn place(_: &PlaceArgs, _: Ui) -> Result<Status, Failure> {
        not_built("place")
    }

    pub fn top(_: TopArgs, _: Ui) -> Result<Status, Failure> {
        not_built("top")
    }

    pub fn doctor(_: DoctorArgs, _: Ui) -> Result<Status, Failure> {
        not_built("doctor")
    }
}

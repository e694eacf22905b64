//! The emulated device beside a simulation: it takes the same decisions, from the same scheme.
//!
//! The device is a process of its own: `pcstream emulated-device`, which `run --live` starts and nobody else.

use std::io::BufReader;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use pcstream_emulator::mount::RUN_ROOT;
use pcstream_emulator::process::{self, Assigned, Beginning, DeviceProcess};
use pcstream_emulator::{PowerCut, Status as DeviceStatus};
use pcstream_replay::{Follower, Placed, Plan};
use pcstream_report::human;
use pcstream_ssd::{DeviceSettings, LogicalPage};
use pcstream_trace::PAGE_BYTES;

use crate::failure::{Failure, Status};
use crate::ui::Ui;

/// Pages that may wait for their streams: 128 MiB.
pub const BUFFER_PAGES: usize = 32768;

/// Between two lines on how a device stands.
const INTERVAL: Duration = Duration::from_secs(5);

/// A scheme without streams: the device does not wait for any.
const WITHOUT_STREAMS: &str = "baseline";

/// A device, and which lane of a plan it follows.
#[derive(Clone, Debug)]
pub struct OnDevice {
    /// The device.
    pub process: Arc<DeviceProcess>,
    /// The lane.
    pub lane: usize,
    /// A power cut to come.
    pub power_cut: Option<PowerCut>,
    /// How long garbage collection takes for each page, on top.
    pub gc_page: Duration,
}

#[derive(Debug)]
struct Streams(Arc<DeviceProcess>);

impl Follower for Streams {
    fn follow(&self, placed: &[Placed]) {
        let assigned = |p: &Placed| Assigned { first: p.first, pages: p.pages, stream: p.stream };
        let assigned: Vec<_> = placed.iter().map(assigned).collect();
        if !assigned.is_empty() {
            // A device that is gone is reported by who asks it how it stands.
            let _ = self.0.assign(&assigned);
        }
    }
}

impl OnDevice {
    /// Leaves one lane in the plan, whose scheme the device follows, and lets the device count from here on, with the
    /// plan's prefill on it.
    pub fn begin(&self, plan: &mut Plan) -> Result<(), Failure> {
        let mut lane = plan.lanes.swap_remove(self.lane);
        let expects_streams = lane.scheme.name() != WITHOUT_STREAMS;
        if expects_streams {
            lane.follower = Some(Arc::new(Streams(self.process.clone())));
        }
        plan.lanes = vec![lane];
        let prefill = plan.prefill.iter().map(|extent| (LogicalPage(extent.lba.0), extent.pages)).collect();
        let (power_cut, gc_page) = (self.power_cut, self.gc_page);
        self.process
            .begin(&Beginning { prefill, expects_streams, power_cut, gc_page })
            .map_err(Failure::failed)
    }
}

/// Says at intervals how a device stands, until it is dropped. It keeps no device alive, and nobody waits for it.
pub struct Standing {
    /// Closed to end the thread.
    _until: mpsc::Sender<()>,
}

impl Standing {
    /// Begins to say it, as remarks. Without room for a thread nothing is said.
    pub fn say(process: &Arc<DeviceProcess>, ui: Ui) -> Standing {
        let (until, ended) = mpsc::channel();
        let process = Arc::downgrade(process);
        let say = move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A device that is gone is reported by who asks it at the end. One without pages was not begun.
                let Some(process) = process.upgrade() else { break };
                let Ok(status) = process.status() else { break };
                if process.has_begun() && status.counters.host_pages > 0 {
                    ui.remark(&standing(&status));
                }
            }
        };
        let _ = thread::Builder::new().spawn(say);
        Standing { _until: until }
    }
}

fn standing(status: &DeviceStatus) -> String {
    let counters = &status.counters;
    format!(
        "the device: {} written, {} copied by garbage collection, WAF {:.3}, {} free",
        human::bytes(counters.host_pages * PAGE_BYTES),
        human::bytes(counters.gc_pages * PAGE_BYTES),
        counters.waf(),
        human::counted(status.free_superblocks.into(), "superblock"),
    )
}

/// Starts a device.
pub fn start(settings: &DeviceSettings) -> Result<DeviceProcess, Failure> {
    let this = std::env::current_exe().context("cannot find the program itself, which serves the device")?;
    let mut command = Command::new(this);
    command.arg("emulated-device");
    let device = DeviceProcess::start(command, settings, BUFFER_PAGES, RUN_ROOT.as_ref());
    Ok(device.context("--live needs FUSE (modprobe fuse), and memory for the whole device")?)
}

/// `pcstream emulated-device`: serves a device until standard input ends.
pub fn serve() -> Result<Status, Failure> {
    process::serve(BufReader::new(std::io::stdin()), std::io::stdout().lock())
        .map_err(|error| Failure::failed(anyhow!(error).context("the emulated device")))?;
    Ok(Status::Done)
}

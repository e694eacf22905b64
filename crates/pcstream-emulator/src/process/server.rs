//! The child's end: a device, and what it is asked.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pcstream_system::trusted_file::{Untrusted, check_alone, open_alone, open_regular};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;

use super::{Answer, Assigned, Beginning, END, Request, write_line};
use crate::device::{DeviceError, DeviceOptions, EmulatedDevice};
use crate::image;
use crate::mount::MountedDevice;
use crate::run_dir;

/// How long the end of a device waits for the loop device to let its file go, if whoever started it is gone.
const ORPHAN: Duration = Duration::from_secs(2);
/// After which the process of the device ends, whatever it waits for, if whoever started it is gone: longer than [`ORPHAN`].
const STUCK: Duration = Duration::from_secs(5);
/// Requests that wait.
const READ_AHEAD: usize = 64;

/// The child: serves a device until `input` ends. Errors: the other end is gone, or says what cannot be understood.
pub fn serve(input: impl BufRead + Send + 'static, mut output: impl Write) -> io::Result<()> {
    let directory = Arc::new(OnceLock::new());
    // What the kernel allocates for this thread, and for those that it starts, must not wait for writes to the device.
    let mut server = Server { no_flusher: configure_io_flusher_behavior(true).is_err(), ..Server::default() };
    for line in read_ahead(input, directory.clone())? {
        let request: Request = serde_json::from_str(&line?)?;
        if let Some(answer) = server.answer(request) {
            write_line(&mut output, &answer)?;
        }
        if let Some(mounted) = &server.mounted {
            directory.get_or_init(|| directory_of(&mounted.file()));
        }
    }
    if let Some(mounted) = &mut server.mounted
        && mounted.unmount(ORPHAN).is_err()
    {
        // It is still used. The end of this process makes its users fail; its directory is left to `clean_stale`.
        std::process::exit(1);
    }
    Ok(())
}

/// Lines of `input`. Some time after its end it ends the process, if that still waits for something, and detaches the mount
/// below `directory`.
fn read_ahead(
    input: impl BufRead + Send + 'static,
    directory: Arc<OnceLock<PathBuf>>,
) -> io::Result<Receiver<io::Result<String>>> {
    let (sender, lines) = sync_channel(READ_AHEAD);
    std::thread::Builder::new().spawn(move || {
        for line in input.lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
        drop(sender);
        std::thread::sleep(STUCK);
        // What cannot be removed now, `clean_stale` finds.
        let _ = directory.get().map(|directory| run_dir::remove(directory));
        std::process::exit(1);
    })?;
    Ok(lines)
}

/// The run directory of the device's file.
fn directory_of(file: &Path) -> PathBuf {
    file.ancestors().nth(2).unwrap_or(file).to_owned()
}

/// Locks the memory of this process: all that there is, and what comes later once it is used. Of what the threads reserve
/// for requests they use little.
fn lock_memory() -> rustix::io::Result<()> {
    mlockall(MlockAllFlags::CURRENT)?;
    mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}

#[derive(Default)]
struct Server {
    no_flusher: bool,
    mounted: Option<MountedDevice>,
    /// The first stream that the device refused since the last answer.
    refused: Option<DeviceError>,
}

impl Server {
    fn answer(&mut self, request: Request) -> Option<Result<Answer, String>> {
        if let Request::Assign(assigned) = request {
            self.assign(&assigned);
            return None;
        }
        // What is saved is whole whatever streams it has, and who looks how the device stands does not judge it.
        let keeps = matches!(request, Request::Save(_) | Request::Status);
        let answer = self.handle(request);
        Some(match if keeps { None } else { self.refused.take() } {
            Some(error) => Err(format!("a stream could not be assigned: {error}")),
            None => answer,
        })
    }

    fn assign(&mut self, assigned: &[Assigned]) {
        let Some(mounted) = &self.mounted else { return };
        for &Assigned { first, pages, stream } in assigned {
            match mounted.device().assign(first, pages, stream) {
                // What was under way when the power was cut needs no stream any more.
                Ok(()) | Err(DeviceError::PowerOff) => {}
                Err(error) => self.refused = self.refused.or(Some(error)),
            }
        }
    }

    fn handle(&mut self, request: Request) -> Result<Answer, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        if let Request::Start { settings, buffer_pages, root, owner } = request {
            let options = DeviceOptions { settings, buffer_pages, expects_streams: false };
            let device = EmulatedDevice::new(&options).map_err(|error| said(&error))?;
            let lacks = match (lock_memory().is_err(), self.no_flusher) {
                (true, _) => Some("its memory cannot be locked (ulimit -l)"),
                (false, true) => {
                    Some("its allocations may wait for its own writes (it lacks CAP_SYS_RESOURCE)")
                }
                (false, false) => None,
            };
            let mounted = MountedDevice::mount(owner, &root, device).map_err(|error| {
                format!("cannot mount the emulated device under {}: {error}", root.display())
            })?;
            let answer = Answer::Started { file: mounted.file(), lacks: lacks.map(str::to_owned) };
            self.mounted = Some(mounted);
            return Ok(answer);
        }
        let mounted = self.mounted.as_mut().ok_or("no device was started")?;
        let shared = mounted.device();
        let done = |()| Answer::Done;
        match request {
            Request::Begin(Beginning { prefill, expects_streams, power_cut, gc_page }) => {
                let mut device = shared.lock();
                device.prefill(&prefill).map_err(|error| said(&error))?;
                device.expect_streams(expects_streams);
                if let Some(cut) = power_cut {
                    device.plan_power_cut(cut);
                }
                shared.slow_gc(gc_page);
                Ok(Answer::Done)
            }
            Request::Load(path) => load(&mut shared.lock(), &path).map(done).map_err(|error| said(&error)),
            Request::Save(path) => save(&shared.lock(), &path).map(done).map_err(|error| said(&error)),
            Request::Status => Ok(Answer::Status(Box::new(shared.lock().status()))),
            Request::Settle => {
                let mut device = shared.lock();
                device.settle();
                Ok(Answer::Status(Box::new(device.status())))
            }
            Request::PowerOn => {
                let mut device = shared.lock();
                device.power_on();
                // What replays the journal has no streams.
                device.expect_streams(false);
                Ok(Answer::Done)
            }
            Request::Hurry => {
                shared.slow_gc(Duration::ZERO);
                Ok(Answer::Done)
            }
            Request::End => {
                debug_assert!(shared.lock().ssd().verify().is_ok(), "the model is sound");
                mounted
                    .unmount(END)
                    .map_err(|error| format!("cannot unmount the emulated device: {error}"))?;
                self.mounted = None;
                Ok(Answer::Done)
            }
            Request::Start { .. } | Request::Assign(_) => unreachable!("handled above"),
        }
    }
}

/// Loads a regular file: a pipe would be waited for. It is mounted then, so it must be nobody else's.
fn load(device: &mut EmulatedDevice, path: &Path) -> Result<(), image::ImageError> {
    let file = open_regular(path).and_then(|file| check_alone(&file, path, own_user()).map(|()| file));
    let file = file.map_err(refused)?;
    image::load(device, &mut BufReader::with_capacity(1 << 20, file))
}

/// Saves to a file that whoever started this process has made. In its directory another user may have put something else in its place.
fn save(device: &EmulatedDevice, path: &Path) -> Result<(), image::ImageError> {
    let file = open_alone(path, own_user()).map_err(refused)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    image::save(device, &mut out)?;
    Ok(out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn refused(error: Untrusted) -> image::ImageError {
    image::ImageError::from(io::Error::other(error.to_string()))
}

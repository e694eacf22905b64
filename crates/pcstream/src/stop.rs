//! Signals that ask a capture to stop.
//!
//! They are counted while something is captured, for the first of them asks it to end in good order. What follows a
//! capture may note them, too ([`StopSignals::interrupt`]). Afterwards they end the program, as usual.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pcstream_capture::capture::CaptureError;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::interrupt::{Interrupt, asking_to_stop};
use crate::ui::Ui;

/// After a signal, the time that whoever reads the output has to take the rest of it.
const READING: Duration = Duration::from_millis(500);
/// The time that it takes at most to say that the output is lost: whoever reads that may not, either.
const SAYING: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(20);

/// How output stands, for [`StopSignals::end_without_readers`].
#[derive(Debug, Default)]
pub struct Shown {
    all: AtomicBool,
    file: Mutex<()>,
}

impl Shown {
    /// All of it is out.
    pub fn all(&self) {
        self.all.store(true, Ordering::Relaxed);
    }

    /// Writes to a regular file, which nobody has to read: however long that takes, the program is not ended meanwhile.
    pub fn to_file<T>(&self, write: impl FnOnce() -> T) -> T {
        let _written = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        write()
    }
}

/// How a capture failed that did not begin: by a signal, if that was the first.
pub fn failure_of(error: CaptureError, signal: Option<i32>) -> Failure {
    match (&error, signal) {
        (CaptureError::Interrupted, Some(signal)) => Failure::Interrupted { error: error.into(), signal },
        _ => Failure::failed(error),
    }
}

/// Signals that ask to stop: those that came since they are caught.
pub struct StopSignals {
    /// How many there were.
    pub count: Arc<AtomicUsize>,
    /// The first of them; 0: none.
    first: Arc<AtomicI32>,
    /// The last since [`StopSignals::interrupt`]; 0: none.
    last: Arc<AtomicUsize>,
    released: Arc<AtomicBool>,
}

impl StopSignals {
    /// From now on.
    pub fn catch() -> anyhow::Result<StopSignals> {
        StopSignals::catch_with(None, || ())
    }

    /// From now on, but with `reload` SIGHUP only sets that. `then` runs in a thread of its own, after each signal that asks
    /// to stop.
    pub fn catch_with(
        reload: Option<Arc<AtomicBool>>,
        then: impl Fn() + Send + 'static,
    ) -> anyhow::Result<StopSignals> {
        let stop = StopSignals {
            count: Arc::default(),
            first: Arc::default(),
            last: Arc::default(),
            released: Arc::default(),
        };
        let (count, first) = (stop.count.clone(), stop.first.clone());
        let (last, released) = (stop.last.clone(), stop.released.clone());
        let asked = asking_to_stop(reload.is_some());
        let mut signals = Signals::new(asked).context("cannot catch signals")?;
        let catch = move || {
            for signal in signals.forever() {
                if released.load(Ordering::Relaxed) {
                    // Only fails for signals without a default action.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                if let Some(reload) = reload.as_ref().filter(|_| signal == SIGHUP) {
                    reload.store(true, Ordering::Relaxed);
                    continue;
                }
                let _ = first.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
                last.store(signal as usize, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
                then();
            }
        };
        std::thread::Builder::new().spawn(catch).context("cannot start a thread that waits for signals")?;
        Ok(stop)
    }

    /// The first signal that there was.
    pub fn first(&self) -> Option<i32> {
        Some(self.first.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// Where the first signal will be, 0 before it comes.
    pub fn first_signal(&self) -> Arc<AtomicI32> {
        Arc::clone(&self.first)
    }

    /// The signals that come from now on, for work after a capture.
    pub fn interrupt(&self) -> Interrupt {
        self.last.store(0, Ordering::Relaxed);
        Interrupt::noted_in(self.last.clone())
    }

    /// From now on, a signal ends the program some time later, unless all of its output is `shown`: a pipe that is full and not
    /// read would keep it. Nothing but output may be lost then.
    pub fn end_without_readers(&self, shown: Arc<Shown>, ui: Ui) {
        let first = self.first.clone();
        let watch = move || {
            let mut since = None;
            while !shown.all.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                // Held until the end, so that no file is begun.
                let Ok(_none) = shown.file.try_lock() else {
                    since = None;
                    continue;
                };
                if first.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                if since.get_or_insert_with(Instant::now).elapsed() >= READING {
                    say_that_nobody_reads(ui);
                    std::process::exit(3);
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().spawn(watch) {
            ui.remark(&format!(
                "a signal does not end this while nobody reads the output: no thread can be started ({error})"
            ));
        }
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        self.released.store(true, Ordering::Relaxed);
    }
}

fn say_that_nobody_reads(ui: Ui) {
    let (sender, said) = channel();
    let say = move || {
        ui.remark("nobody reads the output: the rest of it is lost");
        sender.send(())
    };
    if std::thread::Builder::new().spawn(say).is_ok() {
        let _ = said.recv_timeout(SAYING);
    }
}

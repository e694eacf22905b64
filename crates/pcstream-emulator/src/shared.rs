//! The device behind a lock, by bytes: for a server of requests, and for those who assign streams meanwhile.
//!
//! A write that the buffer has no room for waits for the streams of those before it, but never for ever: see `PATIENCE`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcstream_ssd::{LogicalPage, StreamId};

use crate::PAGE;
use crate::device::{DeviceError, EmulatedDevice, Work};

/// How long a write waits for the streams of those before it when the buffer has no room for all of it: at first, and at
/// least. Each wait in vain halves it, for streams that were lost never come.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_MIN: Duration = Duration::from_millis(50);

/// Between two looks at whether garbage collection is still to be slow.
const BUSY_LOOK: Duration = Duration::from_millis(20);

/// The device, between the server and those who assign streams.
pub struct SharedDevice {
    device: Mutex<EmulatedDevice>,
    assigned: Condvar,
    /// Whether streams have come too late since the last that came.
    late: AtomicBool,
    /// See `PATIENCE`.
    patience_ms: AtomicU64,
    /// Nanoseconds for each page that garbage collection copies.
    gc_page_ns: AtomicU64,
    /// Until when it collects garbage; writes wait for that.
    busy: Mutex<Option<Instant>>,
}

impl SharedDevice {
    /// Nobody waits yet.
    pub(crate) fn new(device: EmulatedDevice) -> SharedDevice {
        SharedDevice {
            device: Mutex::new(device),
            assigned: Condvar::new(),
            late: AtomicBool::new(false),
            patience_ms: AtomicU64::new(PATIENCE.as_millis() as u64),
            gc_page_ns: AtomicU64::new(0),
            busy: Mutex::new(None),
        }
    }

    /// The device, for one caller at a time.
    pub fn lock(&self) -> MutexGuard<'_, EmulatedDevice> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns streams, as `EmulatedDevice::assign`.
    pub fn assign(&self, first: LogicalPage, pages: u32, stream: StreamId) -> Result<(), DeviceError> {
        let result = self.lock().assign(first, pages, stream);
        self.late.store(false, Ordering::Relaxed);
        self.assigned.notify_all();
        result.map(|work| self.collects(work))
    }

    /// Garbage collection begins, after all that is not over yet.
    fn collects(&self, work: Work) {
        let pause =
            Duration::from_nanos(work.gc_pages.saturating_mul(self.gc_page_ns.load(Ordering::Relaxed)));
        if pause.is_zero() {
            return;
        }
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        *busy = busy.unwrap_or(now).max(now).checked_add(pause);
    }

    /// Waits until garbage collection is over, or nobody wants it to be slow any more.
    fn wait_for_collection(&self) {
        while self.gc_page_ns.load(Ordering::Relaxed) > 0 {
            let until = *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(BUSY_LOOK));
        }
    }

    /// Garbage collection takes this long for each page, on top; 0 at first, and again ends what is not over yet.
    pub fn slow_gc(&self, per_page: Duration) {
        self.gc_page_ns.store(u64::try_from(per_page.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Writes bytes, once the buffer has room for them.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let mut device = self.lock();
        let patience = self.patience_ms.load(Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_millis(patience);
        let pages = (offset as usize % PAGE + data.len()).div_ceil(PAGE);
        while !device.has_room(pages) && !self.late.load(Ordering::Relaxed) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.late.store(true, Ordering::Relaxed);
                let less = (patience / 2).max(PATIENCE_MIN.as_millis() as u64);
                self.patience_ms.store(less, Ordering::Relaxed);
                break;
            }
            device = self.assigned.wait_timeout(device, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let work = write_bytes(&mut device, offset, data)?;
        drop(device);
        self.collects(work);
        self.wait_for_collection();
        Ok(())
    }
}

/// Writes bytes; pages that are covered in part keep the rest.
fn write_bytes(device: &mut EmulatedDevice, offset: u64, data: &[u8]) -> Result<Work, DeviceError> {
    let (page, within) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
    if within == 0 && data.len().is_multiple_of(PAGE) {
        return device.write(LogicalPage(page), data);
    }
    let mut whole = vec![0; (within + data.len()).next_multiple_of(PAGE)];
    device.read(LogicalPage(page), &mut whole)?;
    whole[within..within + data.len()].copy_from_slice(data);
    device.write(LogicalPage(page), &whole)
}

/// Reads bytes, up to the device's end.
pub(crate) fn read_bytes(
    device: &mut EmulatedDevice,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, DeviceError> {
    let end = device.pages() * PAGE as u64;
    let bytes = bytes.min(end.saturating_sub(offset) as usize);
    let (page, within) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
    let mut whole = vec![0; (within + bytes).next_multiple_of(PAGE)];
    if bytes > 0 {
        device.read(LogicalPage(page), &mut whole)?;
    }
    whole.truncate(within + bytes);
    Ok(whole.split_off(within))
}

/// Discards the whole pages of a range, and sets the rest of it to zero.
pub(crate) fn punch(device: &mut EmulatedDevice, offset: u64, bytes: u64) -> Result<(), DeviceError> {
    let size = PAGE as u64;
    let end = offset.saturating_add(bytes).min(device.pages() * size);
    let (first, last) = (offset.next_multiple_of(size), end / size * size);
    if first > last {
        return write_bytes(device, offset, &vec![0; end.saturating_sub(offset) as usize]).map(drop);
    }
    device.discard(LogicalPage(first / size), (last - first) / size)?;
    for (from, to) in [(offset, first), (last, end)] {
        if from < to {
            write_bytes(device, from, &vec![0; (to - from) as usize])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pcstream_ssd::DeviceSettings;

    use super::*;
    use crate::device::DeviceOptions;

    /// Of a buffer of 4 pages, pages 0 to 2 are in use, and wait for their streams.
    fn nearly_full(patience_ms: u64) -> Arc<SharedDevice> {
        let settings =
            DeviceSettings { logical_pages: 4096, superblock_pages: 16, streams: 4, ..Default::default() };
        let options = DeviceOptions { settings, buffer_pages: 4, expects_streams: true };
        let shared = SharedDevice::new(EmulatedDevice::new(&options).expect("legal settings"));
        shared.patience_ms.store(patience_ms, Ordering::Relaxed);
        shared.write(0, &[1; 3 * PAGE]).expect("there is room");
        assert!(!shared.late.load(Ordering::Relaxed));
        Arc::new(shared)
    }

    #[test]
    fn a_write_waits_until_there_is_room_for_all_its_pages() {
        let hours = 1 << 24;
        let shared = nearly_full(hours);
        let writer = Arc::clone(&shared);
        let writer = std::thread::spawn(move || writer.write(10 * PAGE as u64, &[2; 4 * PAGE]));
        // Time to write what it must not write yet.
        std::thread::sleep(Duration::from_millis(100));
        assert!(!writer.is_finished());
        shared.assign(LogicalPage(0), 3, StreamId(2)).expect("they are on the device");
        writer.join().expect("no panic").expect("it has power");
        let status = shared.lock().status();
        assert_eq!((status.unassigned_pages, status.buffered_pages), (0, 4));
    }

    #[test]
    fn a_write_whose_room_never_comes_goes_on_and_is_counted() {
        let shared = nearly_full(1);
        // Its last byte is in a second page.
        shared.write(10 * PAGE as u64 + 1, &[2; PAGE]).expect("it has power");
        assert!(shared.late.load(Ordering::Relaxed), "it waited");
        assert_eq!(shared.lock().status().unassigned_pages, 1);
        // Larger than the buffer, and nothing is in it.
        let shared = nearly_full(1);
        shared.assign(LogicalPage(0), 3, StreamId(2)).expect("they are on the device");
        shared.write(10 * PAGE as u64, &[2; 5 * PAGE]).expect("it has power");
        assert!(!shared.late.load(Ordering::Relaxed), "no wait would make room");
        assert_eq!(shared.lock().status().unassigned_pages, 1);
    }

    /// Garbage collection that takes an hour, whoever caused it, ends when it is to be slow no more.
    #[test]
    fn slow_collection_is_waited_for_until_nobody_wants_it() {
        let settings =
            DeviceSettings { logical_pages: 1024, superblock_pages: 16, streams: 2, ..Default::default() };
        let options = DeviceOptions { settings, buffer_pages: 4, expects_streams: false };
        let shared = SharedDevice::new(EmulatedDevice::new(&options).expect("legal settings"));
        shared.slow_gc(Duration::from_secs(3600));
        let collects = || shared.busy.lock().expect("no panic").is_some();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // Until a victim has valid pages.
                let mut pages = (0..1_u64 << 20).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54);
                pages.try_for_each(|page| {
                    shared.write(page * PAGE as u64, &[1; PAGE]).expect("it has power");
                    if collects() { None } else { Some(()) }
                })
            });
            while !collects() {
                assert!(!writer.is_finished(), "it collected nothing");
                std::thread::yield_now();
            }
            assert!(!writer.is_finished());
            shared.slow_gc(Duration::ZERO);
            assert_eq!(writer.join().expect("no panic"), None);
        });
    }
}

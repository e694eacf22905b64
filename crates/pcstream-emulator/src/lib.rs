//! A multi-streamed SSD that carries data.
//!
//! [`EmulatedDevice`] is the model of `pcstream-ssd` with flash pages behind it: what the host writes is programmed
//! where the model says, garbage collection moves it, and a read returns what lies where the map points. It does no
//! I/O and reads no clock. The feature `fuse` adds the module `mount`: the device as a file, which a loop device turns into a
//! block device, on which any file system can be mounted.

pub mod buffer;
pub mod device;
mod flash;
pub mod image;
#[cfg(feature = "fuse")]
pub mod mount;
pub mod power;

pub use device::{DeviceError, DeviceOptions, EmulatedDevice, Status, Work};
pub use power::{Loss, PowerCut};

/// Bytes of a page.
pub const PAGE: usize = 4096;

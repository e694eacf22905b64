#![doc = include_str!("../README.md")]
//! # Modules
//!
//! [`device`] is the device, [`buffer`] the pages that wait for their streams, [`image`] the device as bytes,
//! [`power`] the cuts.

pub mod buffer;
pub mod device;
mod flash;
pub mod image;
#[cfg(feature = "fuse")]
pub mod mount;
pub mod power;
#[cfg(feature = "fuse")]
pub mod process;
#[cfg(feature = "fuse")]
mod run_dir;
#[cfg(feature = "fuse")]
mod shared;

pub use device::{DeviceError, DeviceOptions, EmulatedDevice, Status, Work};
pub use power::{Loss, PowerCut};

/// Bytes of a page.
pub const PAGE: usize = 4096;

//! Device numbers in the encodings of the kernel and of its system calls.

use std::fmt;
use std::str::FromStr;

/// Major and minor number of a block device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct DeviceNumber {
    /// The driver's number.
    pub major: u32,
    /// The device's number within the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the `st_dev` or `st_rdev` of `stat(2)`.
    pub fn from_stat(dev: u64) -> DeviceNumber {
        DeviceNumber { major: libc::major(dev), minor: libc::minor(dev) }
    }

    /// `dev_t` inside the kernel (`MKDEV`), as BPF programs read it.
    pub fn kernel_dev_t(self) -> u32 {
        (self.major << 20) | (self.minor & 0xF_FFFF)
    }

    /// The 32-bit `dev_t` of system calls (`new_encode_dev`).
    pub fn user_dev_t(self) -> u32 {
        (self.minor & 0xFF) | (self.major << 8) | ((self.minor & !0xFF) << 12)
    }
}

impl FromStr for DeviceNumber {
    type Err = NotADevice;

    /// `MAJOR:MINOR`, as sysfs and mountinfo say it.
    fn from_str(text: &str) -> Result<DeviceNumber, NotADevice> {
        let (major, minor) = text.split_once(':').ok_or(NotADevice)?;
        let number = |text: &str| text.parse().map_err(|_| NotADevice);
        Ok(DeviceNumber { major: number(major)?, minor: number(minor)? })
    }
}

/// A text that is no device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected MAJOR:MINOR")]
pub struct NotADevice;

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_in_their_two_encodings() {
        let device = DeviceNumber { major: 259, minor: 0x1234 };
        assert_eq!(device.kernel_dev_t(), (259 << 20) | 0x1234);
        assert_eq!(device.user_dev_t(), 0x34 | (259 << 8) | (0x1200 << 12));
        assert_eq!(DeviceNumber::from_stat(libc::makedev(259, 0x1234)), device);
    }
}

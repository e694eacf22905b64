//! A device's data as a file, with checksums.
//!
//! Logical pages that hold data, in order; wear and the places of pages are not kept, so a device that is loaded is one on
//! which the data was written once, in the order of addresses. Little-endian:
//!
//! | bytes | |
//! |---|---|
//! | 8 | `pcsimage` |
//! | 8 | logical pages of the device |
//! | 8 + 8 + 4096 each | page, XXH3-64 of the page's address and contents, contents |
//! | 8 + 8 | 2^64 - 1, number of pages before |

use std::io::{self, Read, Write};

use pcstream_ssd::LogicalPage;
use twox_hash::XxHash3_64;

use crate::PAGE;
use crate::device::{DeviceError, EmulatedDevice};

const MAGIC: [u8; 8] = *b"pcsimage";
const END: u64 = u64::MAX;
/// More than any device has, for it lies in memory: 64 TiB.
const BYTES_MAX: u64 = 1 << 46;

/// An image that cannot be used. A device that was loading it has pages of it, and is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(io::Error),
    /// It ends too early.
    #[error("it is cut off: the end of the image is missing; use a copy of the image")]
    CutOff,
    /// Another kind of file.
    #[error("it does not begin with 'pcsimage': not the image of an emulated device")]
    Magic,
    /// Of a device of another size.
    #[error("it is of a device of {found} pages, this one has {expected}: {}", remedy(*found))]
    Size {
        /// Its device.
        found: u64,
        /// This device.
        expected: u64,
    },
    /// A page with another checksum.
    #[error(
        "page {page} is damaged: checksum {found:016x}, computed {computed:016x}; use a copy of the image"
    )]
    Checksum {
        /// Which.
        page: u64,
        /// As stored.
        found: u64,
        /// Of the contents.
        computed: u64,
    },
    /// Pages that are not in order, or not of this device.
    #[error("page {page} is out of order or beyond the device: the image is damaged")]
    Order {
        /// Which.
        page: u64,
    },
    /// The end is missing or says another number.
    #[error("it has {found} pages and says {expected}: the image is damaged")]
    Count {
        /// Pages read.
        found: u64,
        /// Pages that should be there.
        expected: u64,
    },
    /// Something follows the end.
    #[error("it goes on after its end: the image is damaged; use a copy of the image")]
    GoesOn,
    /// The device refuses.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl From<io::Error> for ImageError {
    fn from(error: io::Error) -> ImageError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ImageError::CutOff,
            _ => ImageError::Io(error),
        }
    }
}

/// What to do about an image of a device of so many pages.
fn remedy(pages: u64) -> String {
    match pages.checked_mul(PAGE as u64).filter(|bytes| (1..=BYTES_MAX).contains(bytes)) {
        Some(bytes) => format!("use --size {bytes}"),
        None => "no device has that size, so the image is damaged; use a copy of the image".to_owned(),
    }
}

fn checksum(page: u64, data: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(page, data)
}

/// Writes what the device holds. Errors: of the writer.
pub fn save(device: &EmulatedDevice, out: &mut impl Write) -> Result<(), ImageError> {
    out.write_all(&MAGIC)?;
    out.write_all(&device.pages().to_le_bytes())?;
    let mut count = 0u64;
    for page in 0..device.pages() {
        let Some(data) = device.page(LogicalPage(page)) else { continue };
        out.write_all(&page.to_le_bytes())?;
        out.write_all(&checksum(page, data).to_le_bytes())?;
        out.write_all(data)?;
        count += 1;
    }
    out.write_all(&END.to_le_bytes())?;
    Ok(out.write_all(&count.to_le_bytes())?)
}

/// Writes an image's pages to an empty device, and counts from then on.
pub fn load(device: &mut EmulatedDevice, input: &mut impl Read) -> Result<(), ImageError> {
    match long(input) {
        Ok(magic) if magic == u64::from_le_bytes(MAGIC) => {}
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
        _ => return Err(ImageError::Magic),
    }
    let found = long(input)?;
    if found != device.pages() {
        return Err(ImageError::Size { found, expected: device.pages() });
    }
    let (mut next, mut count) = (0, 0);
    let mut data = vec![0; PAGE];
    loop {
        let (page, stored) = (long(input)?, long(input)?);
        if page == END {
            if stored != count {
                return Err(ImageError::Count { found: count, expected: stored });
            }
            if input.read(&mut data)? > 0 {
                return Err(ImageError::GoesOn);
            }
            break;
        }
        if page < next || page >= device.pages() {
            return Err(ImageError::Order { page });
        }
        input.read_exact(&mut data)?;
        let computed = checksum(page, &data);
        if stored != computed {
            return Err(ImageError::Checksum { page, found: stored, computed });
        }
        device.write(LogicalPage(page), &data)?;
        (next, count) = (page + 1, count + 1);
    }
    device.start_counting();
    Ok(())
}

fn long(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
